"""Signs of life of a session: the files its shim and its hooks leave, its processes, its terminal. All read-only."""

import json
import os
import re
import select
import termios
import time
from dataclasses import dataclass
from pathlib import Path

from kildsvc import store
from kildsvc.model import Mark, Process

MARKS = ("working", "waiting", "done")
_PTS_MAJOR = 136
_TEXT_MAX = 16 * 1024
_MARK_MAX = 1000
_RUN = re.compile(r"[0-9a-f]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Signs:
    """When a session last gave a sign of life; what nobody has seen is None."""

    last_output: float | None
    last_input: float | None
    last_bell: float | None
    cpu_at_output_usec: int | None
    mark: Mark | None


def read_run(directory: Path) -> tuple[str | None, float | None]:
    """Run id and start: the shim writes this file when a run begins and never again."""
    try:
        run = _text(directory / "run")
        return run if _RUN.fullmatch(run) else None, (directory / "run").stat().st_mtime
    except (OSError, ValueError):
        return None, None


def read_ready(directory: Path) -> int | None:
    """The agent's pid, from when it was up until its run is being ended or is over; None otherwise."""
    if (directory / "stopping").exists() or (directory / "closed").exists():
        return None
    try:
        return int(_text(directory / "ready")) or None
    except (OSError, ValueError):
        return None


def read(directory: Path) -> Signs:
    try:
        used = int(_text(directory / "output"))
    except (OSError, ValueError):
        used = 0
    return Signs(
        last_output=_time(directory / "output"),
        last_input=_time(directory / "input"),
        last_bell=_time(directory / "bell"),
        cpu_at_output_usec=used or None,
        mark=_mark(directory / "mark"),
    )


def _text(path: Path) -> str:
    return store.read_bytes(path, _TEXT_MAX).decode()


def _time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None  # it has not happened in this run


def _mark(path: Path) -> Mark | None:
    try:
        state, text, at = (json.loads(_text(path))[key] for key in ("state", "text", "at"))
        # An agent may write here what it likes, and we show it in somebody's terminal.
        if state not in MARKS or not 0 <= at < 1 << 40 or not isinstance(text, str) or len(text) > _MARK_MAX:
            return None
        return Mark(state, "".join(char if char.isprintable() else "?" for char in text), float(at))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def processes(pids: list[int], agent: int | None) -> list[Process]:
    """Those of a session's processes that the agent has started: not the agent, its shim and its waiter."""
    found = []
    for pid in pids:
        try:
            argv = _argv(pid)
            name = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            continue  # gone meanwhile
        if pid != agent and not _is_ours(argv) and argv:  # a kernel's zombie has no arguments
            command = " ".join(arg.decode(errors="replace") for arg in argv)
            found.append(Process(pid, command if len(command) <= 200 else f"{name} …"))
    return found


def is_supporting(pid: int) -> bool:
    """Whether it is a shim, its waiter or reaper, or about to become one: systemd's child before it is executed."""
    try:
        program = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        return program in ("systemd", "systemd-executor") or _is_ours(_argv(pid))
    except OSError:
        return False  # gone meanwhile, or somebody else's: no process of ours


def _argv(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/cmdline", "rb", 0) as file:
        return file.read().split(b"\0")[:-1]


def _is_ours(argv: list[bytes]) -> bool:
    shim = len(argv) > 2 and argv[1] == b"-SI" and argv[2].endswith(b".shim")
    return shim or (len(argv) > 1 and argv[1].endswith(b".shim/reap.sh"))


def took_terminal(pid: int) -> bool | None:
    """Whether the terminal of the process has left line mode; None when it has none that we can see."""
    try:
        # pid (name) state ppid pgrp session tty_nr; the name may hold anything, also parentheses.
        tty = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4])
        major, minor = tty >> 8 & 0xFFF, tty & 0xFF | tty >> 12 & 0xFFF00
        if major != _PTS_MAJOR:
            return None
        fd = os.open(f"/dev/pts/{minor}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, IndexError):
        return None
    try:
        return not termios.tcgetattr(fd)[3] & termios.ICANON
    except termios.error:
        return None
    finally:
        os.close(fd)


def working_in(directory: str) -> list[Process]:
    """Processes of this user that stand in the directory or below it."""
    found = []
    for entry in os.scandir("/proc"):
        try:
            if not entry.name.isdigit() or entry.stat().st_uid != os.getuid():
                continue
            cwd = os.readlink(f"{entry.path}/cwd")
            name = Path(f"{entry.path}/comm").read_text(errors="replace").rstrip("\n")
        except OSError:
            continue  # gone meanwhile, or a kernel's zombie, or not ours to look at
        if cwd == directory or cwd.startswith(directory.rstrip("/") + "/"):
            found.append(Process(int(entry.name), name))
    return found


def wait_left(directory: str, timeout_sec: float) -> list[Process]:
    """Blocks until the processes that stand in the directory have ended; those that have not."""
    deadline = time.monotonic() + timeout_sec
    for process in working_in(directory):
        try:
            fd = os.pidfd_open(process.pid)
        except ProcessLookupError:
            continue
        try:
            select.select([fd], [], [], max(0, deadline - time.monotonic()))
        finally:
            os.close(fd)
    return working_in(directory)
