"""Questions to the terminal are answered when nobody is attached: whole, split, in a flood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.shim.modes import Modes
from kildsvc.shim.queries import QUERY, Answerer, cursor

ANSWERS = {
    "DA1": (b"\x1b[c", b"\x1b[?62;22c"),
    "DA1 with 0": (b"\x1b[0c", b"\x1b[?62;22c"),
    "DA2": (b"\x1b[>c", b"\x1b[>41;390;0c"),
    "DA3": (b"\x1b[=c", b"\x1bP!|00000000\x1b\\"),
    "DSR 5": (b"\x1b[5n", b"\x1b[0n"),
    "DSR 6": (b"\x1b[3;7H\x1b[6n", b"\x1b[3;7R"),
    "DECXCPR": (b"\x1b[2J\x1b[4;2H\x1b[?6n", b"\x1b[?4;2;1R"),
    "XTVERSION": (b"\x1b[>0q", b"\x1bP>|kildsvc(9.9)\x1b\\"),
    "kitty": (b"\x1b[>5u\x1b[?u", b"\x1b[?5u"),
    "kitty, never set": (b"\x1b[?u", b"\x1b[?0u"),
    "DECRQM set": (b"\x1b[?2004h\x1b[?2004$p", b"\x1b[?2004;1$y"),
    "DECRQM reset": (b"\x1b[?2026$p", b"\x1b[?2026;2$y"),
    "DECRQM on by default": (b"\x1b[?25$p", b"\x1b[?25;1$y"),
    "DECRQM unknown": (b"\x1b[?4242$p", b"\x1b[?4242;0$y"),
    "foreground": (b"\x1b]10;?\x07", b"\x1b]10;rgb:cccc/cccc/cccc\x07"),
    "background by ST": (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    "palette": (b"\x1b]4;1;?\x07", b"\x1b]4;1;rgb:cdcd/0000/0000\x07"),
    "colour cube": (b"\x1b]4;196;?\x07", b"\x1b]4;196;rgb:ffff/0000/0000\x07"),
    "grey": (b"\x1b]4;255;?\x07", b"\x1b]4;255;rgb:eeee/eeee/eeee\x07"),
    "size": (b"\x1b[18t", b"\x1b[8;24;80t"),
    "XTGETTCAP": (b"\x1bP+q544e\x1b\\", b"\x1bP0+r\x1b\\"),
    "DECRQSS": (b"\x1bP$qm\x1b\\", b"\x1bP0$r\x1b\\"),
}
NOT_ASKED = [
    b"\x1b[31m",
    b"\x1b[?25l",
    b"\x1b]11;#000000\x07",
    b"\x1b]0;c? n? \x07",
    b"\x1b[2J",
    b"[6n",
    b"\x1b[7m6n",
]


class Terminal:
    """Feeds an Answerer as the shim does."""

    def __init__(self) -> None:
        self.answerer = Answerer("9.9")
        self.output = b""

    def feed(self, data: bytes) -> bytes:
        self.output += data
        return self.answerer.feed(data, self.look)

    def look(self) -> tuple[Modes, int, int, bytes]:
        modes = Modes()
        modes.feed(self.output)
        return modes, 24, 80, self.output


@pytest.mark.parametrize(("data", "answer"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answered_wherever_it_is_split(data: bytes, answer: bytes) -> None:
    for cut in range(len(data) + 1):
        terminal = Terminal()
        replies = terminal.feed(b"text " + data[:cut]) + terminal.feed(data[cut:] + b" more")
        assert replies == answer, cut


def test_what_is_no_question_gets_no_answer() -> None:
    terminal = Terminal()
    assert b"".join(terminal.feed(data) for data in NOT_ASKED) == b""


def test_a_flood_with_one_question_in_it() -> None:
    terminal = Terminal()
    block = b"\x1b[32mok\x1b[0m some line of output\r\n" * 2000
    replies = [terminal.feed(block) for _ in range(20)]
    replies.append(terminal.feed(block + b"\x1b[c" + block))
    assert b"".join(replies) == b"\x1b[?62;22c"


@given(st.binary(max_size=200))
def test_any_bytes_are_survived(data: bytes) -> None:
    terminal = Terminal()
    for at in range(0, len(data), 7):
        terminal.feed(data[at : at + 7])
    assert len(terminal.answerer._carry) <= 400
    assert QUERY.sub(b"", QUERY.sub(b"", data)) is not None


@pytest.mark.parametrize(
    ("output", "place"),
    [
        (b"", (1, 1)),
        (b"$ codex\r\n", (2, 1)),
        (b"one\r\ntwo\r\nthree", (3, 6)),
        (b"x" * 80, (1, 80)),
        (b"x" * 81, (2, 2)),
        (b"\r\n" * 100, (24, 1)),
        (b"\x1b[10;20Habc", (10, 23)),
        (b"\x1b[10;20H\x1b[3A\x1b[2D", (7, 18)),
        (b"\x1b[5;5H\x1b7\x1b[H\x1b8", (5, 5)),
        (b"a\tb", (1, 10)),
        (b"ab\x08", (1, 2)),
        (b"\x1b]0;title\x07\x1b[31mred\x1b[0m", (1, 4)),
        ("ünï".encode(), (1, 4)),
        (b"\x1b[999;999H", (24, 80)),
    ],
)
def test_where_the_cursor_is(output: bytes, place: tuple[int, int]) -> None:
    assert cursor(output, 24, 80) == place
