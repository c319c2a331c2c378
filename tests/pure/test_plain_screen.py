"""The screen without the terminal engine: the same text as with it."""

import pytest
import standin
from hypothesis import given, settings
from hypothesis import strategies as st

from kildsvc.plain_screen import PlainScreen
from kildsvc.screen import Screen

# As full-screen programs do it: insert and delete, scroll regions, erase, both screens, wide characters.
EDITOR = (
    "shell$ edit\r\n\x1b[?1049h\x1b[H\x1b[2J"
    + "\r\n".join(f"line {i} 日本" for i in range(24))
    + "\x1b[1;23r\x1b[5;1H\x1b[2L"
    "new\x1b[10;3H\x1b[3M\x1b[2;2H\x1b[4P\x1b[3@\x1b[6X\x1b[23;1H\n\n\x1b[1;1H\x1bM\x1b[r\x1b[24;1Hstatus\x1b[K"
)


@pytest.mark.parametrize(
    "data",
    [
        *("".join(play(standin.transcript(60), 24, 30)) for play in standin.STYLES.values()),
        EDITOR,
        EDITOR + "\x1b[?1049l$ ",
    ],
    ids=[*standin.STYLES, "editor", "after it"],
)
def test_it_shows_what_the_engine_shows(data: str) -> None:
    stream = data.encode()
    for end in (*range(len(stream) // 5, len(stream), len(stream) // 5), len(stream)):
        plain, engine = PlainScreen(24, 80, 50), Screen(24, 80, 50)
        for screen in (plain, engine):
            screen.feed(stream[:end])
        assert plain.text() == engine.text()
        assert plain.cursor[:2] == engine.cursor[:2]


def test_what_scrolled_away_is_kept_so_far() -> None:
    screen = PlainScreen(3, 20, 2)
    screen.feed(b"".join(b"%d\r\n" % number for number in range(100)))
    assert (screen.history(), screen.text()) == (["96", "97"], ["98", "99", ""])


def test_the_cursor_stays_on_a_screen_that_shrinks() -> None:
    screen = PlainScreen(5, 20, 3)
    screen.feed(b"one\r\ntwo\r\nthree\r\nfour\x1b[2;1H")
    screen.resize(2, 20)
    assert screen.cursor[:2] == (0, 0)
    screen.feed(b"x" * 50 + b"\r\n" * 9 + b"end")
    assert screen.text()[-1] == "end"


@settings(max_examples=60)
@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 30), st.integers(1, 90)), max_size=20))
def test_it_survives_anything(pieces: list[tuple[bytes, int, int]]) -> None:
    screen = PlainScreen(5, 10, 3)
    for data, rows, cols in pieces:
        screen.feed(data + b"\x1b[?1049h\x1b[3;9r\x1b[9A\x1b7\n"[: rows - 1])
        screen.resize(rows, cols)
        row, col, _ = screen.cursor
        assert len(screen.text()) == rows and 0 <= row < rows and 0 <= col <= cols
