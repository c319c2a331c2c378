"""Which lines of a screen are final: each is told once, in order.

What a program repaints in place (a frame) stays untold until it stops doing so; what lies above is final.
"""

from kildsvc.shim.frames import Frames
from kildsvc.shim.grid import IGNORED, Grid, Row

__all__ = ["IGNORED", "Lines"]

# How fast a frame that was once this high is forgotten: by a part of the difference each time.
FORGET = 64
# Lines without a repaint after which a program is believed to have gone back to plain printing.
QUIET = 200
# The same for one that has not repainted anything yet.
CALM = 8
# Lines told before, kept as hashes to recognise a transcript that is printed again as a whole.
HISTORY = 1024
# Rows kept above the screen and the frame.
KEEP = 50


class Lines(Grid):
    def __init__(self, height: int, width: int) -> None:
        self.out: list[str] = []
        self.history: list[int] = []
        self._replayed: set[int] | None = None  # after a clear: lines that may come again
        self._matched = False  # some of them did
        self._block: list[int] | None = None  # all that stood there before the last clear
        self._gone: list[int] = []  # of what was printed since: rows no longer kept
        self._block_at = 0  # where it began
        self._done = 0  # rows before this one are final
        self._primary: tuple[list[Row], int, int, int] | None = None  # hidden behind the alternate screen
        self._frames: Frames | None = None
        self._frame: float = -1  # the height of what is repainted at the end of the list; -1: nothing was
        self._peak = -1  # while the cursor goes up: the highest row written to
        self._low = 0  # and the last row there was when it began to
        self._quiet = 0  # lines since then
        self._moves = 0  # since the last tick
        self._stood: set[str] = set()  # the frame that was told last
        self.pending = False  # something has happened since the last tick that told all
        super().__init__(height, width)

    def seed(self, lines: list[str]) -> None:
        """Lines that stand above the cursor and are told already."""
        rows: list[Row] = []
        for line in lines:
            row = Row(line.rstrip())
            rows.append(row)
            while len(line) > self.width:
                row.cells, line = list(line[: self.width]), line[self.width :]
                row.wrapped = True
                row = Row()
                rows.append(row)
            row.cells = list(line)
        self.y = self._touched = self._done = len(rows)
        self.rows = [*rows, Row()]
        self.top = max(0, len(self.rows) - self.height)
        self.history += map(hash, lines)

    def feed(self, text: str, at: int = 0) -> int:
        self.pending = True
        return super().feed(text, at)

    def take(self) -> str:
        """The lines told since the last time."""
        if not self.out:
            return ""
        text = "\n".join(self.out) + "\n"
        self.out.clear()
        return text

    def tick(self, silent: bool) -> None:
        """Some time has passed: what has stood still meanwhile is told, the frame too when nothing moves at all."""
        if self._frames:
            self._frames.tick(silent)
        elif silent:
            self._tell_frame()
        elif not self._moves:
            self._tell(self.y)
        self._moves = 0
        self._replayed = None  # a program prints all again at once; what a person has printed again is to be told
        self.pending = not silent

    def finish(self) -> None:
        """The end: the frame is told as well."""
        self._leave_alternate()
        if self._peak >= 0:
            self._repaint_begins()
        self._tell(len(self.rows))

    def close(self) -> None:
        """The shim does not collect garbage: nothing may refer to itself."""
        self._frames = None

    # -- telling --------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        number = hash(text)
        if self._replayed is not None:
            if number in self._replayed:
                self._matched = True
                return
            if self._matched:
                self._replayed = None
        self.out.append(text)
        self.history.append(number)
        if len(self.history) > 2 * HISTORY:
            del self.history[:HISTORY]

    def _text_at(self, at: int) -> tuple[str, int]:
        """The line that begins in this row, and the row after it."""
        row = self.rows[at]
        if not row.wrapped:
            return row.text, at + 1
        cells: list[str] = []
        while True:
            cells += self.rows[at].cells
            at += 1
            if at >= len(self.rows) or not self.rows[at - 1].wrapped:
                return "".join(cells).rstrip(), at

    def _tell(self, end: int) -> None:
        """Tells the rows before this one, unless the journal has them."""
        at, last = self._done, min(end, len(self.rows))
        while last > at and not self.rows[last - 1].cells and end >= len(self.rows):
            last -= 1  # the empty rest of a screen
        while at < last:
            text, after = self._text_at(at)
            if after > end:
                break
            row = self.rows[at]
            if row.told != text:
                row.told = text
                self.say(text)
            at = after
        self._done = max(self._done, at)
        keep = self.height + int(max(self._frame, 0) * 1.5) + KEEP
        if len(self.rows) > keep + KEEP and not self.alternate:
            self._forget(min(len(self.rows) - keep, self.top))

    def _tell_frame(self) -> None:
        """The frame as it stands, but for what it has in common with the one told before; it is not final."""
        if self._peak >= 0:
            self._repaint_begins()
        end = len(self.rows)
        while end > self._done and not self.rows[end - 1].cells:
            end -= 1
        if self.y == end - 1:
            end = self.y  # a line that is being written
        stands: set[str] = set()
        at = self._done
        while at < end:
            row = self.rows[at]
            text, at = self._text_at(at)
            if row.told != text and text not in self._stood:
                self.say(text)
            row.told = text
            stands.add(text)
        self._stood = stands

    def _forget(self, count: int) -> None:
        at = self._done
        while at < count:
            text, after = self._text_at(at)
            if self.rows[at].told != text:
                self.say(text)
            at = after
        if self._block is not None:
            self._gone += [hash(row.text) for row in self.rows[self._block_at : count]][
                : 2 * HISTORY - len(self._gone)
            ]
        del self.rows[:count]
        self._done = max(at - count, 0)
        self.top, self.y, self._touched, self._low, self._block_at = (
            max(0, index - count) for index in (self.top, self.y, self._touched, self._low, self._block_at)
        )
        if self._peak >= 0:
            self._peak = max(0, self._peak - count)
        if self._saved:
            self._saved = (max(0, self._saved[0] - count), self._saved[1])

    # -- where the program repaints -------------------------------------------------------------------------

    def _touch(self) -> None:
        """Another row than before is written to. Going up begins a repaint, going down again ends its way up."""
        y = self.y
        if self._frames:
            pass
        elif y < self._touched:
            if self._peak < 0:
                self._low = len(self.rows) - 1
            self._peak = y
            self._moves += 1
        elif self._peak >= 0:
            self._repaint_begins()
        self._touched = y

    def _repaint_begins(self) -> None:
        """All above the frame is final. The frame is what was repainted lately, not only what is this time."""
        height = self._low - self._peak
        old = self._frame
        self._frame = max(height, old - (old - height) / FORGET)
        if self._peak < self._done:
            self._done = self._peak
        else:
            self._tell(min(self._peak, self._low - int(self._frame)))
        self._peak = -1
        self._quiet = 0

    def _rest(self) -> None:
        """Another line without a repaint."""
        if self._frames:
            return
        if self._peak >= 0:
            self._repaint_begins()
        self._quiet += 1
        if self._frame < 0:
            self._tell(self.y)
            if self._quiet >= (CALM if self._block is None else QUIET):
                self._go_plain()
            return
        keep = int(self._frame * 1.25) + 10
        if self._quiet > keep:
            self._tell(self.y - keep)
            if self._quiet > 4 * keep + QUIET and not self._replayed:
                self._go_plain()

    def _go_plain(self) -> None:
        if self.y == len(self.rows) - 1 and not self._margins:
            self._tell(self.y)
            self.plain = True

    def last_lines(self, count: int) -> list[str]:
        return [row.text for row in self.rows[max(0, self.y - count) : self.y]]

    def _leaves(self, row: Row) -> None:
        """A row is scrolled away, or deleted: whatever it says is final."""
        text = row.text or row.shown
        if text and row.told != text:
            self.say(text)

    def _end_of_frame(self) -> None:
        if self._frames:
            self._frames.end_of_frame()

    def _hold_frame(self, on: bool) -> None:
        if self._frames:
            self._frames.hold(on)

    def _clear(self) -> None:
        """What is above the frame is told before it goes, and may be printed again."""
        rows = self.rows
        while len(rows) > self.y + 1 and not rows[-1].cells:
            rows.pop()
        block = self._gone + [hash(row.text) for row in rows[self._block_at :]]
        if any(row.cells for row in rows[self._block_at :]):
            if self._block is not None:
                self._frame = max(self._frame, len(self._block) - _in_common(self._block, block))
            self._tell(len(rows) - int(self._frame) if self._frame >= 0 else len(rows))
            self._block = block
        self._go_to(self.y - self.top, self.x)
        place = self.y - self.top
        if (
            self._frame >= 0
        ):  # what was printed since the last clear is being printed again: the part scrolled off too
            self.top = min(self.top, max(self._block_at, self._done))
        del rows[self.top :]
        self._done = min(self._done, len(rows))
        self.y = self.top + place
        self._fit(self.y)
        self._block_at, self._gone = self.top, []
        self._touched, self._peak, self._quiet = self.y, -1, 0
        self._moves += 1
        self._replayed, self._matched = set(self.history), False
        if self._frame < 0:
            self._replayed.intersection_update(block)

    def _switch(self, alternate: bool) -> None:
        if alternate:
            self._enter_alternate()
        else:
            self._leave_alternate()

    def _enter_alternate(self) -> None:
        if self._frames:
            return
        if self._peak >= 0:
            self._repaint_begins()
        if self._frame < 0:
            self._tell(self.y)
        self._primary = (self.rows, self.top, self.y, self.x)
        self.alternate = True
        self._span = self.height
        self.rows = [Row() for _ in range(self.height)]
        # The cursor may be outside of the primary screen: one that shrank, or of which a program has gone up further.
        self.y = min(max(self.y - self.top, 0), self.height - 1)
        self.top = self._touched = 0
        self._margins = None
        self._frames = Frames(self)
        self._fit()

    def _leave_alternate(self) -> None:
        if not self._frames or not self._primary:
            return
        self._frames.finish()
        self._frames = None
        self.alternate = False
        self.rows, self.top, self.y, self.x = self._primary
        self._primary = None
        self._margins = None
        self._touched, self._peak, self._quiet = self.y, -1, 0
        self.resize(self.height, self.width)


def _in_common(one: list[int], other: list[int]) -> int:
    """How many they have in common from the beginning."""
    count = min(len(one), len(other))
    return next((at for at in range(count) if one[at] != other[at]), count)
