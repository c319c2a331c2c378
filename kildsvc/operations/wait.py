"""Waiting for sessions: woken by systemd's signals and the shim's socket, answering from what is asked anew.

A waiter changes nothing and holds nothing: any number of them may wait, and die.
"""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

from kildsvc import answers, journal, model, paths, runtime
from kildsvc.attach import Connection, Disconnected
from kildsvc.errors import JournalUnreadable, KildError, NoManager, NoSuchSession
from kildsvc.model import Session, Waited, unit_of, wait_status
from kildsvc.operations import logs, sessions
from kildsvc.shim import wire
from kildsvc.shim.text import Cleaner
from kildsvc.systemd.events import CONNECT_SEC, Listener

EXIT, READY, IDLE, OUTPUT = "exit", "ready", "idle", "output"
# Exit codes of a wait: nothing lives and nobody knows how it ended; and what was waited for cannot come any more.
NO_RESULT, NOT_MET = 124, 125
# journald shows an entry some 10 ms after it was sent, under a flood later.
RECORD_SEC = 2.0
# Of a line that does not end only this much is looked at.
LINE_MAX = 64 * 1024


@dataclass(frozen=True)
class Condition:
    """What is waited for."""

    kind: str = EXIT
    seconds: float = 0.0  # of silence, for IDLE
    pattern: re.Pattern[str] | None = None  # for OUTPUT; sought line by line


def exit_code(results: list[Waited], condition: Condition) -> int:
    """Of several sessions the first that is not 0."""
    return next((code for code in (_code(one, condition) for one in results) if code), 0)


def _code(waited: Waited, condition: Condition) -> int:
    if waited.status == "alive" or waited.reason not in (EXIT, "timeout"):
        return 0
    if waited.exit_code is None:
        return NO_RESULT
    if waited.status == model.TIMEOUT:
        return waited.exit_code or NO_RESULT  # it was ended: that it obeyed is no success
    return waited.exit_code or (0 if condition.kind == EXIT else NOT_MET)


async def wait(
    names: list[str], condition: Condition, timeout_sec: float | None, run: str | None = None
) -> AsyncGenerator[Waited, None]:
    """One result per session, as they come; at the time-out one for each that is left.

    For the run that is there now, or the one that is given.

    Raises NoSuchSession before anything is waited for when one of them does not exist.
    """
    async with Listener() as listener:
        waits = [_Wait(listener, name, condition, run) for name in names]
        for one in waits:
            await one.look_patiently()
        tasks = {asyncio.create_task(one.result()): one for one in waits}
        loop = asyncio.get_running_loop()
        deadline = None if timeout_sec is None else loop.time() + timeout_sec
        waiting = set(tasks)
        try:
            while waiting:
                left = None if deadline is None else max(0.0, deadline - loop.time())
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=list(tasks).index):
                    yield task.result()
                if not done:
                    break
            for task in [task for task in tasks if task in waiting]:
                task.cancel()
                yield await tasks[task].at_timeout()
        finally:
            for task in waiting:
                task.cancel()
            if waiting:
                await asyncio.wait(waiting)


