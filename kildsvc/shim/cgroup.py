"""The processes of this unit, as the kernel lists them."""

import os
import select
import signal
import time

_procs: str | None = None


def _procs_file() -> str | None:
    """Found once: a unit's processes stay in its cgroup."""
    global _procs
    if _procs is None:
        with open("/proc/self/cgroup") as file:
            path = next((line[3:].strip() for line in file if line.startswith("0::")), "")
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            if path and os.access(f"{root}{path}/cgroup.procs", os.R_OK):
                _procs = f"{root}{path}/cgroup.procs"
                break
    return _procs


def number(name: str, key: str = "") -> int:
    """A number of this unit's cgroup: `usage_usec` of cpu.stat, all of memory.max; 0 where there is none."""
    try:
        with open(_file(name)) as file:
            words = next((words for line in file if (words := line.split())[0] == key or not key), ["0"])
    except OSError:
        return 0
    return int(words[-1]) if words[-1].isdigit() else 0


def open_file(name: str) -> int:
    """-1 where there is none."""
    try:
        return os.open(_file(name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _file(name: str) -> str:
    return (_procs_file() or "").replace("cgroup.procs", name)


def cpu_usec() -> int:
    return number("cpu.stat", "usage_usec")


def others(spare: set[int]) -> list[int]:
    """Every process of the unit but this one and those to spare; [] where the kernel does not tell."""
    path = _procs_file()
    if path is None:
        return []
    found = []
    # An agent that was paused once is in a group of its own.
    for procs in (path, _file("agent/cgroup.procs")):
        try:
            with open(procs) as file:
                found += [pid for pid in map(int, file) if pid != os.getpid() and pid not in spare]
        except OSError:
            pass  # there is none, or it was removed as it was read (ENODEV)
    return found


def thaw() -> None:
    """A paused agent could not obey a signal."""
    try:
        with open(_file("agent/cgroup.freeze"), "w") as file:
            file.write("0")
    except OSError:
        pass  # it was never paused, or is for others to thaw: the file system is read-only in a sandbox


def open_member(pid: int) -> int:
    """A pidfd of a process of this unit; -1 when it is gone (or the number is somebody else's by now)."""
    try:
        fd = os.pidfd_open(pid) if pid else -1
    except ProcessLookupError:
        return -1
    # Asked after the descriptor is held: from here on the number cannot change hands unnoticed.
    if fd >= 0 and pid not in others(set()) and _procs_file():
        os.close(fd)
        return -1
    return fd


def end_others(grace_sec: float) -> None:
    """TERM, then KILL after the grace, for whatever is left. Returns when they are gone or cannot be killed."""
    deadline = time.monotonic() + grace_sec
    if grace_sec > 0:
        _signal_and_wait(signal.SIGTERM, deadline)
    # Again and again: a process may fork while it is being looked for.
    for _ in range(100):
        if not _signal_and_wait(signal.SIGKILL, time.monotonic() + 1):
            return


def _signal_and_wait(number: int, deadline: float) -> bool:
    """Signals every other process and waits for these to end. False: there was none."""
    poll = select.poll()
    fds = []
    for pid in others(set()):
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        fds.append(fd)
        try:
            signal.pidfd_send_signal(fd, number)
        except ProcessLookupError:
            continue
        poll.register(fd, select.POLLIN)
    left = len(fds)
    waiting = left
    while waiting:
        ready = poll.poll(max(0, (deadline - time.monotonic()) * 1000))
        if not ready:
            break
        for fd, _ in ready:
            poll.unregister(fd)
        waiting -= len(ready)
    for fd in fds:
        os.close(fd)
    return left > 0
