"""The shim at work: one loop over the terminal, the agent's end, clients, timers and the journal."""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from kildsvc.shim import cgroup, child, notify
from kildsvc.shim import record as rec
from kildsvc.shim.activity import Activity
from kildsvc.shim.agent import Agent
from kildsvc.shim.journal import Journal
from kildsvc.shim.memory import Memory
from kildsvc.shim.modes import Modes
from kildsvc.shim.queries import TRACE, Answerer
from kildsvc.shim.record import Record
from kildsvc.shim.replay import Replay
from kildsvc.shim.scrollback import BATCH, FLUSH_SEC, TICK_SEC, Scrollback
from kildsvc.shim.server import Client, Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Typed input that the agent has not read yet; beyond it clients are not read from.
INPUT_MAX = 64 * 1024
# What could not be had, a descriptor or journald, is asked for again after this.
RETRY_SEC = 1.0
# Reads of the terminal in a row before clients and timers have their turn.
READS_IN_A_ROW = 64
# A client that is half a ring behind is waited for, so that none of a flood is lost on the way to it; but no longer
# than this at a time.
PATIENCE_SEC = 1.0
# An agent known to take the terminal is up when it has; but alive for so long is up too.
TAKE_SEC = 5.0
# systemd ends a run whose time is over, within 250 ms; the shim does after a crash, for which systemd counts anew.
RUNTIME_SLACK_SEC = 1.0
# The kernel counts a kill for want of memory before it kills; whom it was for is looked at after this.
OOM_SEC = 0.5


