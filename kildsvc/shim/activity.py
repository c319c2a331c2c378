"""When the agent last printed, was typed to and rang.

Told as files in the runtime directory, whose times status and list read without asking anybody, and as events.
"""

from __future__ import annotations

import os
import re
import time

from kildsvc.shim import cgroup
from kildsvc.shim.journal import Journal

# Silence of this length is told once; then nothing wakes the shim any more.
IDLE_SEC = 30.0
# The file of the last output is written so often at most.
STAMP_SEC = 0.25
# A program that rings all the time is told of once in this time.
BELL_SEC = 1.0

_STRING = re.compile(rb"\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)")
_OPEN_STRING = re.compile(rb"\x1b(?:[\]PX^_][^\x07\x1b]*\x1b?)?\Z")


class Bell:
    """Tells the bell from the same byte as the end of a window title."""

    def __init__(self) -> None:
        self._held = b""  # the beginning of a string whose end has not come

    def rings(self, data: bytes) -> bool:
        data = self._held + data
        rest = _STRING.sub(b"", data) if b"\x07" in data else data
        # Searched from the last but one ESC on: that may begin the string, and the last its end.
        at = rest.rfind(b"\x1b", 0, max(0, rest.rfind(b"\x1b")))
        found = _OPEN_STRING.search(rest, max(0, at)) if b"\x1b" in rest else None
        # Of a long string its kind is enough.
        self._held = found[0][:2] + (b"\x1b" if found[0][2:].endswith(b"\x1b") else b"") if found else b""
        return b"\x07" in rest


class Activity:
    def __init__(self, directory: str, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._bell = Bell()
        self._output_at = time.monotonic()
        self._stamped = self._rang = -60.0
        self._input_fd = -1
        self._untold = 0  # the pid of an agent that is up, while there is no descriptor to say so

    def begin(self) -> None:
        """A fresh run: what an earlier one left is not its."""
        for name in ("output", "input", "bell", "mark"):
            try:
                os.unlink(f"{self._directory}/{name}")
            except FileNotFoundError:
                pass
        self.on_ready(0)  # there now, so that it can be written to when the directory is full

    def recover(self) -> None:
        try:
            age = time.time() - os.stat(f"{self._directory}/output").st_mtime
        except FileNotFoundError:
            return
        self._output_at -= max(0.0, age)

    @property
    def silent_sec(self) -> float:
        return time.monotonic() - self._output_at

    def idle_deadline(self) -> float | None:
        """When silence is to be told; None when it has been."""
        return self._output_at + IDLE_SEC if self.silent_sec < IDLE_SEC else None

    def on_output(self) -> float:
        """There was output just now. Returns when it will have been silent for long."""
        self._output_at = time.monotonic()
        return self._output_at + IDLE_SEC

    def on_flush(self) -> None:
        if self._untold:
            self.on_ready(self._untold)
        if time.monotonic() - self._stamped >= STAMP_SEC:
            self._stamped = time.monotonic()
            # With the CPU time used so far: an agent that is silent and uses more of it is at work.
            self._stamp("output", b"%020d\n" % cgroup.cpu_usec(), self.silent_sec)

    def on_data(self, data: bytes) -> None:
        if self._bell.rings(data):
            self._stamp("bell")
            if time.monotonic() - self._rang >= BELL_SEC:
                self._rang = time.monotonic()
                self._journal.event("bell", "the agent rang the bell", 6)

    def on_ready(self, pid: int) -> None:
        """While a shim that was killed is started again, systemd cannot tell that its agent is up."""
        self._untold = 0 if self._stamp("ready", b"%010d\n" % pid) else pid

    def on_input(self) -> None:
        # Held open: a key should not wait for more than its own way.
        if self._input_fd < 0:
            try:
                self._input_fd = os.open(f"{self._directory}/input", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                return  # no room, or forgotten meanwhile: nobody reads it then
        os.utime(self._input_fd)

    def on_idle(self) -> None:
        self._journal.event("idle", f"silent for {IDLE_SEC:.0f} s", 6, KILD_IDLE_SEC=f"{IDLE_SEC:.0f}")

    def _stamp(self, name: str, data: bytes = b"\n", age_sec: float = 0) -> bool:
        """False: no room, no descriptor, or forgotten meanwhile, and nobody reads it then."""
        try:
            fd = os.open(f"{self._directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            os.pwrite(fd, data, 0)
            if age_sec:
                os.utime(fd, times=(time.time() - age_sec,) * 2)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True
