"""A screen's text without the terminal engine, for where there is none: Debian has no package of it."""

import codecs
import re

from kildsvc.shim.grid import IGNORED, Grid, Row

_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
# So much is taken at once; then what has scrolled away too far is forgotten.
PIECE = 64 * 1024


class _Whole(Grid):
    """Both screens, as a terminal has them."""

    def __init__(self, rows: int, cols: int) -> None:
        super().__init__(rows, cols)
        self._primary: tuple[list[Row], int, int, int] | None = None

    def resize(self, height: int, width: int) -> None:
        super().resize(height, width)
        if self.top > self.y:  # the cursor stays on the screen, and what is below that is cut off
            self.top = self.y
            del self.rows[self.top + self.height :]

    def _up(self, count: int) -> None:
        self._go(self.y - self.top - count, self.x)

    def _clear(self) -> None:
        self._fit(self.top + self.height - 1)
        for row in self.rows[self.top :]:
            self._blank(row)

    def _switch(self, alternate: bool) -> None:
        if alternate == self.alternate:
            return
        self.alternate, self._margins = alternate, None
        if alternate:
            self._primary = (self.rows, self.top, self.y, self.x)
            self.rows, self.y, self.top = [Row()], self.y - self.top, 0
            self._fit()
        elif self._primary:
            self.rows, self.top, self.y, self.x = self._primary
        self._touched = self.y
        self.resize(self.height, self.width)

    def forget(self, keep: int) -> None:
        """All but so many of the rows above the screen."""
        count = 0 if self.alternate else max(0, self.top - keep)
        del self.rows[:count]
        self.top, self.y, self._touched = self.top - count, self.y - count, self._touched - count
        if self._saved:
            self._saved = (max(0, self._saved[0] - count), self._saved[1])


class PlainScreen:
    """As kildsvc.screen.Screen, but for colours."""

    def __init__(self, rows: int, cols: int, history: int) -> None:
        self._grid = _Whole(rows, cols)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._held = ""
        self._history = history

    def feed(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            self._take(self._decode(data[at : at + PIECE]))
            self._grid.forget(self._history)

    def _take(self, text: str) -> None:
        text = self._held + text
        begun = _UNFINISHED.search(text)
        self._held = begun[0] if begun else ""
        self._grid.feed(IGNORED.sub("", text.removesuffix(self._held)))

    def resize(self, rows: int, cols: int) -> None:
        self._grid.resize(rows, cols)

    @property
    def size(self) -> tuple[int, int]:
        return self._grid.height, self._grid.width

    @property
    def cursor(self) -> tuple[int, int, bool]:
        return self._grid.y - self._grid.top, self._grid.x, True

    def text(self) -> list[str]:
        grid = self._grid
        lines = [row.text for row in grid.rows[grid.top : grid.top + grid.height]]
        return lines + [""] * (grid.height - len(lines))

    def history(self) -> list[str]:
        return [row.text for row in self._grid.rows[: self._grid.top]]

    def drawing(self) -> str:
        row, col, _ = self.cursor
        return "\r\n".join(self.text()) + f"\x1b[{row + 1};{col + 1}H"
