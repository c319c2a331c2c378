"""What a terminal was sent, as text a person reads."""

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kildsvc.shim.text import LINE_MAX, SEQUENCE_MAX, Cleaner, tidy


def clean(*pieces: bytes) -> str:
    """The text of all pieces, without the newline at its end."""
    cleaner = Cleaner()
    texts = [cleaner.feed(piece) for piece in pieces] + [cleaner.feed(b"", final=True)]
    assert cleaner.between_lines
    return "".join(texts).removesuffix("\n")


def halves(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(data[:at], data[at:]) for at in range(len(data) + 1)]


SEQUENCES = {
    "colour": b"\x1b[1;31m",
    "true colour": b"\x1b[38:2::255:0:0m",
    "private mode": b"\x1b[?2004h",
    "cursor shape": b"\x1b[2 q",
    "title ended by BEL": b"\x1b]0;a title\x07",
    "title ended by ST": b"\x1b]2;a title\x1b\\",
    "link": b"\x1b]8;;http://x/\x1b\\",
    "DCS over lines": b"\x1bPq#0\n#1\r\n#2\x1b\\",
    "APC over lines": b"\x1b_Gf=24;AAAA\nBBBB\x1b\\",
    "PM": b"\x1b^secret\x1b\\",
    "SOS": b"\x1bXsecret\x1b\\",
    "charset": b"\x1b(B",
    "keypad": b"\x1b=",
    "save cursor": b"\x1b7",
    "reset": b"\x1bc",
}


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_a_sequence_is_not_shown_wherever_the_feed_is_cut(sequence: bytes) -> None:
    data = b"be" + sequence + b"fore\nafter" + sequence + b"\n"
    assert clean(data) == "before\nafter"
    for first, second in halves(data):
        assert clean(first, second) == "before\nafter", (first, second)
    assert clean(*(bytes([byte]) for byte in data)) == "before\nafter"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\ntwo\r\n", "one\ntwo"),
        (b" 10%\r 50%\r100%\n", "100%"),
        (b" 10%\r 50%\r100%\r\n", "100%"),
        (b"working\r\x1b[K\rdone\n", "done"),
        (b"abd\x08c\n", "abc"),
        (b"abc\x08\x08\x08xyz\n", "xyz"),
        (b"\x08\x08a\n", "a"),
        (b"first\n\x08second\n", "first\nsecond"),
        (b"a\tb\n", "a\tb"),
        (b"nul\x00 bell\x07 del\x7f\n", "nul bell del"),
        (b"bad\xff\xfebytes\n", "bad\ufffd\ufffdbytes"),
        ("grün 日本 🙂\n".encode(), "grün 日本 🙂"),
        ("c1 \x85\x9b\n".encode(), "c1 "),
        (b"no newline at the end", "no newline at the end"),
        (b"cut \x1b[3", "cut "),
        (b"cut \x1b]0;ti", "cut "),
        (b"cut \xe6\x97", "cut \ufffd"),
    ],
)
def test_what_remains_is_what_a_terminal_would_show(data: bytes, text: str) -> None:
    assert clean(data) == text
    for first, second in halves(data):
        assert clean(first, second) == text, (first, second)


def test_blank_lines_inside_a_feed_are_kept() -> None:
    assert Cleaner().feed(b"a\n\n\nb\n") == "a\n\n\nb\n"


def test_an_unfinished_line_waits_for_its_end() -> None:
    cleaner = Cleaner()
    assert cleaner.feed(b"one\nhalf of ") == "one\n"
    assert not cleaner.between_lines
    assert cleaner.feed(b"two\n") == "half of two\n"
    assert cleaner.between_lines


@pytest.mark.parametrize(
    "held", [b"text", b"\x1b", b"\x1b[1", b"\x1b]0;", b"\x1b]" + b"x" * (SEQUENCE_MAX + 1), b"\xe6"]
)
def test_it_is_not_between_lines_while_anything_is_held(held: bytes) -> None:
    cleaner = Cleaner()
    cleaner.feed(b"line\n" + held)
    assert not cleaner.between_lines


def test_a_line_of_200_kb_comes_through_whole() -> None:
    line = "".join(f"{number:07} " for number in range(25_000))
    data = f"before\n{line}\nafter\n".encode()
    for step in (4095, LINE_MAX, 64 * 1024, len(data)):
        cleaner = Cleaner()
        pieces = [cleaner.feed(data[at : at + step]) for at in range(0, len(data), step)]
        pieces.append(cleaner.feed(b"", final=True))
        text = "".join(pieces)
        assert text.replace("\n", "") == f"before{line}after"
        # The lines beside it stay lines of their own, in the same entry or in another one.
        assert "before" in [first for piece in pieces for first in piece.split("\n")]
        assert "after" in [last for piece in pieces for last in piece.split("\n")]


