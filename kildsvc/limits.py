"""The limits a session can have: one row each. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from kildsvc import quantity
from kildsvc.errors import UsageError
from kildsvc.systemd.properties import Property

# What takes a limit away, also one that the configuration has; systemd's number for it.
INFINITY = "infinity"
NONE = 2**64 - 1


@dataclass(frozen=True)
class Share:
    """A part of the machine's memory."""

    percent: float


def _number(text: str, least: int, most: int, what: str) -> int:
    if not re.fullmatch(r"-?\d+", text) or not least <= int(text) <= most:
        raise ValueError(f"'{text}' is not {what}")
    return int(text)


def _memory(text: str) -> int | Share:
    if text.endswith("%"):
        return Share(_percent(text, 100, "80%"))
    value = quantity.size(text)
    if value == 0:
        raise ValueError(f"'{text}' is too little")
    return value


def _cpu(text: str) -> int:
    """Microseconds of CPU per second."""
    return int(_percent(text, 1_000_000, "50%, or 200% for two CPUs") * 10_000)


def _percent(text: str, most: float, example: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?%", text) or not 0 < float(text[:-1]) <= most:
        raise ValueError(f"'{text}' is not a share such as {example}")
    return float(text[:-1])


def _runtime(text: str) -> int:
    value = quantity.duration(text)
    if value == 0:
        raise ValueError(f"'{text}' is too short")
    return value


_weight = partial(_number, least=1, most=10000, what="a weight from 1 to 10000; 100 is the usual one")


@dataclass(frozen=True)
class Limit:
    """One thing that can be limited: how it is written, told to systemd, and read back from the kernel."""

    name: str
    parse: Callable[[str], int | Share]  # raises ValueError
    metavar: str
    help: str
    unit_property: str = ""  # without one the shim sets it on the agent
    controller: str = ""  # of cgroup v2, without which it has no effect
    file: str = ""  # where the kernel tells it
    live: bool = True  # can be changed while the session runs

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def read(self, text: str, memory: int) -> int | None:
        """None is no limit. `memory` is all that the machine has. Raises ValueError."""
        value = None if text == INFINITY else self.parse(text)
        return int(memory * value.percent / 100) if isinstance(value, Share) else value

    def check(self, text: object) -> str:
        """The text itself when it can be read. Raises ValueError."""
        self.read(str(text), 0)
        return str(text)


TABLE = {
    limit.name: limit
    for limit in (
        Limit(
            "memory", _memory, "SIZE", "Memory it may use; beyond it is killed.", "MemoryMax", "memory", "memory.max"
        ),
        Limit(
            "memory_high",
            _memory,
            "SIZE",
            "Memory beyond which it is slowed down.",
            "MemoryHigh",
            "memory",
            "memory.high",
        ),
        Limit(
            "swap",
            quantity.size,
            "SIZE",
            "Swap it may use; 0 for none.",
            "MemorySwapMax",
            "memory",
            "memory.swap.max",
        ),
        Limit(
            "cpu", _cpu, "PERCENT", "CPU time it may use; 200% is two CPUs.", "CPUQuotaPerSecUSec", "cpu", "cpu.max"
        ),
        Limit("cpu_weight", _weight, "1-10000", "Its share when CPUs are short.", "CPUWeight", "cpu", "cpu.weight"),
        Limit("io_weight", _weight, "1-10000", "Its share when disks are short.", "IOWeight", "io", "io.weight"),
        Limit(
            "tasks",
            partial(_number, least=1, most=2**32, what="a number of tasks from 1 on"),
            "NUMBER",
            "Processes and threads it may have, its shim's 2 included.",
            "TasksMax",
            "pids",
            "pids.max",
        ),
        Limit("runtime", _runtime, "DURATION", "How long it may run, pauses included.", "RuntimeMaxUSec", live=False),
        Limit(
            "nice",
            partial(_number, least=0, most=19, what="a niceness from 0 to 19; below 0 is for root"),
            "0-19",
            "Niceness of the agent among its own processes; see --cpu-weight.",
            live=False,
        ),
        Limit(
            "nofile",
            partial(_number, least=8, most=2**31, what="a number of files from 8 on"),
            "NUMBER",
            "Files each of its processes may have open.",
            live=False,
        ),
    )
}


Values = Mapping[str, int | None]


def read(asked: Mapping[str, str], memory: int) -> Values:
    """What was asked for, understood. Raises UsageError."""
    found = {}
    for name, text in asked.items():
        if name not in TABLE:
            raise UsageError(f"there is no limit '{name}'", f"known are {', '.join(TABLE)}")
        try:
            found[name] = TABLE[name].read(text, memory)
        except ValueError as error:
            raise UsageError(f"{TABLE[name].flag}: {error}") from error
    return found


def properties(values: Values) -> list[Property]:
    """Of the unit."""
    rows = ((TABLE[name].unit_property, NONE if value is None else value) for name, value in values.items())
    return [(key, "t", value) for key, value in rows if key]


def told(text: str) -> float | None:
    """What a file of the kernel says; None is no limit. cpu.max as percent of one CPU."""
    words = text.split()
    if not words or words[0] == "max":
        return None
    if words[0] == "default":  # io.weight; lines for single disks follow
        return int(words[1])
    return int(words[0]) * 100 / int(words[1]) if len(words) == 2 else int(words[0])
