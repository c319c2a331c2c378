"""Transcripts of agents, read as what they are: files of another program, that may be huge, half-written or strange.

Nothing here blocks or reads more than a bounded part of anything: `list` asks for many sessions.
"""

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from kildsvc.shim.text import Cleaner

# Parsing this much takes 5 to 20 ms.
TAIL = 256 * 1024
LINES_MAX = 1000
HEAD = 64 * 1024
# Of a directory so many entries are looked at, and so many conversations.
ENTRIES_MAX = 2000
CANDIDATES_MAX = 20
LINE_MAX = 200
# The agent's clock is ours, but its first line may bear the time at which it was started.
SLACK_SEC = 2.0


@dataclass(frozen=True)
class Search:
    """Whose conversation: begun or active while an agent ran in a directory, or the one of that id."""

    cwd: str
    env: Mapping[str, str]  # the agent's
    since: float = 0.0
    until: float = math.inf
    id: str | None = None
    taken: frozenset[str] = frozenset()  # known to be another session's

    def path(self, variable: str, default: str) -> Path:
        home = self.env.get("HOME") or os.path.expanduser("~")
        return Path(self.env.get(variable) or os.path.join(home, default))

    @property
    def directories(self) -> tuple[str, str]:
        """As it was given, and as the kernel tells the agent."""
        return self.cwd, os.path.realpath(self.cwd)

    def is_cwd(self, directory: object) -> bool:
        return directory in self.directories


@dataclass(frozen=True)
class Conversation:
    """What an agent has written down of one."""

    id: str
    file: str
    active: float  # when it was last written
    begun: float | None


def choose(found: Iterable[Conversation], search: Search) -> Conversation | None:
    """Rather one begun in the time asked for than one only active in it; then the one active last."""
    since, until = search.since - SLACK_SEC, search.until + SLACK_SEC
    fits = [
        one
        for one in found
        if one.active >= since
        and (one.active if one.begun is None else one.begun) <= until
        and one.id not in search.taken
    ]
    return max(fits, key=lambda one: ((one.begun or 0) >= since, one.active), default=None)


# -- files -------------------------------------------------------------------------------------------------


def _open(path: str | Path) -> int | None:
    try:
        # Something else in the place of a file must neither block us nor lead us elsewhere.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def head(path: str | Path, limit: int = HEAD) -> bytes:
    """The beginning of a file; nothing where there is none."""
    fd = _open(path)
    if fd is None:
        return b""
    try:
        return os.read(fd, limit)
    except OSError:
        return b""
    finally:
        os.close(fd)


def tail(path: str | Path) -> tuple[list[bytes], bool]:
    """The last lines of a file, and whether they are all of them."""
    fd = _open(path)
    if fd is None:
        return [], False
    try:
        start = max(0, os.fstat(fd).st_size - TAIL)
        data = os.pread(fd, TAIL, start)
    except OSError:
        return [], False
    finally:
        os.close(fd)
    # What stands before them is lines more, or a part of one.
    before, *lines = data.rsplit(b"\n", LINES_MAX)
    whole = start == 0 and b"\n" not in before
    return [before, *lines] if whole else lines, whole


def listing(directory: str | Path) -> list[str]:
    """The paths in a directory, not more than one can look at."""
    try:
        with os.scandir(directory) as scan:
            return [entry.path for entry in islice(scan, ENTRIES_MAX)]
    except (OSError, ValueError):
        return []


def written(path: str) -> float:
    """When; 0 for what is no file, or not there."""
    try:
        about = os.lstat(path)
    except (OSError, ValueError):
        return 0.0
    return about.st_mtime if stat.S_ISREG(about.st_mode) else 0.0


def last_written(paths: Iterable[str], since: float) -> list[tuple[float, str]]:
    """Those written since then, the last one first."""
    recent = [(at, path) for path in paths if (at := written(path)) and at >= since - SLACK_SEC]
    return sorted(recent, reverse=True)[:CANDIDATES_MAX]


# -- values ------------------------------------------------------------------------------------------------


def parse(data: bytes | str) -> dict[str, Any]:
    """A JSON object; an empty one for anything else, such as a line that is being written."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def records(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if record := parse(line):
            yield record


def dig(value: Any, *keys: str) -> Any:
    """A value inside of objects inside of objects; None where it is not."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0


def amount(value: Any) -> float | None:
    usable = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if usable else None


def seconds(milliseconds: Any) -> float | None:
    value = amount(milliseconds)
    return value / 1000 if value else None


def stamp(text: Any) -> float | None:
    """An ISO time, with its zone."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def word(value: Any) -> str | None:
    """A short name, such as a model's."""
    return one_line(value)[:80] if isinstance(value, str) and value else None


def texts(blocks: Any) -> str:
    """The text of a message made of blocks."""
    if isinstance(blocks, str):
        return blocks
    parts = [dig(block, "text") for block in blocks] if isinstance(blocks, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))


def one_line(text: str) -> str:
    """As a terminal may show it, whatever the agent wrote."""
    plain = Cleaner().feed(text[: 4 * LINE_MAX].encode(errors="replace"), final=True)
    line = "".join(char for char in " ".join(plain.split()) if char.isprintable())
    return line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…"
