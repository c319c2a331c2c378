"""What the kernel says of a unit's processes."""

import os
import select
import time
from pathlib import Path


def _root() -> Path:
    unified = Path("/sys/fs/cgroup/unified")
    return unified if unified.is_dir() else Path("/sys/fs/cgroup")


class Group:
    def __init__(self, path: str) -> None:
        self._path = _root() / path.lstrip("/")

    def _read(self, name: str) -> str | None:
        try:
            return (self._path / name).read_text()
        except OSError:
            return None  # no such controller here, or the group is gone

    def number(self, name: str) -> int | None:
        text = self._read(name)
        return int(text) if text and text.strip().isdigit() else None

    @property
    def cpu_usec(self) -> int | None:
        for line in (self._read("cpu.stat") or "").splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1])
        return None

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in (self._read("cgroup.procs") or "").split()]

    @property
    def populated(self) -> bool:
        return "populated 1" in (self._read("cgroup.events") or "")

    @property
    def frozen(self) -> bool:
        return "frozen 1" in (self._read("cgroup.events") or "")

    def wait_empty(self, timeout_sec: float) -> bool:
        """Blocks until no process is left in the group; the kernel wakes us (POLLPRI on cgroup.events)."""
        deadline = time.monotonic() + timeout_sec
        try:
            fd = os.open(self._path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            poll = select.poll()
            poll.register(fd, select.POLLPRI)
            while self.populated:
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
