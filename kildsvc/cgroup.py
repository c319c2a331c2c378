"""What the kernel says of a unit's processes."""

import os
import select
import time
from collections.abc import Callable
from functools import cache
from io import FileIO
from pathlib import Path

# The group below the unit's own in which an agent is frozen. Not the unit's: with the shim frozen nobody would
# answer, and what systemd starts in a frozen group (the reaper, a new shim) hangs, and with it the whole of 257.
AGENT = "agent"
FREEZE_SEC = 5.0


@cache
def _root() -> Path:
    unified = Path("/sys/fs/cgroup/unified")
    return unified if unified.is_dir() else Path("/sys/fs/cgroup")


class Group:
    def __init__(self, path: str) -> None:
        self._name = path
        self._path = _root() / path.lstrip("/")

    def read(self, name: str) -> str:
        """A file of it; empty where there is none: no such controller here, or the group is gone."""
        try:
            # Not with pathlib, which takes twice as long: `list` reads sixteen files of each session.
            with FileIO(f"{self._path}/{name}") as file:
                return file.readall().decode()
        except OSError:
            return ""

    def number(self, name: str, key: str = "") -> int | None:
        """All of a file, or what follows a key in it."""
        for line in self.read(name).splitlines():
            words = line.split()
            if (words[0] == key or not key) and words[-1].isdigit():
                return int(words[-1])
        return None

    @property
    def pids(self) -> list[int]:
        procs = (self.read(f"{group}/cgroup.procs") for group in (".", AGENT))
        return [int(pid) for text in procs for pid in text.split()]

    @property
    def populated(self) -> bool:
        return "populated 1" in self.read("cgroup.events")

    @property
    def frozen(self) -> bool:
        agent = self.read(f"{AGENT}/cgroup.events")
        return self.frozen_whole or ("populated 1" in agent and "frozen 1" in agent)

    @property
    def frozen_whole(self) -> bool:
        """By `systemctl freeze`, not by us."""
        return "frozen 1" in self.read("cgroup.events")

    def freeze(self, spare: Callable[[int], bool]) -> bool:
        """Freezes every process but those to spare; False when the kernel cannot in time. Raises OSError."""
        group = Group(f"{self._name}/{AGENT}")
        group._path.mkdir(exist_ok=True)
        # Frozen first: what comes into it does not fork any more, so that this has an end.
        group._write("cgroup.freeze", "1")
        deadline = time.monotonic() + FREEZE_SEC
        while moving := [pid for pid in map(int, self.read("cgroup.procs").split()) if not spare(pid)]:
            if time.monotonic() > deadline:
                return False  # one that is ending, and does not come to an end
            for pid in moving:
                try:
                    group._write("cgroup.procs", str(pid))
                except ProcessLookupError:
                    pass  # it has ended
        return group._wait(lambda: group.frozen_whole or not group.populated, FREEZE_SEC)

    def thaw(self) -> None:
        for group in (".", AGENT):
            if self.number(f"{group}/cgroup.freeze"):
                self._write(f"{group}/cgroup.freeze", "0")

    def _write(self, name: str, text: str) -> None:
        (self._path / name).write_text(text)

    def wait_empty(self, timeout_sec: float) -> bool:
        """Blocks until no process is left in the group."""
        return self._wait(lambda: not self.populated, timeout_sec)

    def _wait(self, done: Callable[[], bool], timeout_sec: float) -> bool:
        """The kernel wakes us (POLLPRI on cgroup.events). A group that is gone is done."""
        deadline = time.monotonic() + timeout_sec
        try:
            fd = os.open(self._path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            poll = select.poll()
            poll.register(fd, select.POLLPRI)
            while not done():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                poll.poll(left * 1000)
                os.pread(fd, 4096, 0)
        except OSError:
            return True  # removed: ENODEV
        finally:
            os.close(fd)
        return True
