"""Processes of this unit that the kernel killed for want of memory; and what there was to be had."""

from __future__ import annotations

import os

from kildsvc.shim import cgroup
from kildsvc.shim import record as rec
from kildsvc.shim.journal import Journal
from kildsvc.shim.record import Record
from kildsvc.shim.sizes import size


class Memory:
    """A descriptor on which the kernel tells (EPOLLPRI) that memory.events has changed; -1 where there is none."""

    def __init__(self, record: Record, journal: Journal) -> None:
        self._record, self._journal = record, journal
        self.fd = cgroup.open_file("memory.events")

    def begin(self) -> None:
        """Those of an earlier run in the same group are not of this one."""
        self._record.words[rec.OOM_TOLD] = cgroup.number("memory.events", "oom_kill")

    def on_change(self) -> bool:
        """Whether processes were killed that nobody has been told of."""
        os.pread(self.fd, 4096, 0)  # until then it is not told again
        return cgroup.number("memory.events", "oom_kill") > self._record.words[rec.OOM_TOLD]

    def tell(self) -> None:
        kills = cgroup.number("memory.events", "oom_kill")
        new = kills - self._record.words[rec.OOM_TOLD]
        self._record.words[rec.OOM_TOLD] = kills
        if new > 0:
            text = "1 process was" if new == 1 else f"{new} processes were"
            self._journal.event("oom", f"{text} killed for want of memory: {describe()}", 4)


def describe() -> str:
    """The limit that was met, and the most that was used."""
    limit, peak = cgroup.number("memory.max"), cgroup.number("memory.peak")
    # `oom` counts only in the group whose limit was met, and those above.
    own = limit and cgroup.number("memory.events", "oom")
    words = [f"limit {size(limit)}" if own else "not by a limit of its own"]
    return ", ".join(words + ([f"peak {size(peak)}"] if peak else []))
