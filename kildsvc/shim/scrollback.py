"""From the ring to the journal: raw bytes and readable text, in batches, at journald's pace."""

from __future__ import annotations

import time

from kildsvc.shim import record as rec
from kildsvc.shim.journal import Journal
from kildsvc.shim.record import Record
from kildsvc.shim.text import Cleaner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 64 * 1024
# journald counts entries per user, so a batch waits this long for more to come.
FLUSH_SEC = 0.25
# A frame that has stood still for so long is what a person would see: it goes to the journal as well.
TICK_SEC = 2.0
# A flood must not fill the journal of the whole machine: so many bytes at once, then so many a second.
BURST = 4 * 1024 * 1024
RATE = 1024 * 1024
# Repaints cost a hundred times what plain output does: so many bytes at once, then so many a second, are looked at.
REPAINT_BURST = 1024 * 1024
REPAINT_RATE = 512 * 1024
# After a crash the screen is modelled anew from so much of the ring.
RECOVER_MAX = 256 * 1024


class Scrollback:
    """The ring itself is the queue: when journald falls a ring behind, the oldest bytes are skipped and announced."""

    def __init__(
        self, record: Record, journal: Journal, size: tuple[int, int], on_data: Callable[[bytes], None]
    ) -> None:
        self._record = record
        self._journal = journal
        self._on_data = on_data
        self._cleaner = Cleaner(*size)
        self._budget = float(BURST)
        self._budget_at = time.monotonic()
        self._repaints = float(REPAINT_BURST)
        self._repaints_at = self._budget_at
        self._taken: int = record.words[rec.FLUSHED]  # handed to the journal, sent or still waiting there
        line = record.words[rec.LINE]
        if line < self._taken:  # recovered: in the midst of a line, or of a frame
            begin = max(line, record.start, self._taken - RECOVER_MAX)
            self._guarded(self._cleaner.feed, record.bytes_between(begin, self._taken))

    def resize(self, rows: int, cols: int) -> None:
        self._cleaner.resize(rows, cols)

    @property
    def behind(self) -> int:
        return self._record.end - self._taken

    @property
    def throttled(self) -> bool:
        """Nothing more goes to the journal for a second: the budget is spent."""
        return self._budget < BATCH and time.monotonic() - self._budget_at < 1

    def flush(self, final: bool = False) -> bool:
        """Hands over all that is there. False: not now; journald is slow, or we are throttled."""
        self._earn()
        while self._settle() and (self.behind or (final and not self._cleaner.between_lines)):
            if self._budget < BATCH and not final:
                return False
            self._skip_overwritten()
            end = min(self._record.end, self._taken + BATCH)
            data = self._record.bytes_between(self._taken, end)
            text = self._guarded(self._clean, data, final and end == self._record.end)
            self._journal.output(text, data, self._taken)
            self._on_data(data)
            self._taken = end
            self._budget -= len(data)
            if self._cleaner.between_lines:
                self._record.words[rec.LINE] = end
        return self._settle()

    @property
    def settled(self) -> bool:
        """No line would come of a tick."""
        return self._cleaner.settled

    def tick(self) -> None:
        """While a program repaints: lines that have stood still for a while go to the journal."""
        if self._settle() and (text := self._guarded(self._cleaner.tick)):
            self._journal.output(text, b"", self._taken)
            self._settle()

    def _guarded(self, make: Callable[..., str], *arguments: object) -> str:
        """Readable lines are made by much code from whatever an agent prints: a mistake there costs those lines, and
        not the session. The bytes themselves are in the journal all the same."""
        try:
            return make(*arguments)
        except Exception as error:
            self._cleaner = self._cleaner.anew()
            self._journal.trouble(f"some output is only in `logs --raw`, our mistake: {error!r}")
            return ""

    def _clean(self, data: bytes, final: bool) -> str:
        now = time.monotonic()
        self._repaints = min(REPAINT_BURST, self._repaints + REPAINT_RATE * (now - self._repaints_at))
        self._repaints_at = now
        if self._repaints < 0 and self._cleaner.repainting and not final:
            return self._cleaner.skip(data)
        text = self._cleaner.feed(data, final)
        self._repaints -= self._cleaner.modelled
        self._cleaner.modelled = 0
        return text

    def _earn(self) -> None:
        now = time.monotonic()
        if now - self._budget_at >= 1 or self._budget >= BATCH:
            self._budget = min(BURST, self._budget + RATE * (now - self._budget_at))
            self._budget_at = now

    def _settle(self) -> bool:
        if not self._journal.settle():
            return False
        # Only what journald has is flushed: after a crash the rest is sent again.
        self._record.words[rec.FLUSHED] = self._taken
        return True

    def _skip_overwritten(self) -> None:
        lost = self._record.start - self._taken
        if lost > 0:
            self._taken += lost
            self._cleaner = self._cleaner.anew()
            self._journal.trouble(f"{lost} bytes of output are missing here: they came too fast for the journal")
