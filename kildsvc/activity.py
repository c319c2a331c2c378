"""Signs of life of a session: the files its shim and its hooks leave, its processes, its terminal. All read-only."""

import json
import os
import termios
from dataclasses import dataclass
from pathlib import Path

from kildsvc.model import Mark, Process

MARKS = ("working", "waiting", "done")
_PTS_MAJOR = 136


@dataclass(frozen=True)
class Signs:
    last_output: float | None
    last_input: float | None
    last_bell: float | None
    cpu_at_output_usec: int | None
    mark: Mark | None


def read_run(directory: Path) -> tuple[str | None, float | None]:
    """Run id and start: the shim writes this file when a run begins and never again."""
    try:
        return (directory / "run").read_text(), (directory / "run").stat().st_mtime
    except (OSError, UnicodeDecodeError):
        return None, None


def read_ready(directory: Path) -> int | None:
    """The agent's pid, from when it was up until its run is being ended or is over; None otherwise."""
    if (directory / "stopping").exists() or (directory / "closed").exists():
        return None
    try:
        return int((directory / "ready").read_text())
    except (OSError, ValueError):
        return None


def read(directory: Path) -> Signs:
    try:
        used = int((directory / "output").read_text())
    except (OSError, ValueError):
        used = 0
    return Signs(
        last_output=_time(directory / "output"),
        last_input=_time(directory / "input"),
        last_bell=_time(directory / "bell"),
        cpu_at_output_usec=used or None,
        mark=_mark(directory / "mark"),
    )


def _time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None  # it has not happened in this run


def _mark(path: Path) -> Mark | None:
    try:
        values = json.loads(path.read_text())
        return Mark(str(values["state"]), str(values["text"]), float(values["at"]))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def processes(pids: list[int], agent: int | None) -> list[Process]:
    """Those of a session's processes that the agent has started: not the agent, its shim and its waiter."""
    found = []
    for pid in pids:
        try:
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
            name = Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
        except OSError:
            continue  # gone meanwhile
        ours = len(argv) > 2 and argv[1] == b"-SI" and argv[2].endswith(b".shim")
        if pid != agent and not ours and argv:  # a kernel's zombie has no arguments
            command = " ".join(arg.decode(errors="replace") for arg in argv)
            found.append(Process(pid, command if len(command) <= 200 else f"{name} …"))
    return found


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
