"""Whatever an agent prints: nothing breaks, nothing grows without bound, and no cut changes what is understood."""

import json
import time
import unicodedata
from collections.abc import Callable

import pytest
from fuzz import cut, cuts, effort, streams
from hypothesis import example, given
from hypothesis import strategies as st

from kildsvc.chord import Chord
from kildsvc.shim import grid, lines, text
from kildsvc.shim.activity import Bell
from kildsvc.shim.journal import Journal
from kildsvc.shim.modes import SEQUENCE_MAX, Modes
from kildsvc.shim.queries import Answerer, cursor
from kildsvc.shim.text import Cleaner

BATCH = 64 * 1024
# A datagram larger than the default send buffer is refused by the kernel, for ever.
SEND_BUFFER = 208 * 1024


class Terminal:
    """Feeds an Answerer as the shim does."""

    def __init__(self) -> None:
        self.answerer, self.modes, self.output = Answerer("9.9"), Modes(), b""

    def feed(self, data: bytes) -> bytes:
        self.output += data
        self.modes.feed(data)
        return self.answerer.feed(data, lambda: (self.modes, 24, 80, self.output))


def check_bounds(cleaner: Cleaner, fed: int) -> None:
    assert len(cleaner._line) <= text.LINE_MAX + 500 * fed
    assert len(cleaner._sequence) <= text.SEQUENCE_MAX
    assert len(cleaner._tail) <= text.TAIL_MAX
    assert len(cleaner._skipped_end) <= text.SKIPPED_END
    if screen := cleaner._screen:
        height = grid.ROWS_MAX + 2 * grid.UP_MAX
        assert len(screen.rows) <= 4 * height + 2 * lines.KEEP
        assert all(len(row.cells) <= grid.COLS_MAX for row in screen.rows)
        assert len(screen.history) <= 2 * lines.HISTORY
        assert len(screen._gone) <= 2 * lines.HISTORY
        assert 0 <= screen.y < len(screen.rows)


@effort(250)
@given(streams, cuts, st.tuples(st.integers(0, 400), st.integers(0, 600)))
def test_text_is_clean_and_memory_is_bounded(stream: bytes, places: list[int], size: tuple[int, int]) -> None:
    cleaner = Cleaner(*size)
    found = []
    for at, piece in enumerate(cut(stream, places)):
        found.append(cleaner.skip(piece) if at % 5 == 4 else cleaner.feed(piece))
        if at % 3 == 2:
            found.append(cleaner.tick())
        if at % 4 == 3:
            size = size[1] % 60, size[0]
            cleaner.resize(*size)
        check_bounds(cleaner, len(stream))
    found.append(cleaner.feed(b"", final=True))
    assert cleaner.between_lines
    assert {char for part in found for char in part if unicodedata.category(char) == "Cc"} <= {"\n", "\t"}


@effort(15)
@given(streams.filter(bool), st.sampled_from([(24, 80), (300, 500)]))
@example(b"\x1b[500Cx\n", (24, 80))
@example(b"\x1b[300Sx", (300, 500))
@example(b"\x1b[?1049h\x1b[H\x1b[500Cx\x1b[S", (300, 500))
def test_what_goes_to_journald_fits_into_a_datagram(stream: bytes, size: tuple[int, int]) -> None:
    """A batch of a few escapes may stand for megabytes of blanks."""
    data = (stream * (BATCH // len(stream) + 1))[:BATCH]
    journal = Journal({"KILD_AGENT": "a" * 48})
    journal.output(Cleaner(*size).feed(data, final=True), data, 1 << 60)
    assert any(data in entry for entry in journal._waiting)
    assert max(map(len, journal._waiting)) < SEND_BUFFER
    assert len(journal._waiting) <= 2


@effort(250)
@given(streams, cuts)
def test_modes_do_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    whole, pieces = Modes(), Modes()
    whole.feed(stream)
    for piece in cut(stream, places):
        pieces.feed(piece)
        assert pieces.held <= SEQUENCE_MAX
    assert pieces.state() == whole.state() == Modes(json.loads(json.dumps(whole.state()))).state()
    assert len(whole.setting()) + len(whole.resetting()) + len(json.dumps(whole.state())) < 1 << 14


@effort(250)
@given(streams, cuts)
@example(b"\x1b[" + b"9" * 5000 + b"A\x1b[6n", [])
def test_answers_do_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    one, other = Terminal(), Terminal()
    answers = one.feed(stream)
    assert b"".join([other.feed(piece) for piece in cut(stream, places)]) == answers
    assert len(answers) <= 16 * len(stream)
    assert Terminal().feed(answers) == b""  # whoever echoes them asks nothing


@effort(150)
@given(streams, st.integers(0, 500), st.integers(0, 500))
def test_the_cursor_is_always_on_the_screen(stream: bytes, rows: int, cols: int) -> None:
    row, col = cursor(stream, rows, cols)
    assert 1 <= row <= (rows or 24)
    assert 1 <= col <= (cols or 80)


@effort(150)
@given(streams, cuts)
def test_the_bell_does_not_depend_on_the_cuts(stream: bytes, places: list[int]) -> None:
    bell = Bell()
    rang = [bell.rings(piece) for piece in cut(stream, places)]
    assert any(rang) == Bell().rings(stream)
    assert len(bell._held) <= 3


def answerer() -> Callable[[bytes], object]:
    return Terminal().feed


SCANNERS: dict[str, Callable[[], Callable[[bytes], object]]] = {
    "modes": lambda: Modes().feed,
    "queries": answerer,
    "bell": lambda: Bell().rings,
    "keys": lambda: Chord().feed,
    "text": lambda: Cleaner().feed,
    "cursor": lambda: lambda data: cursor(data, 24, 80),
}
WORST = {
    "ESC": b"\x1b",
    "CSI": b"\x1b[",
    "OSC": b"\x1b]",
    "DCS": b"\x1bP+q",
    "digits": b"1",
    "semicolons": b";",
    "title": b"\x1b]0;",
    "query": b"\x1b[?1",
    "letters": b"a",
    "NUL": b"\0",
    "beginnings": b"\x1b[32;5",
}


@pytest.mark.parametrize("scanner", SCANNERS)
@pytest.mark.parametrize("unit", WORST.values(), ids=WORST.keys())
def test_time_grows_as_the_data_does(scanner: str, unit: bytes) -> None:
    """Eight times the data in one piece: about eight times as long, not sixty-four."""

    def seconds(size: int) -> float:
        data = b"\x1b[" + (unit * (size // len(unit) + 1))[:size]
        best = 60.0
        for _ in range(2):
            feed = SCANNERS[scanner]()
            begin = time.process_time()
            feed(data)
            best = min(best, time.process_time() - begin)
        return best

    size = 2048 if scanner == "keys" else 16 * 1024  # nobody types more
    assert seconds(8 * size) < 28 * max(seconds(size), 0.0005)
