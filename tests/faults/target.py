"""One session under fire: opened, watched, ended in a way we choose, and judged by what everybody says of it."""

import asyncio
import io
import os
import re
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.world import PATIENCE_SEC, World, main_pid, parent, send_signal
from kildsvc.journal import Entry, parse

AGENT = str(Path(__file__).with_name("agent.py"))
ALIVE = ("starting", "running", "stopping", "paused")
SIGNALS = ("KILL", "TERM", "SEGV", "HUP", "USR1")
_COUNT = re.compile(rb"c(\d+)\r\n")


class Counter:
    """Numbers out of a stream of output: each must be the one after the last."""

    def __init__(self) -> None:
        self.last = 0
        self.seen = 0
        self._rest = b""

    def feed(self, data: bytes) -> str | None:
        """What is wrong with it, if anything."""
        self._rest += data
        end = 0
        for match in _COUNT.finditer(self._rest):
            number, end = int(match[1]), match.end()
            if self.last and number != self.last + 1:
                return f"{number} came after {self.last}"
            self.last = number
            self.seen += 1
        self._rest = self._rest[end:][-100:]
        return None

    def skip(self) -> None:
        """Something is missing here."""
        self.last, self._rest = 0, b""


@dataclass
class Life:
    """One run of a session: what was done to it, and so what may be said of it."""

    run: str
    pid: int
    waiter: int
    began: float
    code: int | None = None  # what it was told to exit with
    signal: str | None = None  # what it was killed with
    stopped: bool = False
    told_at: float = 0.0
    died_at: float = 0.0
    waiter_killed: bool = False
    shim_killed_at: list[float] = field(default_factory=list)
    shim_stopped_until: float = 0.0
    said: set[bytes] = field(default_factory=set)  # what it was typed to say, successfully
    shown: tuple[Any, ...] | None = None  # the end as it was told first
    judged: bool = False
    doomed: bool = False  # somebody is about to tell it to end

    @property
    def may_be_unobserved(self) -> bool:
        # systemd does not start a shim again that dies while its unit is being stopped.
        return self.waiter_killed or (self.stopped and any(at >= self.told_at for at in self.shim_killed_at))

    def allows(self, state: str, exit_code: int | None, number: str | None) -> bool:
        if state in ("unobserved", "lost", "dead"):
            return self.may_be_unobserved and exit_code is None and number is None
        if self.stopped:
            return state == "stopped"
        if self.signal:
            return (state, number) == ("killed", self.signal)
        return self.code is not None and (state, exit_code, number) == ("exited", self.code, None)

    def expected(self) -> str:
        how = "stopped" if self.stopped else f"signal {self.signal}" if self.signal else f"exit {self.code}"
        return how + (" or unobserved" if self.may_be_unobserved else "")


