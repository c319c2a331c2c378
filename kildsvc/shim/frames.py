"""The alternate screen has no scrollback: what went by is found by comparing each frame with the one before it.

A frame ends where the cursor goes back up. Rows that stand higher than before were scrolled, whether by the terminal
or by repainting all of them; those pushed out at the top are final. Rows that change in place are not told again.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kildsvc.shim.grid import Row
    from kildsvc.shim.lines import Lines

# A text that stands in more rows than this (a border, say) tells nothing about scrolling.
COMMON = 4
# A page is turned when so many rows, and most of all, are others at once.
PAGE_MIN = 5
# What is left of a row without what a clock, a counter or a spinner changes.
_VOLATILE = re.compile(r"[\d\W_]+")


class Frames:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._held = False  # inside a synchronized update
        self._ripe: set[str] = set()  # what stood there at the last tick
        self._view = (0, 0)  # the rows that were scrolled last

    def hold(self, on: bool) -> None:
        self._held = False
        if not on:
            self.end_of_frame()
        self._held = on

    def end_of_frame(self) -> None:
        if self._held:
            return
        texts: dict[int, str] = {}
        for at, row in enumerate(self._lines.rows):
            if row.dirty:
                row.dirty = False
                text = row.text
                if text and text != row.shown:
                    texts[at] = text
        if not texts:
            return
        if len(texts) == 1 or not (self._scrolled(texts) or self._page_turned(texts)):
            for at, text in texts.items():
                self._lines.rows[at].shown = text

    def _scrolled(self, texts: dict[int, str]) -> bool:
        rows = self._lines.rows
        where: dict[str, list[int]] = {}
        for at, row in enumerate(rows):
            if row.shown:
                where.setdefault(row.shown, []).append(at)
        votes: dict[int, int] = {}
        for at, text in texts.items():
            places = where.get(text, ())
            for old in places if len(places) <= COMMON else ():
                votes[old - at] = votes.get(old - at, 0) + 1
        votes.pop(0, None)
        if not votes:
            return False
        by = max(votes, key=lambda shift: (votes[shift], -abs(shift)))
        if votes[by] * 5 < len(texts) * 2:
            return False
        moved = [at for at, text in texts.items() if 0 <= at + by < len(rows) and rows[at + by].shown == text]
        self._move(rows, by, min(moved), max(moved))
        return True

    def _move(self, rows: list[Row], by: int, first: int, last: int) -> None:
        """Rows first to last show what stood `by` rows below them."""
        shown = [row.shown for row in rows]
        told = [row.told for row in rows]
        now = [row.text for row in rows]
        while first > 0 and first - 1 + by >= 0 and now[first - 1] == shown[first - 1 + by]:
            first -= 1
        while last + 1 < len(rows) and last + 1 + by < len(rows) and now[last + 1] == shown[last + 1 + by]:
            last += 1
        if by > 0:
            for at in range(first, first + by):
                if shown[at] and told[at] != shown[at]:
                    self._lines.say(shown[at])
        known = set(self._lines.history) if by < 0 else ()
        view = range(min(first, first + by), min(max(last, last + by) + 1, len(rows)))
        for at, row in enumerate(rows):
            if at not in view:
                row.shown = now[at] or row.shown
            elif first <= at <= last:
                row.shown, row.told = now[at], told[at + by]
            else:
                row.shown, row.told = now[at], now[at] if hash(now[at]) in known else None
        self._view = (view.start, view.stop)

    def _page_turned(self, texts: dict[int, str]) -> bool:
        """Most of the rows are others at once: the page before is told. Not so for a table of changing numbers."""
        rows = self._lines.rows
        gone = [at for at in texts if rows[at].shown]
        if len(gone) < PAGE_MIN or len(gone) * 5 < sum(1 for row in rows if row.shown) * 3:
            return False
        alike = sum(1 for at in gone if shape(rows[at].shown) == shape(texts[at]))
        if alike * 2 > len(gone):
            return False
        known = set(self._lines.history)
        stay = set(texts.values())
        for at, text in texts.items():
            row = rows[at]
            if row.shown and row.told != row.shown and row.shown not in stay and hash(row.shown) not in known:
                self._lines.say(row.shown)
            row.shown, row.told = text, None
        return True

    def tick(self, silent: bool) -> None:
        if silent:
            self.finish()
            return
        stand = {row.shown for row in self._lines.rows}
        for row in self._lines.rows[self._view[0] : self._view[1]]:
            if row.shown in self._ripe:
                self._tell(row)
        self._ripe = stand

    def finish(self) -> None:
        """All that is on the screen is told."""
        self._held = False
        self.end_of_frame()
        for row in self._lines.rows:
            self._tell(row)

    def _tell(self, row: Row) -> None:
        if row.shown and row.told != row.shown:
            row.told = row.shown
            self._lines.say(row.shown)


def shape(text: str) -> str:
    return _VOLATILE.sub("", text)
