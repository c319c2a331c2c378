"""What an agent prints, passed on."""

import os

from kildsvc.shim.modes import Modes
from kildsvc.shim.text import Cleaner


class Output:
    """What an agent prints, as bytes for a terminal or as lines for everything else. Use as context manager."""

    def __init__(self, raw: bool) -> None:
        self._cleaner = None if raw else Cleaner()
        self._modes = Modes()

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_: object) -> None:
        if self._cleaner:
            self._write(self._cleaner.feed(b"", final=True).encode())
        elif self._modes.state():
            self._write(self._modes.resetting())

    def write(self, data: bytes) -> None:
        """Raises OSError when nobody reads it."""
        if self._cleaner:
            data = self._cleaner.feed(data).encode()
        else:
            self._modes.feed(data)
        self._write(data)

    @staticmethod
    def _write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
