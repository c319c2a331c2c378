"""The shim's start: a fresh run, or one that goes on after a crash of the shim.

systemd starts it as `python -SI DIR NAME RUN`, with DIR a copy of this code made for the run. It depends on
nothing but the standard library, and is always the unit's main process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

from kildsvc.shim import child, fence, notify
from kildsvc.shim import record as rec
from kildsvc.shim.ending import Ending
from kildsvc.shim.finish import FAREWELL_SEC, conclude
from kildsvc.shim.journal import Journal
from kildsvc.shim.loop import Shim
from kildsvc.shim.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# Of an agent that has obeyed and ended with 0; as timeout(1) has it.
TIME_IS_OVER = 124
# Again and again is bearable, but not without a pause.
PAUSE_SEC = 0.5


def ignore_signals() -> None:
    """Nothing but SIGTERM, SIGKILL and our own faults ends shim or waiter."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP}
    for number in signal.valid_signals() - faults - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, signal.SIG_IGN)


def listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener.bind(path)
    listener.listen(64)
    return listener


def next_run(directory: str, run: str) -> str:
    """The id of a fresh run: RUN itself, then RUN.2, RUN.3 … each time systemd starts the unit anew."""
    path = f"{directory}/run"
    try:
        with open(path) as file:
            last = file.read()
    except FileNotFoundError:
        last = ""
    base, _, count = last.partition(".")
    current = run if base != run else f"{run}.{int(count or 1) + 1}"
    with open(path + ".new", "w") as file:
        file.write(current)
    os.replace(path + ".new", path)
    return current


def catch_stop() -> int:
    """A descriptor that is readable once SIGTERM has come."""
    wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return wake_r


def start(directory: str, run: str) -> Shim:
    wake_fd = catch_stop()
    with open(f"{directory}/{run}.json") as file:
        launch = json.load(file)
    fds = notify.stored()
    closed = f"{directory}/closed"
    if "record" in fds and not os.path.exists(closed):
        record = Record(fds["record"])
        shim = Shim(launch, record, fds["pty"], socket.socket(fileno=fds["listen"]), wake_fd)
        if record.words[rec.PHASE] == rec.EMPTY:
            shim.begin()  # it died before there was an agent
        else:
            shim.recover(fds.get("waiter", -1), fds.get("agent", -1))
        return shim
    for fd in fds.values():
        os.close(fd)
    for mark in (closed, f"{directory}/stopping"):
        if os.path.exists(mark):
            os.unlink(mark)
    record = Record.create(next_run(directory, run), launch["ring_bytes"])
    if launch["sandbox"] and (problem := fence.problem(launch["sandbox"])):
        refuse(launch, record.run, f"its sandbox does not hold: {problem}")
    master_fd = child.open_terminal(launch["rows"], launch["cols"])
    shim = Shim(launch, record, master_fd, listen(f"{directory}/sock"), wake_fd)
    shim.begin()
    return shim


def refuse(launch: dict[str, Any], run: str, problem: str) -> NoReturn:
    """No agent is started; told as one that could not be executed."""
    journal = Journal.of(launch, run)
    journal.event("ended", f"ended: not executed: {problem}", 4, KILD_EXIT_CODE="127", KILD_EXEC_ERROR=problem)
    journal.settle_until(time.monotonic() + FAREWELL_SEC)
    notify.notify(f"STATUS=ended: not executed: {problem}")
    os._exit(127)


def give_up(shim: Shim | None) -> NoReturn:
    """A fault of our own. The agent is not to die of it: killed, we are started again and go on."""
    try:
        sys.excepthook(*sys.exc_info())
        if shim is None and "record" not in notify.stored():
            os._exit(1)  # there is no agent yet
        time.sleep(PAUSE_SEC)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def end(shim: Shim) -> Ending:
    """Tells all of the run's end; if that fails a second time, or a stop is under way, after which nobody starts us
    again, only how it ended."""
    try:
        return conclude(shim)
    except Exception:
        if not shim.record.flag(rec.FAILED) and not shim.stopping:
            shim.record.set_flag(rec.FAILED)
            raise
    ending = Ending.of(shim.record)
    notify.notify(f"STATUS={ending.status_text()}")
    return ending


def main() -> None:
    ignore_signals()
    shim = None
    try:
        shim = start(os.path.dirname(sys.argv[0]), sys.argv[2])
        shim.serve()
        ending = end(shim)
    except Exception:
        give_up(shim)
    if shim.stopping:
        # Death by SIGTERM is the mark of a requested stop: nothing else's end looks like it. (When its time was
        # over systemd has asked for it, and calls it Result=timeout.)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    os._exit(ending.exit_code() or (TIME_IS_OVER if ending.timed_out else 0))
