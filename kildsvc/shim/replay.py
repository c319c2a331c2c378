"""From where output can be replayed to a client that comes now: an offset, and the terminal's state there.

It follows the ring's end at a distance. What must outlive a crash of the shim is in the record.
"""

from __future__ import annotations

import json
import re

from kildsvc.shim import record as rec
from kildsvc.shim.modes import Modes
from kildsvc.shim.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 64 * 1024
_TO_ALTERNATE = re.compile(rb"\x1b\[\?(?:[0-9]*;)*0*(?:47|1047|1049)(?:;[0-9]*)*h")


class Replay:
    def __init__(self, record: Record) -> None:
        self._record = record
        size = record.words[rec.NOTE_SIZE]
        note = json.loads(bytes(record.view[rec.NOTE_AT : rec.NOTE_AT + size])) if size else {}
        self.offset: int = record.words[rec.START]
        self.modes = Modes(note.get("modes"))
        # Sizes of the terminal, each with the offset from which it held.
        self._sizes: list[list[int]] = note.get("sizes", [])

    def about(self) -> dict[str, Any]:
        return {"offset": self.offset, "modes": self.modes.state(), "sizes": self._sizes}

    @property
    def pinned(self) -> bytes:
        """The end of the primary screen's output, when the alternate screen was entered before the offset."""
        return bytes(self._record.pin[: self._record.words[rec.PINNED]])

    def resized(self, rows: int, cols: int) -> None:
        self._sizes.append([self._record.end, rows, cols])
        self._save()

    def keep_up(self) -> None:
        """Called between reads: never lets the offset fall out of the ring."""
        if self._record.end - self.offset > self._record.size // 2:
            self.follow(self._record.size // 4)

    def follow(self, distance: int) -> None:
        """Brings the offset to within about that many bytes of the end."""
        while self._record.end - self.offset > distance:
            self._advance(min(self.offset + PIECE, self._record.end))
        while len(self._sizes) > 1 and self._sizes[1][0] <= self.offset:
            del self._sizes[0]
        self._save()

    def current(self) -> Modes:
        """The state at the very end."""
        modes = self.modes.copy()
        modes.feed(self._record.bytes_between(self.offset, self._record.end))
        return modes

    def _advance(self, to: int) -> None:
        data = self._record.bytes_between(self.offset, to)
        before = bool(self.modes.alternate)
        # What may go on is fed again with the next piece: the offset never lies within a sequence.
        self.modes.feed(data)
        held = self.modes.held if self.modes.held < len(data) else 0
        self.modes = Modes(self.modes.state())
        if self.modes.alternate and not before:
            self._pin(self.offset + max((match.start() for match in _TO_ALTERNATE.finditer(data)), default=0))
        elif not self.modes.alternate:
            self._record.words[rec.PINNED] = 0
        self.offset = to - held

    def _pin(self, at: int) -> None:
        data = self._record.bytes_between(max(self._record.start, at - rec.PIN_MAX), at)
        self._record.pin[: len(data)] = data
        self._record.words[rec.PINNED] = len(data)

    def _save(self) -> None:
        note = json.dumps({"modes": self.modes.state(), "sizes": self._sizes[-40:]}).encode()
        if len(note) > rec.NOTE_MAX:
            note = json.dumps({"sizes": self._sizes[-40:]}).encode()
        self._record.view[rec.NOTE_AT : rec.NOTE_AT + len(note)] = note
        self._record.words[rec.NOTE_SIZE] = len(note)
        self._record.words[rec.START] = self.offset
