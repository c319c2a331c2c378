"""A terminal without a window: bytes in, cells out. The only importer of the terminal engine (pyavt).

avt was chosen over libghostty's binding: it is imported in 4 ms instead of 270, and it keeps the primary screen that
a full-screen program hides. It leaves modes alone; those are kildsvc.shim.modes' part.
"""

import codecs
import re
from collections import deque
from itertools import groupby
from operator import attrgetter
from typing import Any

try:
    from avt import Pen, Vt
except ImportError:  # Debian has no package of it: attach replays the output itself then, see plain_screen.py
    Pen = Vt = None

AVAILABLE = Vt is not None
# Lines above the screen that a restored terminal gets back.
HISTORY = 500
# A terminal larger than this is of no use to anybody; cells cost 50 bytes each, and any program may set its size.
SIDE_MAX = 1000

_PEN = attrgetter("pen")
_REPEAT = re.compile(r"(.)\x1b\[([0-9]+)b", re.DOTALL)
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")
_COLON_COLOUR = re.compile(r"([34]8):([25]):([0-9:]+)")


class Screen:
    def __init__(self, rows: int, cols: int, history: int = HISTORY) -> None:
        self._vt: Any = Vt(_side(cols), _side(rows), 0)  # 0: what scrolls off the top is handed to us
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._history: deque[Any] = deque(maxlen=history)

    def feed(self, data: bytes) -> None:
        _, scrolled = self._vt.feed_str(self._decode(data))
        self._history.extend(scrolled)

    def resize(self, rows: int, cols: int) -> None:
        _, scrolled = self._vt.resize(_side(cols), _side(rows))
        self._history.extend(scrolled)

    @property
    def size(self) -> tuple[int, int]:
        cols, rows = self._vt.size
        return rows, cols

    @property
    def cursor(self) -> tuple[int, int, bool]:
        """Row and column from 0, and whether it is visible."""
        cursor = self._vt.cursor
        return cursor.row, cursor.col, cursor.visible

    def text(self) -> list[str]:
        return [line.text.rstrip() for line in self._vt.view()]

    def history(self) -> list[str]:
        return [line.text.rstrip() for line in self._history]

    def drawing(self) -> str:
        """What draws both screens, cursor and scroll region on an empty terminal of this size."""
        text = self._vt.dump().replace("\x9b", "\x1b[").replace("\x1b[?1047h", "\x1b[?1049h")
        # Not every terminal knows REP, nor colours with colons.
        text = _REPEAT.sub(lambda match: match[1] * (int(match[2]) + 1), text)
        return _without_blanks(_COLON_COLOUR.sub(lambda match: match[0].replace(":", ";"), text))

    def history_drawing(self) -> str:
        """The lines above the screen, and then so many newlines that they are above it."""
        if not self._history:
            return ""
        rows, _ = self.size
        return "".join(f"{_coloured(line)}\r\n" for line in self._history) + "\n" * (rows - 1)


def _side(cells: int) -> int:
    return min(max(1, cells), SIDE_MAX)


def _without_blanks(text: str) -> str:
    """Without blanks that an empty terminal has anyway: in the default style, up to where the cursor is placed."""
    parts = []
    plain = True
    for line in re.split(r"(\r\n|\x1b\[[0-9;]+H)", text):
        styles = _STYLE.findall(line)
        plain = styles[-1] in ("", "0") if styles else plain
        parts.append(line.rstrip(" ") if plain else line)
    return "".join(parts)


def _coloured(line: Any) -> str:
    # No function of ours for each cell: there are 40,000 of them.
    if all(map(Pen.is_default, map(_PEN, line.cells))):
        return str(line.text).rstrip(" ")
    parts = []
    for pen, cells in groupby(line.cells, _PEN):
        text = "".join(cell.char for cell in cells if cell.width)
        parts.append(f"\x1b[{_attributes(pen)}m{text}\x1b[m" if not pen.is_default() else text)
    return "".join(parts).rstrip(" ")


def _attributes(pen: Any) -> str:
    codes = [
        code
        for on, code in (
            (pen.bold, "1"),
            (pen.faint, "2"),
            (pen.italic, "3"),
            (pen.underline, "4"),
            (pen.blink, "5"),
            (pen.inverse, "7"),
            (pen.strikethrough, "9"),
        )
        if on
    ]
    for base, colour in ((38, pen.foreground), (48, pen.background)):
        if colour is not None:
            values = list(colour)
            codes.append(f"{base};{'5' if len(values) == 1 else '2'};{';'.join(map(str, values))}")
    return ";".join(codes)
