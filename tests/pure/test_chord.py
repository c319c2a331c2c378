"""The detach keys, as terminals send them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.chord import Chord, parse

SPACE = {
    "plain": b"\x00",
    "kitty": b"\x1b[32;5u",
    "kitty with event": b"\x1b[32;5:1u",
    "kitty with caps lock": b"\x1b[32;69u",
    "kitty with num lock": b"\x1b[32;133u",
    "modifyOtherKeys": b"\x1b[27;5;32~",
}
Q = {
    "plain": b"\x11",
    "kitty": b"\x1b[113;5u",
    "kitty with event": b"\x1b[113;5:1u",
    "kitty with caps lock": b"\x1b[113;69u",
    "kitty with num lock": b"\x1b[113;133u",
    "modifyOtherKeys": b"\x1b[27;5;113~",
}
CHORDS = [first + second for first, second in itertools.product(SPACE.values(), Q.values())]


def type_all(*pieces: bytes, chord: str = "ctrl-space ctrl-q") -> tuple[bytes, bool]:
    """Everything passed on, with what is held at the end; and whether the chord was complete."""
    keys = Chord(chord)
    passed = b""
    for piece in pieces:
        now, complete = keys.feed(piece)
        passed += now
        if complete:
            return passed, True
    return passed + keys.release(), False


@pytest.mark.parametrize("keys", CHORDS)
def test_the_chord_is_known_in_every_encoding_and_cut_at_every_place(keys: bytes) -> None:
    for at in range(len(keys) + 1):
        assert type_all(b"ls\r" + keys[:at], keys[at:]) == (b"ls\r", True)
    assert type_all(*(bytes([byte]) for byte in keys)) == (b"", True)


@pytest.mark.parametrize(
    "keys",
    [
        b"\x00",
        b"\x11",
        b"\x00x",
        b"\x00\x00",
        b"\x11\x00",
        b"\x1b",
        b"\x1b[",
        b"\x1b[A",
        b"\x1b[32;5",
        b"\x00\x1b[113;5A",
    ],
)
def test_a_partial_chord_is_passed_on_unchanged(keys: bytes) -> None:
    for at in range(len(keys) + 1):
        assert type_all(keys[:at], keys[at:]) == (keys, False)


def test_a_chord_right_after_a_false_start_counts() -> None:
    assert type_all(b"\x00\x00\x11") == (b"\x00", True)


def test_what_may_become_the_chord_is_held_until_released() -> None:
    keys = Chord()
    assert keys.feed(b"x\x00") == (b"x", False)
    assert keys.patience_sec is not None
    assert keys.release() == b"\x00"
    assert keys.patience_sec is None
    assert keys.release() == b""
    assert keys.feed(b"\x11") == (b"\x11", False)


@pytest.mark.parametrize("release", [b"\x1b[113;5:3u", b"\x1b[113;133:3u"])
def test_letting_a_key_go_is_not_pressing_it(release: bytes) -> None:
    assert type_all(b"\x00" + release) == (b"\x00" + release, False)
    assert type_all(SPACE["kitty"].replace(b"u", b":3u") + b"\x11") == (b"\x1b[32;5:3u\x11", False)


def test_the_chord_is_known_when_the_terminal_tells_of_keys_let_go() -> None:
    # kitty's "report event types": the first key is let go before the second is pressed.
    assert type_all(b"\x1b[32;5:1u\x1b[32;5:3u\x1b[113;5:1u") == (b"", True)
    assert type_all(b"\x1b[32;5u\x1b[32;5:3u\x1b[113;5u") == (b"", True)


@pytest.mark.parametrize("keys", [b"\x1b[32u", b"\x1b[32;2u", b"\x1b[32;7u", b"\x1b[27;2;32~"])
def test_the_key_without_ctrl_or_with_more_is_another_key(keys: bytes) -> None:
    assert type_all(keys + b"\x11") == (keys + b"\x11", False)


@pytest.mark.parametrize(
    ("chord", "keys"),
    [
        ("ctrl-a ctrl-d", b"\x01\x04"),
        ("ctrl-q", b"\x11"),
        ("Ctrl-Q", b"\x11"),
        ("ctrl-\\", b"\x1c"),
        ("ctrl-]", b"\x1d"),
        ("ctrl-^", b"\x1e"),
        ("ctrl-_", b"\x1f"),
        ("ctrl-@ ctrl-q", b"\x00\x11"),
        ("ctrl-a ctrl-a ctrl-a", b"\x01\x01\x01"),
    ],
)
def test_another_chord_can_be_chosen(chord: str, keys: bytes) -> None:
    assert type_all(keys, chord=chord) == (b"", True)


@pytest.mark.parametrize(
    "chord", ["", "  ", "q", "ctrl-", "ctrl-1", "ctrl-qq", "ctrl-[", "alt-q", "ctrl-q d", "ctrl-é"]
)
def test_a_chord_that_cannot_be_typed_is_refused(chord: str) -> None:
    with pytest.raises(ValueError, match=r"not a key|no keys"):
        parse(chord)


near_misses = st.lists(
    st.sampled_from([b"\x00", b"\x11", b"\x1b", b"[", b"32;5", b"113;5", b"u", b"27;5;", b"~", b":3", b"a"])
    | st.binary(max_size=3)
)


@given(near_misses)
def test_whatever_is_not_the_chord_reaches_the_agent_unchanged(pieces: list[bytes]) -> None:
    typed = b"".join(pieces)
    passed, complete = type_all(*pieces)
    if any(keys in typed for keys in CHORDS):
        assert complete
    if complete:
        assert typed.startswith(passed)
    else:
        assert passed == typed


def test_a_lone_escape_is_hardly_held() -> None:
    chord = Chord()
    assert chord.feed(b"\x1b") == (b"", False)
    assert chord.patience_sec is not None
    assert chord.patience_sec <= 0.05
    assert chord.release() == b"\x1b"
    chord.feed(b"\0")
    assert chord.patience_sec == 0.5
