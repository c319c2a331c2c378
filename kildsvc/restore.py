"""What a client gets of the past, put together: the terminal as it would be had one stayed."""

from typing import Any

from kildsvc import screen
from kildsvc.plain_screen import PlainScreen
from kildsvc.screen import Screen
from kildsvc.shim.modes import Modes
from kildsvc.shim.queries import QUERY


class Past:
    """Collects what comes between WELCOME (or RESYNC) and live output."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about
        self._pinned = b""
        self._data = bytearray()
        self._start: int = about["offset"]
        self.end: int = about["end"]

    def pinned(self, data: bytes) -> None:
        self._pinned += data

    def add(self, data: bytes) -> None:
        self._data += data

    @property
    def complete(self) -> bool:
        return self._start + len(self._data) >= self.end

    def modes(self) -> Modes:
        modes = Modes(self._about.get("modes"))
        modes.feed(bytes(self._data))
        return modes

    def screen(self, history: int = screen.HISTORY) -> Screen | PlainScreen:
        """The screen at the end of the past, fed at the sizes the terminal had."""
        sizes = self._about.get("sizes") or [[0, self._about.get("rows", 24), self._about.get("cols", 80)]]
        _, rows, cols = sizes[0]
        result = (Screen if screen.AVAILABLE else PlainScreen)(rows, cols, history)
        if self._pinned:
            result.feed(self._pinned + b"\x1b[?1049h")
        at = self._start
        for offset, rows, cols in sizes[1:]:
            if at < offset <= self.end:
                result.feed(bytes(self._data[at - self._start : offset - self._start]))
                at = offset
            result.resize(rows, cols)
        result.feed(bytes(self._data[at - self._start :]))
        return result

    def drawing(self, rows: int, cols: int) -> bytes:
        """What brings the user's terminal, of this size, to that state; its own content goes up, out of sight."""
        modes = self.modes()
        clear = f"\x1b[{rows};1H" + "\n" * rows + "\x1b[H\x1b[2J"
        if not screen.AVAILABLE:
            # Replayed as it was, but for questions, which the user's terminal would answer into the agent's input.
            begin = Modes(self._about.get("modes"))
            switch = f"\x1b[?{begin.alternate}h" if begin.alternate else ""
            data = (self._pinned + switch.encode() if self._pinned else switch.encode()) + begin.setting()
            return clear.encode() + data + QUERY.sub(b"", bytes(self._data))
        result = self.screen()
        assert isinstance(result, Screen)
        result.resize(rows, cols)
        text = clear + result.history_drawing() + "\x1b[H" + result.drawing()
        return text.encode(errors="replace") + modes.setting()
