"""Of programs that repaint their screen: every line of the transcript, in order, once, and not much else."""

import random
import unicodedata

import pytest
import standin
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kildsvc.shim.text import Cleaner

few = settings(max_examples=4)

STYLES = pytest.mark.parametrize("style", standin.STYLES)
HEIGHTS = pytest.mark.parametrize("rows", [40, 24])


def play(cleaner: Cleaner, data: bytes, cuts: list[int] | None = None) -> list[str]:
    """The lines that come of it, fed in pieces that end there."""
    ends = sorted({*(cuts or range(4096, len(data), 4096)), len(data)})
    texts = [cleaner.feed(data[start:end]) for start, end in zip([0, *ends], ends, strict=False)]
    return "".join([*texts, cleaner.feed(b"", final=True)]).splitlines()


def judge(lines: list[str], transcript: list[str], others: float = 0.2) -> None:
    known = set(transcript)
    told = [line for line in lines if line in known]
    # Not compared as lists: pytest would take minutes to explain the difference.
    wrong = next((at for at, (is_, should) in enumerate(zip(told, transcript, strict=False)) if is_ != should), None)
    assert (wrong, len(told)) == (None, len(transcript)), told[wrong or 0 : (wrong or 0) + 5]
    assert len(lines) - len(transcript) <= len(lines) * others


# -- (a) and (b): agents ------------------------------------------------------------------------------------


@HEIGHTS
@STYLES
def test_every_line_in_order_once(style: str, rows: int) -> None:
    transcript = standin.transcript()
    data = "".join(standin.STYLES[style](transcript, rows, 30)).encode()
    judge(play(Cleaner(rows, 80), data), transcript)


@HEIGHTS
@STYLES
@few
@given(seed=st.integers(0, 1 << 32))
def test_the_same_wherever_the_feed_is_cut(style: str, rows: int, seed: int) -> None:
    transcript = standin.transcript(200)
    data = "".join(standin.STYLES[style](transcript, rows, 12)).encode()
    pick = random.Random(seed)
    cuts = [pick.randrange(len(data)) for _ in range(pick.choice([10, 1000, 20_000]))]
    judge(play(Cleaner(rows, 80), data, cuts), transcript)


@STYLES
def test_after_a_shell_and_before_one(style: str) -> None:
    """What is printed plainly before and after is all there, in its place."""
    before, after = [f"before {i}" for i in range(100)], [f"after {i}" for i in range(300)]
    transcript = standin.transcript(300)
    shown = "".join(standin.STYLES[style](transcript, 24, 10))
    data = "\r\n".join([*before, shown, *after, ""]).encode()
    judge(play(Cleaner(), data), [*before, *transcript, *after])


def test_a_frame_that_grows_and_shrinks() -> None:
    transcript = standin.transcript(200)
    data = ""
    height = 0
    for number, line in enumerate(transcript):
        data += f"\x1b[{height}A\r\x1b[J" if height else ""
        height = 3 + number // 10 % 12
        data += f"{line}\r\n" + "".join(f"frame row {row} of {number}\r\n" for row in range(height))
    judge(play(Cleaner(), data.encode()), transcript)


def test_long_lines_are_whole_again() -> None:
    transcript = [f"{i:03} " + "word and " * (i % 40) + "end" for i in range(100)]
    shown = "".join(standin.up_and_erase(transcript, 24, 6))
    lines = play(Cleaner(), shown.encode())
    # Plain until the first repaint, so the first ones are whole anyway.
    assert [line for line in lines if line in set(transcript)] == transcript


def test_bursts_of_lines_between_frames() -> None:
    transcript = standin.transcript()
    data = ""
    for at in range(0, 500, 100):
        data += ("\x1b[11A\x1b[J" if at else "") + "".join(f"{line}\r\n" for line in transcript[at : at + 100])
        data += "".join(f"frame row {row} at {at}\r\n" for row in range(11))
    judge(play(Cleaner(), data.encode()), transcript)


# -- (c) and (d): progress, plain programs ------------------------------------------------------------------


def pull(layers: int, steps: int) -> str:
    """As docker does: one line for each layer, each rewritten where it stands."""
    names = [f"layer{i:02}" for i in range(layers)]
    data = "".join(f"{name}: Waiting\r\n" for name in names)
    for step in range(steps):
        for i, name in enumerate(names):
            up = layers - i
            state = "Pull complete" if step == steps - 1 else f"Downloading {step}/{steps} MB"
            data += f"\x1b[{up}A\x1b[2K\r{name}: {state}\r\x1b[{up}B"
    return data


