"""What happens to sessions: from the journal, complete and in order; from systemd the ends nobody could record."""

import asyncio
import time
from collections.abc import AsyncGenerator

from kildsvc import journal, model
from kildsvc.errors import JournalUnreadable, NoManager, NoSuchSession, UsageError
from kildsvc.journal import Entry
from kildsvc.model import Event, name_of, wait_status
from kildsvc.operations import sessions
from kildsvc.systemd.events import Listener
from kildsvc.systemd.manager import Manager

KINDS = (
    *("opened", "ready", "attached", "detached", "idle", "bell", "mark", "paused", "resumed"),
    *("oom", "ended", "recovered", "removed"),
)
# The record of an end is in the journal before the unit ends, and shows there within this.
RECORD_SEC = 2.0
# What comes together is shown together.
SETTLE_SEC = 0.1


def past_events(names: list[str], since: str) -> list[Event]:
    """What the journal has, after a cursor or since a time."""
    lives = _Lives(names)
    try:
        return [event for entry in journal.read(_matches(names), _start(since)) for event in lives.events(entry)]
    except JournalUnreadable as error:
        raise _bad_start(since, error) from error


async def events(names: list[str], since: str | None = None) -> AsyncGenerator[Event, None]:
    """For ever: from now on, or after a cursor or since a time."""
    start = (_start(since),) if since else journal.tail()
    async with Listener() as listener:
        changed = listener.watch_sessions()
        lives = _Lives(names)
        entries = journal.follow(_matches(names), *start)
        reading = asyncio.ensure_future(anext(entries))
        try:
            while True:
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait([reading, waiting], timeout=lives.patience(), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if reading.done():
                    entry = reading.result()
                    reading = asyncio.ensure_future(anext(entries))
                    for event in lives.events(entry):
                        yield event
                elif changed.is_set():
                    changed.clear()
                    await asyncio.sleep(SETTLE_SEC)
                    lives.look()
                for event in lives.unrecorded():
                    yield event
        except JournalUnreadable as error:
            raise _bad_start(since, error) from error
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            await entries.aclose()


async def changes() -> AsyncGenerator[None, None]:
    """Now, and whenever something about any session may have changed."""
    stream = events([])
    reading = asyncio.ensure_future(anext(stream))
    try:
        async with Listener() as listener:
            changed = listener.watch_sessions()
            while True:
                changed.clear()
                if reading.done():
                    reading.result()
                    reading = asyncio.ensure_future(anext(stream))
                yield
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                await asyncio.sleep(SETTLE_SEC)
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await stream.aclose()


class _Lives:
    """Which runs have begun and not ended, so that an end without a record is told too: once, as what it is."""

    def __init__(self, names: list[str]) -> None:
        self._names = [model.check_name(name) for name in names]
        self._begun: dict[str, str] = {}  # as the journal tells it: name → run
        self._alive: dict[str, str] = {}  # as systemd does; ahead of a journal that is read from the past on
        self._suspects: dict[str, float] = {}  # the unit has ended, the record is still to come
        self._told: set[str] = set()  # runs whose end was told without a record
        self._cursor = ""

    def events(self, entry: Entry) -> list[Event]:
        self._cursor = entry.cursor
        if entry.usec / 1e6 < time.time() - RECORD_SEC:  # reading the past: the record may be among what follows
            self._suspects = dict.fromkeys(self._suspects, time.monotonic() + RECORD_SEC)
        found = []
        if entry.event == "opened":
            if before := self._begun.get(entry.name):
                found.append(self._cut_off(entry.name, before, entry.usec / 1e6))
            self._begun[entry.name] = entry.run
        elif entry.event == "ended":
            self._forget(entry.name, entry.run)
            if entry.run in self._told:
                return []
        found.append(_event(entry))
        return found

    def look(self) -> None:
        """Asks systemd which sessions live."""
        try:
            with Manager() as manager:
                alive = {name_of(unit) for unit, _, active in manager.units("kild-*.service") if active not in _ENDED}
        except NoManager:
            return  # being executed anew: the listener tells when it is back
        for name in alive:
            self._suspects.pop(name, None)
            if (run := sessions.run_of(name)) and (not self._names or name in self._names):
                self._alive[name] = run
        for name in (self._begun.keys() | self._alive.keys()) - alive:
            self._suspects.setdefault(name, time.monotonic() + RECORD_SEC)

    def patience(self) -> float | None:
        return max(0.0, min(self._suspects.values()) - time.monotonic()) if self._suspects else None

    def unrecorded(self) -> list[Event]:
        found = []
        for name in [name for name, deadline in self._suspects.items() if deadline <= time.monotonic()]:
            run = self._begun.get(name) or self._alive[name]
            try:
                session = sessions.status(name)
            except NoManager:
                self._suspects[name] = time.monotonic() + RECORD_SEC
                continue
            except NoSuchSession:
                self._forget(name, run)
                continue
            self._forget(name, run)
            # An end that the shim has seen is recorded, and will show.
            if session.run == run and not session.alive and session.exit_code is None:
                found.append(self._cut_off(name, run, session.ended or time.time(), wait_status(session)))
        return found

    def _cut_off(self, name: str, run: str, at: float, status: str = model.DEAD) -> Event:
        self._told.add(run)
        return Event(self._cursor, at, name, "ended", run, "ended: nobody saw how", status=status)

    def _forget(self, name: str, run: str) -> None:
        for known in (self._begun, self._alive):
            if known.get(name) == run:
                del known[name]
        if name not in self._begun and name not in self._alive:
            self._suspects.pop(name, None)


_ENDED = ("inactive", "failed")


def _event(entry: Entry) -> Event:
    end = entry.ended() if entry.event == "ended" else None
    return Event(
        cursor=entry.cursor,
        time=entry.usec / 1e6,
        name=entry.name,
        event=entry.event,
        run=entry.run,
        text=entry.text("MESSAGE"),
        agent=entry.text("KILD_AGENT"),
        exit_code=end.exit_code if end else None,
        signal=end.signal if end else None,
        status=wait_status(model.Session("", end.state())) if end else None,
        mark=entry.text("KILD_MARK") or None,
    )


def _matches(names: list[str]) -> list[str]:
    return [*journal.of_event(*KINDS), *(f"KILD_SESSION={model.check_name(name)}" for name in names)]


def _start(since: str) -> str:
    # A cursor is a list such as s=…;i=…;b=…
    return f"--after-cursor={since}" if ";" in since else f"--since={since}"


def _bad_start(since: str | None, error: JournalUnreadable) -> Exception:
    if since and any(word in error.message.lower() for word in ("parse", "cursor")):
        return UsageError(f"--since '{since}' is neither a cursor nor a time", "try '10 min ago'")
    return error
