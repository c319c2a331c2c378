"""Who looks on: attached clients, `list` again and again, `events` from the beginning to the end."""

import asyncio
import json
import time
from typing import Any

from faults.target import ALIVE, Counter, Life, Target
from faults.world import World, resume, send_signal

# A session may be seen to live for this long after its agent has died: the shim may be stopped or killed meanwhile.
LAG_SEC = 200.0
LIST_EVERY_SEC = 1.5


class Watcher:
    """An attached client. It ends with its agent, or because it is killed; then another takes its place."""

    def __init__(self, world: World, target: Target, *options: str) -> None:
        self.world = world
        self.target = target
        self.options = options
        self.pid = 0
        self.killed = False
        self.counter = Counter()

    async def watch(self) -> None:
        """For one life of the session."""
        world, life = self.world, self.target.life
        assert life
        while not life.told_at and not life.died_at:
            self.killed, self.counter = False, Counter()
            process = await world.start(world.kildsvc, "attach", self.target.name, *self.options)
            assert process.stdout and process.stderr
            self.pid = process.pid
            world.figures["attachments"] += 1
            while data := await process.stdout.read(1 << 16):
                world.figures["bytes attached"] += len(data)
                if wrong := self.counter.feed(data):
                    world.violation(f"a client of {self.target.name} saw {wrong}")
                    self.counter.skip()
            error = (await process.stderr.read()).decode(errors="replace").strip()
            code = await process.wait()
            self.pid = 0
            world.figures["counts attached"] += self.counter.seen
            self._judge(life, code, error)

    def _judge(self, life: Life, code: int, error: str) -> None:
        world, name = self.world, self.target.name
        if self.killed:
            return
        if not life.told_at and not life.died_at:
            if not self.counter.seen and "manager" in error:
                world.note(f"attach to {name} gave {code}: {error}")  # it is being executed anew
            else:
                world.violation(f"attach to {name} ended with {code} while its agent lives: {error}")
        elif "Traceback" in error:
            world.violation(f"attach to {name}: {error}")
        elif (
            life.code is not None and code != life.code and not life.may_be_unobserved and "not running" not in error
        ):
            world.violation(f"attach to {name} ended with {code} and its agent with {life.code}: {error}")

    def kill(self) -> bool:
        if not self.pid:
            return False
        resume(self.pid)
        self.killed = True
        return send_signal(self.pid, 9)


async def watch_list(world: World, targets: list[Target]) -> None:
    """Every answer is held against what was so before it was asked and still is after."""
    while True:
        before = {target.name: target.life for target in targets if target.alive}
        ended = {target.name: target.life for target in targets if target.life and target.life.shown}
        late = {
            target.name: target.life
            for target in targets
            if target.life and 0 < target.life.died_at < time.monotonic() - LAG_SEC
        }
        answer = await world.kild("list", "--json")
        if answer.code:
            if answer.code != 6:
                world.violation(f"list gave {answer.code}: {answer.out.decode()}{answer.err}")
            world.figures["list without a manager"] += 1
            continue
        shown = {session["name"]: session for session in answer.json()}
        for target in targets:
            session, life = shown.get(target.name), target.life
            if before.get(target.name) is life and life and target.alive:
                _check_alive(world, target, life, session)
            elif ended.get(target.name) is life and life and session and session["run"] == life.run:
                target.check_end(life, session)
            elif late.get(target.name) is not life or not life or not session or session["run"] != life.run:
                continue
            elif session["state"] in ALIVE:
                world.violation(f"list shows {session}, whose agent died {time.monotonic() - life.died_at:.0f} s ago")
        world.figures["lists checked"] += 1
        await asyncio.sleep(LIST_EVERY_SEC)


def _check_alive(world: World, target: Target, life: Life, session: dict[str, Any] | None) -> None:
    if session is None:
        world.violation(f"list does not show {target.name}, which lives")
    elif (session["state"], session["pid"]) != ("running", life.pid):
        world.violation(f"list shows {session}; its agent, pid {life.pid}, lives")


class Events:
    """`events --json`, one process for all of the time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[dict[str, Any]] = []
        self._process: asyncio.subprocess.Process | None = None

    async def follow(self) -> None:
        self._process = process = await self.world.start(self.world.kildsvc, "events", "--json")
        assert process.stdout and process.stderr
        try:
            async for line in process.stdout:
                try:
                    self.seen.append(json.loads(line))
                except ValueError:
                    self.world.violation(f"events: {line.decode()}{(await process.stdout.read()).decode()}")
            error = (await process.stderr.read()).decode()
            self.world.violation(f"events ended with {await process.wait()}: {error}")
        finally:
            if process.returncode is None:
                process.kill()

    def judge(self, targets: list[Target]) -> None:
        world = self.world
        world.figures["events"] += len(self.seen)
        for target in targets:
            for life in target.lives:
                ends = [event for event in self.seen if event["run"] == life.run and event["event"] == "ended"]
                if not life.died_at:
                    if ends:
                        world.violation(f"events tells of the end of {target.name}, which lives: {ends}")
                    continue
                blind = world.was_blind(life.told_at, life.told_at + LAG_SEC)
                for end in ends:
                    if blind and end["status"] == "dead":
                        continue  # the record of it was lost with journald, and nothing is made up
                    if not life.allows(end["status"], end["exit_code"], end["signal"]):
                        world.violation(f"events says of {target.name}: {end}, expected {life.expected()}")
                if len(ends) != 1 and not blind:
                    world.violation(f"events tells of {len(ends)} ends of {target.name}, run {life.run}")
