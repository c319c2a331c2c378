"""A terminal's screen as rows of text. Colours, modes and titles are of no interest here.

The primary screen is the last part of one long list of rows: what scrolls off its top stays in the list.
"""

import re
import unicodedata

# Taken out at once before anything is looked at: colours, strings, character sets, modes without influence on lines.
IGNORED = re.compile(
    r"\x1b\[[0-9;:]*m|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b\[(?:\?(?!47[hl]|104[79][hl]|2026[hl])[0-9;]*[a-zA-Z]|[<=>][0-9;]*[a-zA-Z]|[0-9;]*[ -/]+[@-~])"
    r"|\x1b[ -/]+[0-~]?|\x1b[=>NO]"
)
_TOKEN = re.compile(
    r"([^\x00-\x1f\x7f-\x9f]+)|(\n)|(\r)|\x1b\[(\??[0-9;:]*)([@-~])|\x1b([0-Z\\^-~])|([\x08\t\x0b\x0c])"
    r"|[\x00-\x1f\x7f-\x9f]"
)
# What may be wide or take no column of its own; all else that is printable is one column wide. Compiled when it is
# needed first: that takes a sixth of the shim's start.
_ODD = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0dff\u0e31-\u0e4e\u1100-\u11ff"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u2028-\u202e\u2060-\u2064\u20d0-\u20ff\u231a-\u23ff\u25fd-\u27bf"
    "\u2b1b-\u2b55\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe00-\uffef\U0001f000-\U0003fffd\U000e0000-\U000e01ff]"
)
# A terminal larger than this is taken for one of this size: a bound on memory.
ROWS_MAX, COLS_MAX = 300, 500
# A program that goes up further than this means "to the top", not "to where my frame begins".
UP_MAX = 200


class Row:
    __slots__ = ("cells", "dirty", "shown", "told", "wrapped")

    def __init__(self, told: str | None = None) -> None:
        self.cells: list[str] = []  # one per column; the second half of a wide character is empty
        self.wrapped = False  # goes on in the next row
        self.told = told  # what the journal has of it
        self.shown = ""  # at the end of the last frame; only on the alternate screen
        self.dirty = True

    @property
    def text(self) -> str:
        return "".join(self.cells).rstrip()


