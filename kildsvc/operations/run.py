"""A session in the foreground: every byte it prints is passed on, and signals end the session, not only us."""

import asyncio
import os
import select
import signal
from collections.abc import AsyncGenerator, Callable

from kildsvc import answers, journal, paths, terminal
from kildsvc.attach import Connection, Disconnected
from kildsvc.errors import JournalUnreadable
from kildsvc.model import unit_of
from kildsvc.operations import sessions
from kildsvc.shim import wire
from kildsvc.systemd.manager import Manager

# journald shows an entry within this after it was sent.
JOURNAL_SEC = 2.0


class Foreground:
    def __init__(
        self, name: str, run: str, write: Callable[[bytes], None], say: Callable[[str], None], detach_on_hup: bool
    ) -> None:
        self._name, self._run = name, run
        self._write, self._say = write, say
        self._detach_on_hup = detach_on_hup
        self._offset = 0
        self._asked = 0  # how often it was asked to end
        self._deaf = False  # nobody reads what we write
        self.missing = 0  # bytes that nobody has any more

    def stream(self) -> bool:
        """Until the agent has ended: True; or the terminal was closed and it is to go on: False."""
        with terminal.signals_as_bytes(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signal_fd:
            while True:
                try:
                    connection = Connection(
                        paths.socket_path(self._name), wire.READ_ONLY, (0, 0), self._run, self._offset
                    )
                except Disconnected:
                    break  # nobody listens there any more
                try:
                    with connection.sock:
                        return self._serve(connection, signal_fd)
                except Disconnected:
                    continue  # a restarted shim goes on where this one was
                except _HungUp:
                    return False
        self._fill(None)
        return True

    def _serve(self, connection: Connection, signal_fd: int) -> bool:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(signal_fd, select.POLLIN)
        welcomed = False
        while True:
            for fd, _ in poll.poll():
                if fd == signal_fd:
                    # SIGHUP is 1, and comes first: who ends our terminal may end us too.
                    for number in sorted(os.read(signal_fd, 64)):
                        self._on_signal(number)
                    continue
                for kind, payload in connection.receive():
                    if kind in (wire.OUTPUT, wire.SNAPSHOT):
                        self._take(self._offset, payload)
                    elif kind == wire.WELCOME:
                        welcomed = True
                        self._fill(answers.read(payload, "offset")["offset"])
                    elif kind == wire.RESYNC:
                        self._fill(answers.read(payload, "offset")["offset"])
                    elif kind == wire.EXIT:
                        if not welcomed:  # the agent was quicker than our HELLO
                            self._fill(None)
                        return True
                    elif kind == wire.ERROR:
                        raise answers.refusal(payload)

    def _take(self, offset: int, data: bytes) -> None:
        """What is new of some output at that offset."""
        self.missing += max(0, offset - self._offset)
        data = data[max(0, self._offset - offset) :]
        self._offset = max(self._offset, offset) + len(data)
        if self._deaf or not data:
            return
        try:
            self._write(data)
        except OSError:  # EPIPE: the reader has gone; EIO: the terminal has
            self._on_signal(signal.SIGHUP)

    def _fill(self, end: int | None) -> None:
        """We were too slow for the shim's ring, or too late for the shim: the journal has what was printed."""
        if end is not None and end <= self._offset:
            return

        async def copy() -> None:
            async for offset, data in self._stored(end):
                self._take(offset, data if end is None else data[: max(0, end - offset)])

        try:
            asyncio.run(copy())
        except JournalUnreadable:
            pass
        if end is not None:
            self.missing += end - self._offset
            self._offset = end

    async def _stored(self, end: int | None) -> AsyncGenerator[tuple[int, bytes], None]:
        entries = journal.follow(journal.of_run(self._name, self._run))
        try:
            while end is None or self._offset < end:
                entry = await asyncio.wait_for(anext(entries), JOURNAL_SEC)
                if "KILD_DATA" in entry.fields:
                    yield entry.number("KILD_OFFSET") or 0, entry.fields["KILD_DATA"]
                if entry.event == "ended":
                    return
        except TimeoutError:
            return
        finally:
            await entries.aclose()

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            if self._deaf:
                return  # a terminal goes once, however often that is told
            self._deaf = True
            if self._detach_on_hup:
                raise _HungUp
        self._asked += 1
        with Manager() as manager:
            if self._asked == 1:
                manager.stop(unit_of(self._name))
                if not self._deaf:
                    self._say(f"stopping '{self._name}'; once more kills it")
            elif self._asked == 2:
                # Not its shim: that tells how the agent ended.
                session = sessions.status(self._name)
                for pid in [session.pid, *(process.pid for process in session.children)]:
                    _kill(pid)
            else:
                manager.kill(unit_of(self._name), signal.SIGKILL)


class _HungUp(Exception):
    pass


def _kill(pid: int | None) -> None:
    try:
        if pid:
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