class Target:
    def __init__(self, world: World, name: str, pause: float) -> None:
        self.world = world
        self.name = name
        self.pause = pause
        self.order = f"/home/dev/order-{name}"
        self.life: Life | None = None
        self.lives: list[Life] = []
        self.opens = 0

    @property
    def alive(self) -> bool:
        """The agent lives and nobody has told it to end."""
        life = self.life
        return bool(life and not life.told_at and os.path.exists(f"/proc/{life.pid}"))

    @property
    def shim(self) -> int:
        return main_pid(self.name)

    async def open(self) -> None:
        """Again and again: a full directory or a manager that is away may be told of, and is no violation."""
        world = self.world
        for path in (self.order, f"{self.order}.last", f"{self.order}.heard"):
            if os.path.exists(path):
                os.unlink(path)
        for _ in range(200):
            command = [sys.executable, AGENT, self.order, str(self.pause)]
            answer = await world.kild("open", self.name, "--json", "--", *command)
            if answer.code == 0:
                opened = answer.json()
                break
            world.note(f"open {self.name} gave {answer.code}: {answer.out.decode().strip()}")
            if answer.code == 5:
                world.violation(f"open {self.name}: nobody ended its agent: {answer.out.decode().strip()}")
            if b"ALREADY_RUNNING" in answer.out:
                world.violation(f"open {self.name} failed before, and it runs")
                await world.kild("destroy", "--force", self.name)
            await asyncio.sleep(0.2)
        else:
            raise RuntimeError(f"{self.name} cannot be opened")
        self.life = Life(opened["run"], opened["pid"], parent(opened["pid"]), time.monotonic())
        self.lives.append(self.life)
        self.opens += 1
        world.note(f"opened {self.name}, run {self.life.run}, pid {self.life.pid}")
        world.spawn(self._see_death(self.life))

    async def _see_death(self, life: Life) -> None:
        loop = asyncio.get_running_loop()
        dead = asyncio.Event()
        try:
            fd = os.pidfd_open(life.pid)
        except ProcessLookupError:
            dead.set()
        else:
            loop.add_reader(fd, dead.set)
            try:
                await dead.wait()
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        life.died_at = time.monotonic()
        if not life.told_at:
            self.world.violation(f"the agent of {self.name} (run {life.run}, pid {life.pid}) has died of itself")
            await asyncio.sleep(2)
            unit = f"kild-{self.name}.service"
            found = [f"_SYSTEMD_USER_UNIT={unit}", "+", f"USER_UNIT={unit}"]
            process = await self.world.start("journalctl", "-q", "-o", "cat", "-p", "6", "-n", "40", *found)
            self.world.note((await process.communicate())[0].decode(errors="replace"))

    # -- ending it ------------------------------------------------------------------------------------------

    async def end(self) -> None:
        """In one of many ways; then all witnesses are heard."""
        world, life = self.world, self.life
        assert life
        life.doomed = True
        way = world.rng.choice(["order", "order", "typed", "signal", "signal", "stop"])
        code, name = world.rng.randrange(256), world.rng.choice(SIGNALS)
        waiting = world.spawn(world.kild("wait", self.name, "--json"))
        await asyncio.sleep(world.rng.random() * 0.3)  # before it, in its midst, or long since waiting
        await self._all_heard(life)  # what is typed to an agent just before its end it need not have read
        life.told_at = time.monotonic()
        if way == "stop":
            life.stopped = True
            await self._stop()
        elif way == "signal":
            life.signal = name
            send_signal(life.pid, signal.Signals[f"SIG{name}"])
        else:
            life.code = code
            if way == "typed":
                await world.kild("send", self.name, f"exit {code}", "--enter")
            self._write_order(f"exit {code}")  # what is typed may go down with the shim
        world.note(f"ended {self.name} by {way}: {life.expected()}")
        await self._judge(life, await waiting)

    async def _all_heard(self, life: Life) -> None:
        """Every word that `send` said was taken, the agent has read."""
        deadline = time.monotonic() + PATIENCE_SEC
        while missing := life.said - self._heard():
            if time.monotonic() > deadline:
                words = b", ".join(sorted(missing)).decode()
                self.world.violation(f"send had {words} taken by {self.name}, which has not read it")
                return
            await asyncio.sleep(0.05)

    def _heard(self) -> set[bytes]:
        try:
            with open(f"{self.order}.heard", "rb") as file:
                return set(file.read().splitlines())
        except FileNotFoundError:
            return set()

    def _write_order(self, text: str) -> None:
        with open(f"{self.order}.new", "w") as file:
            file.write(text)
        os.rename(f"{self.order}.new", self.order)

    async def _stop(self) -> None:
        for _ in range(100):
            answer = await self.world.kild("stop", self.name, "--json")
            if answer.code == 0:
                return
            self.world.note(f"stop {self.name} gave {answer.code}: {answer.out.decode().strip()}")
            if answer.code != 6:  # the manager is being executed anew
                self.world.violation(f"stop {self.name} gave {answer.code}: {answer.out.decode().strip()}")
            await asyncio.sleep(0.1)

    # -- judging --------------------------------------------------------------------------------------------

    async def _judge(self, life: Life, waited: Any) -> None:
        world = self.world
        await self._judge_status(life)
        if waited.code != 6:
            found = waited.json() if waited.out.strip().startswith(b"{") else {}
            found = found if "status" in found else {"status": waited.out.decode() + waited.err}
            if not life.allows(found["status"], found.get("exit_code"), found.get("signal")):
                world.violation(f"wait said of {self.name}: {found}, expected {life.expected()}")
        entries = await self._entries(life.run)
        for _ in range(5):  # a journald that was killed may still have much to read
            logs = await world.kild("logs", self.name, "--raw", "--run", life.run)
            before, entries = entries, await self._entries(life.run)
            if len(before) == len(entries) and any(entry.event == "ended" for entry in entries):
                break
        self._judge_record(life, entries)
        self.judge_output(life, entries)
        raw = b"".join(data for _, data in self._pieces(entries))
        # A journald without room deletes what is old.
        if logs.out != raw and not world.was_blind(life.began, time.monotonic()):
            sizes = f"{len(logs.out)} bytes, not {len(raw)}; {logs.code} {logs.err.strip()}"
            world.violation(f"logs --raw of {self.name} is not what the journal has: {sizes}")
        world.figures["runs ended"] += 1
        life.judged = True

    async def _judge_status(self, life: Life) -> None:
        world = self.world
        deadline = time.monotonic() + PATIENCE_SEC
        session: dict[str, Any] = {}
        while time.monotonic() < deadline:
            answer = await world.kild("status", self.name, "--json")
            if answer.code == 6:
                await asyncio.sleep(0.1)
                continue
            session = answer.json()
            if session.get("state") not in ALIVE:
                self.check_end(life, session)
                return
        world.violation(f"{self.name} should have ended ({life.expected()}), and is {session}")

    def check_end(self, life: Life, session: dict[str, Any]) -> None:
        """An end, once it is told: as it was, and never otherwise after that."""
        end = session.get("state"), session.get("exit_code"), session.get("signal")
        if life.shown and end != life.shown:
            self.world.violation(f"{self.name} is {end} now and was {life.shown} before")
        life.shown = end
        if not life.allows(*end):  # type: ignore[arg-type]
            self.world.violation(f"{self.name} is told to be {session}, expected {life.expected()}")

    async def _entries(self, run: str) -> list[Entry]:
        process = await self.world.start(
            *["journalctl", "-q", "--all", "-o", "export", f"KILD_SESSION={self.name}", f"KILD_RUN={run}"]
        )
        out, _ = await process.communicate()
        return list(parse(io.BytesIO(out)))

    def _judge_record(self, life: Life, entries: list[Entry]) -> None:
        world = self.world
        records = [entry for entry in entries if entry.event == "ended"]
        for record in records:
            end = record.ended()
            if not life.allows(end.state(), end.exit_code, end.signal):
                world.violation(f"the journal says of {self.name}: {end}, expected {life.expected()}")
        lost = world.was_blind(life.told_at, time.monotonic()) or life.may_be_unobserved
        if len(records) != 1 and not (lost and not records):
            world.violation(f"the journal has {len(records)} ends of {self.name}, run {life.run}")

    @staticmethod
    def _pieces(entries: list[Entry]) -> list[tuple[Entry, bytes]]:
        """Every byte once, with the entry it came in."""
        at, found = 0, []
        for entry in entries:
            offset, data = entry.number("KILD_OFFSET"), entry.fields.get("KILD_DATA")
            if data and offset is not None and offset + len(data) > at:
                found.append((entry, data[max(0, at - offset) :]))
                at = offset + len(data)
        return found

    def judge_output(self, life: Life, entries: list[Entry]) -> None:
        world = self.world
        counter, at, before, gaps = Counter(), 0, life.began, 0
        clock = time.time() - time.monotonic()
        pieces = self._pieces(entries)
        for entry, data in pieces:
            when = entry.usec / 1e6 - clock
            begin = (entry.number("KILD_OFFSET") or 0) + len(entry.fields["KILD_DATA"]) - len(data)
            if begin > at:
                world.figures["bytes missing in the journal"] += begin - at
                world.figures["gaps announced"] += 1
                counter.skip()
                gaps += 1
                if not world.was_blind(before, when):
                    world.violation(f"{begin - at} bytes of {self.name} are missing at {at}, and journald was well")
            if wrong := counter.feed(data):
                world.violation(f"the raw log of {self.name}, run {life.run}: {wrong}")
                return
            at, before = begin + len(data), when
            world.figures["bytes"] += len(data)
        world.figures["counts in the journal"] += counter.seen
        raw = b"".join(data for _, data in pieces)
        whole = not gaps and not world.was_blind(before, time.monotonic())
        for word in life.said if life.told_at and whole else ():  # of a living one the last may be under way
            if b"s%s\r\n" % word not in raw:
                world.violation(f"{self.name} has said '{word.decode()}', and the journal does not have it")
        last = self._last_count()
        if life.code is not None and counter.last != last and not world.was_blind(before, time.monotonic()):
            world.violation(f"the raw log of {self.name} ends with {counter.last}, its agent with {last}")

    def _last_count(self) -> int:
        try:
            with open(f"{self.order}.last") as file:
                return int(file.read())
        except OSError:
            return 0

    async def judge_living(self) -> None:
        """At the end of it all: the same agent, and all it has said is in the journal."""
        assert self.life
        if not self.alive:
            self.world.violation(f"{self.name} should live")
        await self._all_heard(self.life)
        self.judge_output(self.life, await self._entries(self.life.run))