class Grid:
    def __init__(self, height: int, width: int) -> None:
        self.rows = [Row()]
        self.top = 0  # the screen's first row
        self.y = self.x = 0  # of the cursor: index into rows, column
        self.alternate = False  # then the rows are those of the screen, and no more
        self.plain = False  # the last line feed was that of a program that prints plainly
        self._touched = 0  # the row written to last
        self._homed = False  # the cursor was sent to the first row, and has not moved since
        self._margins: tuple[int, int] | None = None  # the scroll region, relative to the screen
        self._saved: tuple[int, int] | None = None
        self.resize(height, width)

    def resize(self, height: int, width: int) -> None:
        self.height, self.width = min(height, ROWS_MAX) or 24, min(width, COLS_MAX) or 80
        self._span = self.height  # rows within reach: more than the screen has, once the cursor went up beyond it
        self._margins = None
        if self.alternate:
            self._fit()
            self.y = min(self.y, self.height - 1)
        else:
            self.top = max(0, self.y - self.height + 1, len(self.rows) - self.height)
        self.x = min(self.x, self.width)

    def feed(self, text: str, at: int = 0) -> int:
        """Acts on the text from there. Returns where it left off: before the end when printing is plain again."""
        for match in _TOKEN.finditer(text, at):
            kind = match.lastindex
            if kind == 1:
                self._print(match[1])
            elif kind == 2:
                self._line_feed()
                if self.plain:
                    self.x = 0
                    return match.end()
            elif kind == 3:
                self.x = 0
            elif kind == 5:
                self._control(match[5], match[4])
            elif kind == 6:
                self._escape(match[6])
            elif kind == 7:
                self._format(match[7])
        return len(text)

    # -- what who tells the lines has to know -----------------------------------------------------------------

    def _touch(self) -> None:
        """Another row than before is about to be written to."""
        self._touched = self.y

    def _rest(self) -> None:
        """A line has ended."""

    def _leaves(self, row: Row) -> None:
        """A row is scrolled away, or deleted."""

    def _end_of_frame(self) -> None:
        """On the alternate screen: the cursor goes back up, or all is about to be erased."""

    def _hold_frame(self, on: bool) -> None:
        """On the alternate screen: an update that is to be seen as a whole begins or ends."""

    def _clear(self) -> None:
        """All of the primary screen is erased."""

    def _switch(self, alternate: bool) -> None:
        """To the other screen."""

    # -- the screen -----------------------------------------------------------------------------------------

    def _print(self, text: str) -> None:
        if not text.isascii() and re.search(_ODD, text):
            self._print_odd(text)
            return
        width = self.width
        while text:
            if self.x >= width:
                self._wrap()
            if self.y != self._touched:
                self._touch()
            x = self.x
            row = self.rows[self.y]
            part = text[: width - x]
            self._put(row, x, part, len(part))
            text = text[len(part) :]

    def _put(self, row: Row, x: int, part: str | list[str], columns: int) -> None:
        cells = row.cells
        row.dirty = True
        self._homed = False
        if x == 0:
            row.wrapped = False
        end = x + columns
        if x > len(cells):
            cells.extend(" " * (x - len(cells)))
        elif x < len(cells):
            if not cells[x] and x:
                cells[x - 1] = " "  # half of a wide character is none
            if end < len(cells) and not cells[end]:
                cells[end] = " "
        cells[x:end] = part
        self.x = end

    def _print_odd(self, text: str) -> None:
        for char in text:
            wide = 1 + (unicodedata.east_asian_width(char) in "WF")
            if char > "\u02ff" and (unicodedata.category(char) in ("Mn", "Me", "Cf")):
                cells = self.rows[self.y].cells
                at = min(self.x, len(cells)) - 1
                while at > 0 and not cells[at]:
                    at -= 1
                # A bound, for nothing else stops a flood of marks upon one letter.
                if at >= 0 and len(cells[at]) < 8:
                    cells[at] += char
                continue
            if self.x + wide > self.width:
                self._wrap()
            if self.y != self._touched:
                self._touch()
            self._put(self.rows[self.y], self.x, [char, ""][:wide], wide)

    def _wrap(self) -> None:
        row = self.rows[self.y]
        self._line_feed(wrapping=True)
        row.wrapped = True
        self.x = 0

    def _region(self) -> tuple[int, int]:
        """First and last row of the scroll region, as indices."""
        first, last = self._margins or (0, self._span - 1)
        return self.top + first, self.top + last

    def _fit(self, last: int = 0) -> None:
        """There are rows up to this one; on the alternate screen as many as it has."""
        rows = self.rows
        if self.alternate:
            last = self.height - 1
            del rows[self.height :]
        while len(rows) <= last:
            rows.append(Row())

    def _line_feed(self, wrapping: bool = False) -> None:
        self._homed = False
        first, last = self._region()
        if self.y == last:
            self._scroll_up(first, last)
        elif self.y < self.top + self._span - 1:
            self.y += 1
            if self.y >= len(self.rows):
                self._fit(self.y)
        if not wrapping:
            self._rest()

    def _scroll_up(self, first: int, last: int) -> None:
        """By one row. From the top of the primary screen rows go into what is above it."""
        self._fit(last)
        rows = self.rows
        if first == self.top and not self.alternate:
            rows.insert(last + 1, Row())
            self.top += 1
            self.y += 1
            if self._touched > last:
                self._touched += 1
        else:
            self._leaves(rows.pop(first))
            rows.insert(last, Row())

    def _scroll_down(self, first: int, last: int) -> None:
        self._fit(last)
        self.rows.pop(last)
        self.rows.insert(first, Row())

    def _go(self, y: int, x: int) -> None:
        """To a row of the screen and a column."""
        y = self.top + min(max(y, 0), self._span - 1)
        if self.alternate and y < self._touched:
            self._end_of_frame()
            self._touched = y
        self.y = y
        self._homed = False
        if y >= len(self.rows):
            self._fit(y)
        self.x = min(max(x, 0), self.width - 1)

    def _go_to(self, y: int, x: int) -> None:
        """To an address, which only the real screen has."""
        if self._span > self.height:
            self.top += self._span - self.height
            self._span = self.height
            self._fit(self.top)
        self._go(y, x)
        self._homed = y == x == 0

    def _up(self, count: int) -> None:
        y = self.y - count
        # A frame higher than the screen: its program goes up to rows that the terminal has scrolled away. The list
        # has them still, and what the program means comes out better than what a terminal makes of it.
        if not self.alternate and count <= UP_MAX and 0 <= y < self.top and self._span + self.top - y <= 2 * UP_MAX:
            self._span += self.top - y
            self.top = y
        self._go(y - self.top, self.x)

    def _erase_display(self, mode: int) -> None:
        if mode == 0 and self._homed:
            mode = 2
        if mode == 0:
            self._erase_line(0)
            for row in self.rows[self.y + 1 :]:
                self._blank(row)
            if not self.alternate:
                del self.rows[self.y + 1 :]
        elif mode == 1:
            self._erase_line(1)
            for row in self.rows[self.top : self.y]:
                self._blank(row)
        elif self.alternate:
            self._end_of_frame()
            for row in self.rows:
                self._blank(row)
        elif mode == 2:
            self._clear()

    @staticmethod
    def _blank(row: Row) -> None:
        row.cells = []
        row.wrapped = False
        row.dirty = True

    def _erase_line(self, mode: int) -> None:
        if self.y != self._touched:
            self._touch()
        row = self.rows[self.y]
        row.dirty = True
        if mode == 0:
            del row.cells[self.x :]
            row.wrapped = False
        elif mode == 1:
            count = min(self.x + 1, len(row.cells))
            row.cells[:count] = " " * count
        else:
            self._blank(row)

    def _edit(self, final: str, count: int) -> None:
        """Characters inserted, deleted or erased within the row."""
        if self.y != self._touched:
            self._touch()
        row, x = self.rows[self.y], self.x
        row.dirty = True
        cells = row.cells
        if final == "P":
            del cells[x : x + count]
        elif final == "X":
            count = min(count, len(cells) - x)
            cells[x : x + count] = " " * count
        elif x < len(cells):
            cells[x:x] = " " * min(count, self.width)
            del cells[self.width :]

    def _insert_or_delete_rows(self, final: str, count: int) -> None:
        first, last = self._region()
        if final in "LM":
            if not first <= self.y <= last:
                return
            first = self.y
        for _ in range(min(count, last - first + 1)):
            if final in "LT":
                self._scroll_down(first, last)
            else:
                self._scroll_up(first, last)

    # -- sequences ------------------------------------------------------------------------------------------

    def _control(self, final: str, parameters: str) -> None:
        if parameters[:1] == "?":
            self._set_mode(final, parameters[1:])
            return
        numbers = [int(part[:5]) if part.isdecimal() else 0 for part in parameters.split(";", 2)[:2]]
        number = numbers[0]
        count = number or 1
        if final == "A":
            self._up(count)
        elif final in "Be":
            self._go(self.y - self.top + count, self.x)
        elif final in "Ca":
            self.x = min(self.x + count, self.width - 1)
        elif final == "D":
            self.x = max(min(self.x, self.width - 1) - count, 0)
        elif final in "G`":
            self.x = min(count, self.width) - 1
        elif final in "Hf":
            self._go_to(count - 1, (numbers[-1] or 1) - 1 if len(numbers) > 1 else 0)
        elif final == "d":
            self._go_to(count - 1, self.x)
        elif final == "J":
            self._erase_display(number)
        elif final == "K":
            self._erase_line(number)
        elif final in "PX@":
            self._edit(final, count)
        elif final in "LMST":
            self._insert_or_delete_rows(final, count)
        elif final == "E":
            self._go(self.y - self.top + count, 0)
        elif final == "F":
            self._up(count)
            self.x = 0
        elif final == "r":
            last = min(numbers[-1] if len(numbers) > 1 and numbers[-1] else self.height, self.height)
            self._margins = (count - 1, last - 1) if count < last and last - count < self.height - 1 else None
            self._go_to(0, 0)
        elif final == "s":
            self._saved = (self.y, self.x)
        elif final == "u":
            self._restore()

    def _restore(self) -> None:
        if self._saved:
            self._go(self._saved[0] - self.top, self._saved[1])

    def _escape(self, final: str) -> None:
        if final == "7":
            self._saved = (self.y, self.x)
        elif final == "8":
            self._restore()
        elif final == "M":
            first, last = self._region()
            if self.y == first:
                self._scroll_down(first, last)
            else:
                self._go(self.y - self.top - 1, self.x)
        elif final in "DE":
            self._line_feed()
            if final == "E":
                self.x = 0
        elif final == "c":
            self._switch(False)
            self._margins = None
            self._erase_display(2)
            self._go_to(0, 0)

    def _format(self, char: str) -> None:
        if char == "\t":
            self.x = min(self.x // 8 * 8 + 8, self.width - 1)
        elif char == "\x08":
            self.x = max(min(self.x, self.width - 1) - 1, 0)
        else:
            self._line_feed()

    def _set_mode(self, final: str, mode: str) -> None:
        if mode == "2026":
            self._hold_frame(final == "h")
        elif mode in ("47", "1047", "1049"):
            self._switch(final == "h")