@pytest.mark.parametrize("end", [b"\x07", b"\x1b\\"])
def test_a_string_too_long_to_keep_still_ends_wherever_the_feed_is_cut(end: bytes) -> None:
    image = b"\x1b_G" + b"A" * (SEQUENCE_MAX + 10)
    for first, second in halves(end + b"after\n"):
        assert clean(b"before ", image, first, second) == "before after", (first, second)


def test_a_control_sequence_without_end_does_not_swallow_what_follows() -> None:
    assert clean(b"\x1b[" + b"1" * (SEQUENCE_MAX + 10), b"m\nafter\n", b"later\n").endswith("after\nlater")


def test_a_string_without_end_does_not_keep_the_line_before_it() -> None:
    assert clean(b"error: no key\x1b]0;" + b"x" * (SEQUENCE_MAX + 10)) == "error: no key"


@given(st.lists(st.sampled_from([*SEQUENCES.values(), b"text", b"\n", b"\r", b"\x08", "日".encode()])), st.data())
def test_sequences_cut_anywhere_give_the_same_text(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    at = data.draw(st.integers(0, len(stream)))
    assert clean(stream[:at], stream[at:]) == clean(stream)


pieces_of_trouble = st.lists(
    st.sampled_from(
        [b"\x1b", b"[", b"]", b"P", b"\\", b"\x07", b"\x18", b"1;", b"m", b"a", b"\x08", b"\r", b"\n", b" "]
    )
    | st.binary(max_size=4)
).map(b"".join)


@given(pieces_of_trouble, pieces_of_trouble)
@example(b"\x1b\x1b[0m", b"[31mtext\n")
@example(b"\x1b]0;ti\x1b[0m", b"tle\x07text\n")
def test_broken_sequences_cut_anywhere_give_the_same_text(first: bytes, second: bytes) -> None:
    assert clean(first, second) == clean(first + second)


@given(st.lists(st.binary() | pieces_of_trouble))
@example([b"\x1b]", b"\x1b\x1b\\", b"\xc2", b"\x9b"])
def test_no_control_character_ever_comes_out(pieces: list[bytes]) -> None:
    cleaner = Cleaner()
    texts = [cleaner.feed(piece) for piece in pieces] + [cleaner.feed(b"", final=True)]
    controls = {char for text in texts for char in text if unicodedata.category(char) == "Cc"}
    assert controls <= {"\n", "\t"}
    assert cleaner.between_lines


@given(st.text())
def test_tidy_leaves_plain_text_alone(text: str) -> None:
    plain = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text).strip("\n")
    assert tidy(plain) == plain


MEGABYTE = 1 << 20
PATHOLOGICAL = {
    "ESC": b"\x1b" * MEGABYTE,
    "OSC begins": b"\x1b]" * (MEGABYTE // 2),
    "CSI begins": b"\x1b[" * (MEGABYTE // 2),
    "one OSC": b"\x1b]" + b"x" * MEGABYTE,
    "one DCS": b"\x1bP" + b"\n" * MEGABYTE,
    "one CSI of digits": b"\x1b[" + b"1" * MEGABYTE,
    "one CSI of digits and blanks": b"\x1b[" + b"1" * (MEGABYTE // 2) + b" " * (MEGABYTE // 2),
    "one escape of blanks": b"\x1b" + b" " * MEGABYTE,
    "backspaces": b"\x08" * MEGABYTE,
    "letters, each erased": b"a\x08" * (MEGABYTE // 2),
    "letters, then all erased": b"a" * (MEGABYTE // 2) + b"\x08" * (MEGABYTE // 2),
    "letters, then all erased, again": (b"a" * 0x8000 + b"\x08" * 0x8000) * 16,
    "returns": b"\r" * MEGABYTE,
    "progress": b"\r1%" * (MEGABYTE // 3),
    "newlines": b"\n" * MEGABYTE,
    "nothing but 0xff": b"\xff" * MEGABYTE,
}


# 64 KiB is what the shim feeds at a time; all at once is what reading a saved file does.
@pytest.mark.timeout(20)
@pytest.mark.parametrize("step", [64 * 1024, MEGABYTE + 2], ids=["in batches", "at once"])
@pytest.mark.parametrize("data", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_a_megabyte_of_the_worst_takes_no_time_to_speak_of(data: bytes, step: int) -> None:
    cleaner = Cleaner()
    for at in range(0, len(data), step):
        cleaner.feed(data[at : at + step])
    cleaner.feed(b"", final=True)
    assert cleaner.between_lines
