"""The end of a run: everything is told before anybody can see the unit end."""

from __future__ import annotations

import json
import os
import select
import time

from kildsvc.shim import cgroup, child, notify
from kildsvc.shim import record as rec
from kildsvc.shim.ending import Ending
from kildsvc.shim.loop import READS_IN_A_ROW, Shim

# The agent's last output is kept in a file, for its last screen and for when the journal cannot be read: one line
# of JSON (what WELCOME tells of the output that follows), then that output.
LAST_OUTPUT = 128 * 1024
# For background processes to obey SIGTERM, for clients and journald to take the rest.
LEFTOVERS_SEC = 2.0
FAREWELL_SEC = 1.0
# A background process may go on writing; it is not waited for beyond this.
DRAIN_MAX = 8 * 1024 * 1024


def conclude(shim: Shim) -> Ending:
    """Everything that must be told is told before anybody can see the unit end."""
    if select.select([shim.wake_fd], [], [], 0)[0]:
        shim.on_signal(0)  # a stop that came with the agent's end, and was not seen before it
    ending = Ending.of(shim.record)
    drained = 0
    while drained < DRAIN_MAX and (count := shim.take_output(READS_IN_A_ROW)):
        drained += count
        shim.scrollback.flush()
    up = shim.record.flag(rec.READY)
    if not up:
        cgroup.end_others(0)
    deadline = time.monotonic() + FAREWELL_SEC
    while not shim.scrollback.flush(final=True) and shim.journal.settle_until(deadline):
        pass
    if not ending.oom:
        shim.memory.tell()
    if not shim.record.flag(rec.RECORDED):
        _record_end(shim, ending, deadline)
    notify.notify(f"STATUS={ending.status_text()}")
    shim.server.say_exit(ending.wire())
    _dismiss_clients(shim, deadline)
    if up and cgroup.others({shim.record.words[rec.WAITER_PID]}):
        notify.notify("STOPPING=1")
        cgroup.end_others(LEFTOVERS_SEC)
    return ending


def _record_end(shim: Shim, ending: Ending, deadline: float) -> None:
    _save_last_output(shim)
    executed = shim.record.words[rec.EXEC_USEC]
    lived = time.monotonic_ns() // 1000 - executed if executed else 0
    shim.journal.event(
        "ended",
        ending.status_text(),
        5,
        KILD_STOPPED=str(int(ending.stopped)),
        KILD_READY=str(int(shim.record.flag(rec.READY))),
        KILD_LIVED_USEC=str(lived),
        KILD_OFFSET=str(shim.record.end),
        **ending.fields(),
    )
    shim.journal.settle_until(deadline)
    shim.record.set_flag(rec.RECORDED)


def _save_last_output(shim: Shim) -> None:
    path = shim.launch["last_output"]
    shim.replay.follow(LAST_OUTPUT)
    rows, cols = child.get_size(shim.master_fd)
    pinned = shim.replay.pinned
    about = {**shim.replay.about(), "end": shim.record.end, "rows": rows, "cols": cols, "pinned": len(pinned)}
    try:
        with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(json.dumps(about).encode() + b"\n" + pinned)
            file.write(shim.record.bytes_between(shim.replay.offset, shim.record.end))
        os.replace(path + ".new", path)
    except OSError as error:
        shim.journal.trouble(f"cannot keep the last output in '{path}', ignoring: {error.strerror}")


def _dismiss_clients(shim: Shim, deadline: float) -> None:
    while shim.server.clients and (left := deadline - time.monotonic()) > 0:
        for fd, events in shim.epoll.poll(left):
            if client := shim.server.clients.get(fd):
                shim.server.on_client_ready(client, events)
            elif fd in shim.handlers:
                shim.unwatch(fd)