def test_progress_in_many_lines_then_plain_ones() -> None:
    after = [f"Step {i}: done" for i in range(200)]
    data = "Pulling\r\n" + pull(8, 50) + "".join(f"{line}\r\n" for line in after)
    lines = play(Cleaner(), data.encode())
    done = [f"layer{i:02}: Pull complete" for i in range(8)]
    assert [line for line in lines if line in {*done, *after}] == [*done, *after]
    assert len(lines) <= 1 + 8 + 8 + 200, "the lines as they were first, and as they are in the end"


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_plain_program_is_line_exact_and_at_once(end: bytes) -> None:
    cleaner = Cleaner()
    for i in range(1000):
        assert cleaner.feed(b"\x1b[32mline\x1b[0m %d" % i + end) == f"line {i}\n"
        assert cleaner.between_lines


def test_it_is_plain_again_after_a_clear() -> None:
    cleaner = Cleaner()
    assert cleaner.feed(b"one\r\n\x1b[H\x1b[2J\x1b[3J") == "one\n"
    for i in range(500):
        assert cleaner.feed(b"line %d\r\n" % i) == f"line {i}\n"
    assert cleaner.between_lines


def test_what_is_printed_again_later_is_told_again() -> None:
    cleaner = Cleaner()
    told = ""
    for _ in range(3):
        told += (
            cleaner.feed(b"\x1b[H\x1b[2J$ make\r\n")
            + cleaner.tick()
            + cleaner.feed(b"all good\r\n$ ")
            + cleaner.tick()
        )
    assert told.count("all good\n") == 3


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"10%\x1b[G20%\x1b[1G30%\n", "30%"),
        (b"two\x1b[Cwords\n", "two words"),
        (b"abx\x1b[1Dc\n", "abc"),
        (b"one\r\ntwo\r\n\x1b[2Aone!\r\n\r\n", "one\ntwo\none!"),
        (b"\x1b[5;3Hdeep\r\n", "\n\n\n\n  deep"),
        (b"\x1b[A\xe6\x97\xa5\xe6\x9c\xac\x1b[2D\xe8\xaa\x9e\r\n", "日語"),
        (b"\x1b[A\xe6\x97\xa5\xe6\x9c\xac\x1b[3Dx\r\n", " x本"),
        (b"\x1b[Ae\xcc\x81a\r\n", "e\u0301a"),
        (b"\x1b[Aabcdef\x1b[4D\x1b[2P\x1b[@\r\n", "ab ef"),
    ],
)
def test_the_screen_is_what_a_terminal_has(data: bytes, text: str) -> None:
    cleaner = Cleaner()
    assert (cleaner.feed(data) + cleaner.feed(b"", final=True)).rstrip("\n") == text


# -- time ---------------------------------------------------------------------------------------------------


def test_a_frame_that_stands_still_is_told_once() -> None:
    cleaner = Cleaner()
    told = cleaner.feed(b"hello\r\n\x1b[AHello\r\n+-----+\r\n| ok? |\r\n+-----+\r\n> ")
    assert not cleaner.settled
    assert told + cleaner.tick() + cleaner.tick() == "hello\nHello\n+-----+\n| ok? |\n+-----+\n"
    assert cleaner.settled
    cleaner.feed(b"\x1b[3A\r\x1b[J+-----+\r\n| ok! |\r\n+-----+\r\n> ")
    assert cleaner.tick() + cleaner.tick() == "| ok! |\n"


def test_the_alternate_screen_is_told_when_it_stands_still() -> None:
    cleaner = Cleaner()
    cleaner.feed(b"\x1b[?1049h\x1b[HTitle\x1b[3Hsome text\x1b[24Hstatus 1")
    assert cleaner.tick() + cleaner.tick() == "Title\nsome text\nstatus 1\n"
    cleaner.feed(b"\x1b[3Hother text")
    assert cleaner.tick() + cleaner.tick() == "other text\n"
    assert cleaner.settled
    assert cleaner.feed(b"\x1b[?1049l$ ", final=True) == "$\n"


def test_lines_after_a_progress_do_not_wait_for_more_than_a_tick() -> None:
    cleaner = Cleaner()
    cleaner.feed(pull(5, 5).encode() + b"done\r\n")
    cleaner.tick()
    cleaner.feed(b"compiling\r\n")
    assert "done\ncompiling\n" in cleaner.tick() + cleaner.tick()


# -- a flood of repaints ------------------------------------------------------------------------------------