class _Wait:
    """For one run of one session: the one that was there when the wait began, if none is given."""

    def __init__(self, listener: Listener, name: str, condition: Condition, run: str | None) -> None:
        self._name = model.check_name(name)
        self._condition = condition
        self._changed = listener.watch(unit_of(name))
        self._run = run
        self._output = _Output(condition)

    async def result(self) -> Waited:
        while True:
            session = await self.look_patiently()
            if not session.alive:
                return self._ended(session)
            if self._condition.kind == READY and session.state in (model.RUNNING, model.PAUSED):
                return self._met(session)
            if self._condition.kind in (IDLE, OUTPUT) and await self._watch_output():
                return self._met(session)
            await self._changed.wait()

    async def at_timeout(self) -> Waited:
        session = await self.look()
        if not session.alive:
            return self._ended(session)
        return Waited(self._name, "alive", "timeout", run=self._run, cause="it is alive")

    async def look_patiently(self) -> Session:
        """The same, also while the manager is executed anew. When it stays away the journal may know of an end."""
        while True:
            self._changed.clear()
            try:
                return await self.look()
            except NoManager:
                try:
                    await asyncio.wait_for(self._changed.wait(), CONNECT_SEC)
                except TimeoutError:
                    if not self._run:
                        raise
                    session = await self._recorded()
                    if session.state != model.LOST:
                        return session

    async def look(self) -> Session:
        """How the run is now; from the journal when its unit is gone, or has another run in it."""
        session = _find(self._name)
        if (not session or not session.unit) and runtime.is_locked(self._name):
            # Another command is about to start the unit, or to forget it.
            await _in_thread(runtime.wait_unlocked, self._name)
            session = _find(self._name)
        if not session:
            if not self._run:
                raise NoSuchSession(f"there is no session '{self._name}'", "'kildsvc list' shows what there is")
            return await self._recorded()
        self._run = self._run or session.run
        if session.run == self._run or not session.run:
            return session
        return await self._recorded()

    async def _recorded(self) -> Session:
        assert self._run
        session = Session(self._name, model.LOST, cause="cut off: its end was not recorded", run=self._run)
        matches = [*journal.of_run(self._name, self._run), *journal.of_event("ended")]
        entries = journal.follow(matches)
        try:
            entry = await asyncio.wait_for(anext(entries), RECORD_SEC)
        except (TimeoutError, JournalUnreadable):
            return session
        finally:
            await entries.aclose()
        end = entry.ended()
        return Session(self._name, end.state(), "", end.exit_code, end.signal, end.describe(), run=self._run)

    def _ended(self, session: Session) -> Waited:
        waited = Waited(
            self._name, wait_status(session), EXIT, session.exit_code, session.signal, session.cause, session.run
        )
        match, met = None, False
        if self._condition.kind == READY:
            met = self._happened("ready")
        elif self._condition.kind == OUTPUT:
            match = self._output.match or self._printed()
            met = match is not None
        return replace(waited, reason=self._condition.kind, match=match) if met else waited

    def _met(self, session: Session) -> Waited:
        return Waited(
            self._name, "alive", self._condition.kind, cause="it is alive", run=session.run, match=self._output.match
        )

    def _happened(self, event: str) -> bool:
        if not self._run:
            return False
        # Whatever its name was then.
        matches = [f"KILD_RUN={self._run}", *journal.of_event(event)]
        return next(journal.read(matches, "--lines=1"), None) is not None

    def _printed(self) -> str | None:
        """The first line of an ended run that fits."""
        assert self._condition.pattern
        lines = logs.text_lines(logs.Query(self._name, self._run)) if self._run else iter(())
        return next((line for line in lines if self._condition.pattern.search(line)), None)

    async def _watch_output(self) -> bool:
        """Until the condition is met: True; or the unit changes or the shim is gone: False."""
        changed = asyncio.create_task(self._changed.wait())
        try:
            while not changed.done():
                try:
                    connection = Connection(
                        paths.socket_path(self._name), wire.READ_ONLY, (0, 0), *self._output.place
                    )
                except Disconnected:
                    await changed  # not there yet, or no more: systemd tells
                    return False
                try:
                    if await self._output.read(connection, changed):
                        return True
                except Disconnected:
                    continue  # systemd holds the socket: this waits in its queue for the new shim
                finally:
                    connection.close()
            return False
        finally:
            changed.cancel()


class _Output:
    """What the session prints, from where the last connection has left off."""

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._cleaner = Cleaner()
        self._line = b""  # the unfinished one
        self._run, self._offset = "", 0
        self.match: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        return self._run, self._offset

    async def read(self, connection: Connection, changed: "asyncio.Task[bool]") -> bool:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[bool] = loop.create_future()
        timer: list[asyncio.TimerHandle] = []

        def on_met() -> None:
            if not ended.done():
                ended.set_result(True)

        def silent_from(seconds_ago: float) -> None:
            if self._condition.kind == IDLE:
                for handle in timer:
                    handle.cancel()
                left = max(0.0, self._condition.seconds - seconds_ago)
                timer[:] = [loop.call_later(left, on_met)]

        def on_readable() -> None:
            try:
                for kind, payload in connection.receive():
                    if kind == wire.WELCOME:
                        about = answers.read(payload, "run", "offset", "silent_sec")
                        self._run, self._offset = about["run"], about["offset"]
                        silent_from(about["silent_sec"])
                    elif kind in (wire.OUTPUT, wire.SNAPSHOT):
                        self._offset += len(payload)
                        if kind == wire.OUTPUT:
                            silent_from(0.0)
                        if self._find(payload):
                            on_met()
                    elif kind == wire.RESYNC:
                        self._offset = answers.read(payload, "offset")["offset"]
                    elif kind == wire.EXIT:
                        loop.remove_reader(connection.fileno())  # the unit's end follows
                    elif kind == wire.ERROR:
                        raise answers.refusal(payload)
            except (Disconnected, KildError) as error:
                loop.remove_reader(connection.fileno())
                if not ended.done():
                    ended.set_exception(error)

        loop.add_reader(connection.fileno(), on_readable)
        try:
            await asyncio.wait([ended, changed], return_when=asyncio.FIRST_COMPLETED)
            return ended.done() and ended.result()
        finally:
            loop.remove_reader(connection.fileno())
            for handle in timer:
                handle.cancel()
            ended.cancel()

    def _find(self, data: bytes) -> bool:
        """A prompt has no end of line: the unfinished line counts too."""
        pattern = self._condition.pattern
        if not pattern or self.match is not None:
            return self.match is not None
        complete = self._cleaner.feed(data).split("\n")
        self._line = (self._line + data).rpartition(b"\n")[2][-LINE_MAX:]
        for line in [*complete, *Cleaner().feed(self._line, final=True).split("\n")]:
            if pattern.search(line):
                self.match = line
                return True
        return False


def _find(name: str) -> Session | None:
    try:
        return sessions.status(name)
    except NoSuchSession:
        return None


async def _in_thread(function: object, *arguments: object) -> None:
    """A call that blocks for as long as it likes; unlike asyncio's own threads nobody waits for it at the end."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def work() -> None:
        function(*arguments)  # type: ignore[operator]
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            pass  # the loop has ended meanwhile

    threading.Thread(target=work, daemon=True).start()
    await done.wait()