class Shim:
    def __init__(
        self, launch: dict[str, Any], record: Record, master_fd: int, listener: socket.socket, wake_fd: int
    ) -> None:
        self.launch = launch
        self.directory = os.path.dirname(listener.getsockname())
        self.wake_fd = wake_fd
        self.record = record
        self.master_fd = master_fd
        self.slave_fd = child.open_slave(master_fd)
        self.waiter_fd = self.exec_fd = -1
        self.agent = Agent(record, self.slave_fd, launch["takes_terminal"])
        self.journal = Journal.of(launch, record.run)
        self.activity = Activity(self.directory, self.journal)
        self.memory = Memory(record, self.journal)
        self.scrollback = Scrollback(record, self.journal, child.get_size(master_fd), self.activity.on_data)
        self.replay = Replay(record)
        self.answerer = Answerer(launch["version"])
        self.epoll = select.epoll()
        calls = self.about, self.on_input, self.on_client_size, self.on_client_change
        self.server = Server(listener, record, self.replay, self.epoll, *calls)
        self.typed = bytearray()
        self.blocked = False  # the agent does not take all of it now
        self.deadlines: dict[str, float] = {}  # monotonic; none while idle
        self.stopping = record.flag(rec.STOPPING)
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.over = False
        self.take_until = 0.0

    # -- set-up ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A fresh run: the descriptors are with systemd before there is an agent to lose."""
        for name in ("record", "pty", "listen", "waiter", "agent"):
            notify.forget(name)
        notify.store("record", self.record.fd)
        notify.store("pty", self.master_fd)
        notify.store("listen", self.server.listener.fileno())
        self.activity.begin()
        self.memory.begin()
        self.replay.resized(*child.get_size(self.master_fd))
        rows, cols = child.get_size(self.master_fd)
        size = {"KILD_ROWS": str(rows), "KILD_COLS": str(cols)}
        self.journal.event("opened", f"opened: {self.launch['title']}", 6, **size)
        self.exec_fd = child.start(self.launch, self.record, self.slave_fd)
        self.waiter_fd = os.pidfd_open(self.record.words[rec.WAITER_PID])
        notify.store("waiter", self.waiter_fd)
        self.watch(self.exec_fd, self.on_executed)
        self.watch_all()

    def recover(self, waiter_fd: int, agent_fd: int) -> None:
        """After a crash of the shim: the agent has gone on, or has ended meanwhile."""
        self.waiter_fd, self.agent.fd = waiter_fd, agent_fd
        self.record.recover()
        self.activity.recover()
        if self.waiter_fd < 0:
            self.waiter_fd = cgroup.open_member(self.record.words[rec.WAITER_PID])
        self.agent.find()
        fate = "goes on" if self.agent.alive() else "has ended meanwhile"
        self.journal.event("recovered", f"the shim was restarted; the agent {fate}", 4)
        if self.record.flag(rec.READY):
            self.say_running("READY=1\n")
        else:
            self.start_grace()
        self.watch_all()
        if self.stopping or self.record.flag(rec.TIMED_OUT):
            self.end_agent()

    def watch_all(self) -> None:
        if deadline := self.activity.idle_deadline():
            self.deadlines["idle"] = deadline
        self.watch(self.master_fd, self.on_pty_ready)
        self.watch(self.server.listener.fileno(), self.on_listener_readable)
        if self.waiter_fd >= 0:
            self.watch(self.waiter_fd, self.on_waiter_exit)
        else:
            self.deadlines["lost"] = 0
        self.watch(self.wake_fd, self.on_signal)
        if self.memory.fd >= 0:
            self.watch(self.memory.fd, self.on_memory_event, select.EPOLLPRI)
        self.plan_end()

    def watch(self, fd: int, handler: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        self.epoll.register(fd, events)
        self.handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        self.epoll.unregister(fd)
        del self.handlers[fd]

    # -- the loop -------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the agent has ended. An idle session sleeps in epoll without a timeout."""
        while not self.over:
            timeout = -1.0
            if self.deadlines:
                timeout = max(0.0, min(self.deadlines.values()) - time.monotonic())
            for fd, events in self.epoll.poll(timeout):
                if handler := self.handlers.get(fd):
                    handler(events)
                elif client := self.server.clients.get(fd):
                    self.server.on_client_ready(client, events)
                    if "wait" in self.deadlines and not self.server.behind(self.record.size // 4):
                        self.go_on()
            if self.deadlines:
                self.on_time(time.monotonic())

    def on_time(self, now: float) -> None:
        due = [name for name, at in self.deadlines.items() if at <= now]
        for name in due:
            del self.deadlines[name]
            if name == "flush":
                self.flush()
            elif name == "tick":
                self.scrollback.tick()
                self.plan_tick()
            elif name == "grace":
                self.on_ready()
            elif name == "kill":
                self.agent.signal(signal.SIGKILL)
            elif name == "lost":
                self.on_waiter_lost()
            elif name == "idle":
                self.activity.on_idle()
            elif name == "oom":
                if not self.agent.is_dying():
                    self.memory.tell()
            elif name == "runtime" and not self.stopping:
                self.record.set_flag(rec.TIMED_OUT)
                self.end_agent()
            elif name == "wait":
                self.server.wait_no_more(self.record.size // 4)
                self.go_on()
            elif name == "accept":
                self.watch(self.server.listener.fileno(), self.on_listener_readable)

    def on_pty_ready(self, events: int) -> None:
        if events & select.EPOLLIN:
            before = self.record.end
            self.take_output(READS_IN_A_ROW)
            self.deadlines["idle"] = self.activity.on_output()
            self.server.pump_all()
            self.answer_queries(before)
            if self.agent.awaits_terminal:
                self.on_terminal_taken()
            if self.scrollback.behind >= BATCH and not self.scrollback.throttled:
                self.flush()
            elif "flush" not in self.deadlines:
                self.deadlines["flush"] = time.monotonic() + FLUSH_SEC
            if self.server.behind(self.record.size // 2):
                self.unwatch(self.master_fd)
                self.deadlines["wait"] = time.monotonic() + PATIENCE_SEC
        elif events & select.EPOLLHUP:
            # The kernel hangs the terminal up when the session's leader, our agent, ends: all else follows
            # from the waiter's word.
            self.unwatch(self.master_fd)
        if events & select.EPOLLOUT:
            self.write_input()

    def go_on(self) -> None:
        """With reading what the agent prints: those who watch have caught up, or had their time to."""
        self.deadlines.pop("wait", None)
        self.blocked = bool(self.typed)
        self.watch(self.master_fd, self.on_pty_ready, select.EPOLLIN | (select.EPOLLOUT if self.blocked else 0))

    def take_output(self, reads: int) -> int:
        taken = 0
        for _ in range(reads):
            count = self.record.read_from(self.master_fd)
            taken += count
            # Less than a full buffer: it is empty for now, and a read to learn so can be spared.
            if count < rec.READ_MAX // 2:
                break
        self.replay.keep_up()
        return taken

    def answer_queries(self, since: int) -> None:
        if any(client.interactive for client in self.server.clients.values()):
            self.answerer.skip()
        elif reply := self.answerer.feed(self.record.bytes_between(since, self.record.end), self.look):
            self.typed += reply
            self.write_input()

    def look(self) -> tuple[Modes, int, int, bytes]:
        rows, cols = child.get_size(self.master_fd)
        start = max(self.replay.offset, self.record.end - TRACE)
        return self.replay.current(), rows, cols, self.record.bytes_between(start, self.record.end)

    def flush(self) -> None:
        self.deadlines.pop("flush", None)
        self.activity.on_flush()
        fd = self.journal.fileno()
        if fd in self.handlers:
            self.unwatch(fd)
        self.scrollback.resize(*child.get_size(self.master_fd))  # the agent itself may have changed it
        if self.scrollback.flush():
            self.plan_tick()
            return
        if self.scrollback.throttled:
            self.deadlines["flush"] = time.monotonic() + 1
        elif self.journal.fileno() >= 0:
            self.watch(self.journal.fileno(), lambda _: self.flush(), select.EPOLLOUT)
        else:
            self.deadlines["flush"] = time.monotonic() + RETRY_SEC  # no journald, of whose return nobody tells

    def plan_tick(self) -> None:
        if not self.scrollback.settled:
            self.deadlines.setdefault("tick", time.monotonic() + TICK_SEC)

    # -- the agent ------------------------------------------------------------------------------------------

    def on_executed(self, _: int) -> None:
        self.unwatch(self.exec_fd)
        os.close(self.exec_fd)
        self.exec_fd = -1
        self.agent.find()
        if self.agent.fd >= 0:
            notify.store("agent", self.agent.fd)
            if self.stopping:
                self.end_agent()
        if self.launch["grace_usec"] or self.record.words[rec.EXEC_ERRNO] or self.stopping:
            self.start_grace()
        else:
            self.say_ready()  # no grace period: executed is up, however short its life

    def start_grace(self) -> None:
        self.deadlines["grace"] = time.monotonic() + self.launch["grace_usec"] / 1e6
        self.take_until = time.monotonic() + TAKE_SEC

    def on_ready(self) -> None:
        """The agent has lived through its grace period."""
        if self.record.words[rec.PHASE] != rec.RUNNING or self.stopping:
            return  # it has ended, and its waiter is about to say so
        if self.agent.has_not_taken_the_terminal() and time.monotonic() < self.take_until:
            self.deadlines["grace"] = self.take_until
            return
        self.say_ready()

    def on_terminal_taken(self) -> None:
        """Looked for when the agent prints: one that takes the terminal draws on it next."""
        if self.agent.has_not_taken_the_terminal():
            return
        if self.record.flag(rec.READY):
            self.agent.awaits_terminal = False
            self.say_running()
        elif self.deadlines.get("grace") == self.take_until:
            del self.deadlines["grace"]
            self.on_ready()

    def say_ready(self) -> None:
        if self.launch["runtime_usec"]:  # counted from here, as systemd does
            self.record.words[rec.DEADLINE_USEC] = time.monotonic_ns() // 1000 + self.launch["runtime_usec"]
            self.plan_end()
        self.record.set_flag(rec.READY)
        self.say_running("READY=1\n")
        self.journal.event("ready", f"running, pid {self.agent.pid}", 6)

    def say_running(self, prefix: str = "") -> None:
        self.activity.on_ready(self.agent.pid)
        count = sum(client.interactive for client in self.server.clients.values())
        attached = f", {count} attached" if count else ""
        terminal = ", has not taken the terminal yet" if self.agent.has_not_taken_the_terminal() else ""
        notify.notify(f"{prefix}STATUS=running, agent pid {self.agent.pid}{attached}{terminal}")

    def plan_end(self) -> None:
        if deadline := self.record.words[rec.DEADLINE_USEC]:
            self.deadlines["runtime"] = deadline / 1e6 + RUNTIME_SLACK_SEC

    def on_memory_event(self, _: int) -> None:
        try:
            if self.memory.on_change():
                self.deadlines.setdefault("oom", time.monotonic() + OOM_SEC)
        except OSError:  # ENODEV: the controller was taken away
            self.unwatch(self.memory.fd)

    def on_waiter_exit(self, _: int) -> None:
        if self.exec_fd in self.handlers:
            self.on_executed(0)
        self.unwatch(self.waiter_fd)
        self.on_waiter_lost()

    def on_waiter_lost(self) -> None:
        """The waiter is gone: with the agent's status in the record, or killed while the agent lives on."""
        if self.record.words[rec.PHASE] != rec.ENDED and not self.record.words[rec.EXEC_ERRNO] and self.agent.alive():
            self.journal.trouble("the waiter was killed: the agent's exit code will not be known")
            self.watch(self.agent.fd, lambda _: self.finish())
        else:
            self.finish()

    def finish(self) -> None:
        self.over = True

    def on_signal(self, _: int) -> None:
        # SIGTERM is the only signal not ignored: a stop was asked for.
        os.read(self.wake_fd, 4096)
        try:
            os.close(os.open(f"{self.directory}/stopping", os.O_CREAT | os.O_WRONLY, 0o600))
        except OSError:
            pass  # no room: it is for the reaper, should we be killed now
        if not self.stopping and 0 < self.record.words[rec.DEADLINE_USEC] <= time.monotonic_ns() // 1000:
            self.record.set_flag(rec.TIMED_OUT)  # by systemd, not by a person
        self.stopping = True
        self.record.set_flag(rec.STOPPING)
        self.end_agent()

    def end_agent(self) -> None:
        self.deadlines.setdefault("kill", time.monotonic() + self.launch["stop_usec"] / 1e6)
        self.agent.ask_to_end()

    # -- clients --------------------------------------------------------------------------------------------

    def on_listener_readable(self, _: int) -> None:
        if not self.server.on_listener_readable():
            # It would be readable for ever; whoever knocks waits in its queue.
            self.unwatch(self.server.listener.fileno())
            self.deadlines["accept"] = time.monotonic() + RETRY_SEC

    def on_input(self, data: bytes) -> None:
        self.typed += data
        self.write_input()
        self.activity.on_input()

    def write_input(self) -> None:
        waited = bool(self.typed)
        try:
            while self.typed:
                del self.typed[: os.write(self.master_fd, self.typed)]
        except BlockingIOError:
            pass
        if bool(self.typed) != self.blocked and self.master_fd in self.handlers:
            self.blocked = bool(self.typed)
            self.epoll.modify(self.master_fd, select.EPOLLIN | (select.EPOLLOUT if self.blocked else 0))
        if waited and (self.master_fd in self.handlers or "wait" in self.deadlines):
            self.server.set_reading(len(self.typed) < INPUT_MAX)

    def about(self) -> dict[str, Any]:
        rows, cols = child.get_size(self.master_fd)
        size = {"rows": rows, "cols": cols}
        return {"run": self.record.run, "pid": self.agent.pid, **size, "silent_sec": self.activity.silent_sec}

    def on_client_size(self, rows: int, cols: int) -> None:
        if child.get_size(self.master_fd) != (rows, cols):
            child.set_size(self.master_fd, rows, cols)
            self.replay.resized(rows, cols)
            self.flush()  # what was printed at the old size comes before
            self.scrollback.resize(rows, cols)
            size = {"KILD_ROWS": str(rows), "KILD_COLS": str(cols)}
            self.journal.event("resized", f"terminal is {cols}x{rows}", 7, **size)

    def on_client_change(self, event: str, client: Client) -> None:
        if client.interactive and not self.over:
            self.journal.event(event, f"a client {event}", 6)
            if self.record.flag(rec.READY):
                self.say_running()