def test_what_is_skipped_is_announced() -> None:
    cleaner = Cleaner()
    cleaner.feed(b"one\r\n\x1b[Atwo\r\n")
    assert cleaner.skip(b"\x1b[Athree\r\n" * 100) == ""
    assert cleaner.repainting
    assert cleaner.feed(b"\x1b[Afour\r\n").startswith("[… 1000 bytes of repaints not shown]\n")
    # Plain output is cheap: it is never skipped.
    assert "five\n" in cleaner.skip(b"five\r\n")
    assert not cleaner.repainting


@pytest.mark.parametrize("switch", ["47", "1047", "1049"])
def test_a_screen_that_shrank_above_the_cursor_is_left_for_the_other_one(switch: str) -> None:
    cleaner = Cleaner(24, 80)
    cleaner.feed(b"one\r\ntwo\r\n\x1b[A\x1b[5S")
    cleaner.resize(2, 80)
    text = cleaner.feed(f"\x1b[?{switch}h\x1b[Kover there".encode())
    assert "over there" in text + cleaner.feed(b"", final=True)


# -- any bytes ----------------------------------------------------------------------------------------------

moves = st.builds(
    lambda numbers, final: f"\x1b[{';'.join(map(str, numbers))}{final}".encode(),
    st.lists(st.integers(0, 60) | st.sampled_from([999, 65536, 10**9]), max_size=3),
    st.sampled_from("ABCDEFGHJKLMPSTX@dfrsu`"),
)
others = st.sampled_from(
    [
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[?2026h",
        b"\x1b[?2026l",
        b"\x1bM",
        b"\x1bD",
        b"\x1bE",
        b"\x1b7",
        b"\x1b8",
        b"\x1bc",
        b"\r\n",
        b"\n",
        b"\r",
        b"\t",
        b"\x08",
        b"text",
        b"x" * 100,
        "日本🙂e\u0301".encode(),
        b"\n" * 70,
    ]
)
streams = st.lists(st.lists(moves | others | st.binary(max_size=3)).map(b"".join))


@pytest.mark.timeout(240)
@settings(max_examples=150)
@given(streams, st.integers(0, 50), st.integers(0, 100), st.data())
@example([b"\x1b[A", b"\x1b[2;5r\x1b[9;9H" + b"\n" * 500], 24, 80, None)
@example([b"\x1b[M\x1b[A" + b"x" * 100 + b"\x1b[?1049htext"], 0, 1, None)  # up, beyond the screen, to the other one
def test_no_bytes_are_too_much(pieces: list[bytes], rows: int, cols: int, data: st.DataObject | None) -> None:
    cleaner = Cleaner(rows, cols)
    texts = []
    for piece in pieces:
        texts.append(cleaner.feed(piece))
        act = data.draw(st.integers(0, 9)) if data else 9
        if act == 0:
            texts.append(cleaner.tick())
        elif act == 1:
            cleaner.resize(data.draw(st.integers(0, 400)), data.draw(st.integers(0, 400)))  # type: ignore[union-attr]
        elif act == 2:
            texts.append(cleaner.skip(piece))
    texts.append(cleaner.feed(b"", final=True))
    assert {char for text in texts for char in text if unicodedata.category(char) == "Cc"} <= {"\n", "\t"}
    assert cleaner.between_lines


MEGABYTE = 1 << 20
PATHOLOGICAL = {
    "up": b"\x1b[A",
    "up and a letter": b"\x1b[Aa\r\n",
    "to and fro on the alternate screen": b"\x1b[?1049h\x1b[2Ha\x1b[1Hb",
    "in and out of the alternate screen": b"\x1b[?1049h\x1b[?1049l",
    "in and out of the model": b"\x1b[r" + b"\r\n" * 9,
    "clears": b"\x1b[H\x1b[2Ja\r\n",
    "clears of a full screen": b"\x1b[H\x1b[2J" + b"ab\r\n" * 30,
    "scrolls by thousands": b"\x1b[9999S\x1b[9999L",
    "combining": b"\x1b[H" + "\u0301".encode() * 4000,
    "insertions": b"\x1b[H\x1b[999@a",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_a_quarter_of_a_megabyte_of_the_worst_is_bounded(unit: bytes) -> None:
    data = (unit * (MEGABYTE // 4 // len(unit) + 1))[: MEGABYTE // 4]
    cleaner = Cleaner(50, 200)
    for at in range(0, len(data), 64 * 1024):
        cleaner.feed(data[at : at + 64 * 1024])
    cleaner.feed(b"", final=True)
    assert cleaner.between_lines
