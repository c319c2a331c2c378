"""The fault program itself; runs as root inside a machine: inside KILDSVC SEED FAULTS SECONDS PER-SECOND."""

import asyncio
import json
import os
import subprocess
import sys
import time
import traceback

from faults.injections import Injections
from faults.observe import Events, Watcher, watch_list
from faults.target import Target
from faults.world import JOURNAL, RUNTIME, World, everything_in_the_slice

SESSIONS = 6
SETTLE_SEC = 200.0


def prepare() -> None:
    # A file system of its own: it is to be full without anything else being so.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400M,mode=755", "journal", JOURNAL], check=True)
    subprocess.run(["systemctl", "restart", "systemd-journald"], check=True)
    subprocess.run(["journalctl", "--flush"], check=True)
    # The user's own file is made with his first entry; before it he has none to read.
    user = ["setpriv", "--reuid=dev", "--regid=dev", "--clear-groups"]
    while not subprocess.run([*user, "journalctl", "-q", "-n1"], capture_output=True, check=False).stdout:
        subprocess.run([*user, "systemd-cat", "echo", "the journal begins"], check=True)


async def keep(world: World, target: Target, watchers: list[Watcher]) -> None:
    """Opens a session, and again whenever it has been ended and judged."""
    while True:
        await target.open()
        life = target.life
        assert life
        watching = [world.spawn(watcher.watch()) for watcher in watchers]
        while not life.judged:
            await asyncio.sleep(0.1)
        await asyncio.gather(*watching)


async def inject(world: World, injections: Injections, faults: int, seconds: float, rate: float) -> None:
    table = injections.table()
    names = list(table)
    weights = [table[name][0] for name in names]
    running: set[asyncio.Task[bool]] = set()

    async def one(name: str) -> None:
        if await table[name][1]():
            world.counts[name] += 1

    begin = time.monotonic()
    while sum(world.counts.values()) < faults or time.monotonic() - begin < seconds:
        # Now and then several at the same time.
        for name in world.rng.choices(names, weights, k=world.rng.choice([1, 1, 1, 1, 2, 4])):
            task = world.spawn(one(name))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.sleep(world.rng.expovariate(rate))
        while injections.paused:
            await asyncio.sleep(0.1)
        while len(running) > 12:  # as many as the machine can bear
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    if running:
        await asyncio.wait(running)


async def settle(world: World, targets: list[Target]) -> None:
    """The faults are over: whatever was disturbed must be well again by itself."""
    deadline = time.monotonic() + SETTLE_SEC
    while time.monotonic() < deadline:
        answer = await world.kild("list", "--json")
        shown = {session["name"]: session for session in answer.json()} if answer.code == 0 else {}
        if all(
            target.alive and target.life and shown.get(target.name, {}).get("pid") == target.life.pid
            for target in targets
        ):
            return
    world.violation(f"not well again: {shown}")


def count_descriptors(targets: list[Target], watchers: list[Watcher]) -> dict[str, int]:
    """Of each shim, without those of its clients."""
    return {
        target.name: len(os.listdir(f"/proc/{target.shim}/fd"))
        - sum(watcher.target is target and watcher.pid > 0 for watcher in watchers)
        for target in targets
    }


async def clean_up(world: World, targets: list[Target]) -> None:
    for target in targets:
        if target.life and not target.life.told_at:
            target.life.told_at, target.life.stopped = time.monotonic(), True
    answer = await world.kild("stop", "--all", "--json")
    if answer.code:
        world.violation(f"stop --all gave {answer.code}: {answer.out.decode()}")
    if left := everything_in_the_slice():
        world.violation(f"after stop --all these processes live: {left}")
    for target in targets:
        if target.life:
            target.check_end(target.life, (await world.kild("status", target.name, "--json")).json())
    # An open that was killed may have been heard by systemd after its session was destroyed.
    for session in (await world.kild("list", "--json")).json():
        if (await world.kild("destroy", session["name"])).code:
            world.violation(f"{session['name']} cannot be destroyed")
    process = await world.start("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "kild*")
    units = (await process.communicate())[0].decode().splitlines()
    # Slices stay; those two are the parents of all of ours. An open that gave up on a manager which did not answer
    # leaves what that has heard of it, for the doctor.
    expected = ["kild.slice", "kildkeep.slice"]
    for name in world.given_up:
        expected += [f"kild-{name}.", "kildkeep-" + name.replace("-", r"\x2d") + "."]
    if left_units := [line for line in units if not line.startswith(tuple(expected))]:
        world.violation(f"units are left: {left_units}")
    files = [os.path.join(where, name) for where, _, names in os.walk(f"{RUNTIME}/kildsvc") for name in names]
    if files or (os.path.isdir(f"{RUNTIME}/kildsvc") and os.listdir(f"{RUNTIME}/kildsvc")):
        world.violation(f"files are left: {files or os.listdir(f'{RUNTIME}/kildsvc')}")
    if zombies := subprocess.run(
        ["ps", "-u", "dev", "-o", "pid=,ppid=,stat=,comm="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        world.note("processes of the user: " + "; ".join(zombies))
        for line in zombies:
            if line.split()[2].startswith("Z"):
                world.violation(f"a zombie is left: {line}")


async def play(world: World, faults: int, seconds: float, rate: float) -> list[Target]:
    targets = [Target(world, f"count{at}", 1 / [50, 100, 20][at % 3]) for at in range(SESSIONS)]
    watchers = [Watcher(world, target) for target in targets[:3]] + [
        Watcher(world, target, "--read-only") for target in targets[:2] + targets[3:5]
    ]
    # One client is never killed: what it sees must be whole from the first count to the last.
    injections = Injections(world, targets, watchers[1:])
    events = Events(world)
    following = world.spawn(events.follow())
    keepers = [world.spawn(keep(world, target, [w for w in watchers if w.target is target])) for target in targets]
    while not all(target.life for target in targets):
        await asyncio.sleep(0.1)
    before = count_descriptors(targets, watchers)
    listing = world.spawn(watch_list(world, targets))
    await inject(world, injections, faults, seconds, rate)
    await settle(world, targets)
    after = count_descriptors(targets, watchers)
    world.note(f"descriptors of the shims: {before}, then {after}")
    if max(after.values()) > max(before.values()) + 1:
        world.violation(f"descriptors leak: {before}, then {after}")
    for target in targets:
        await target.judge_living()
    for task in (*keepers, listing):
        task.cancel()
    await clean_up(world, targets)
    events.judge(targets)
    following.cancel()
    await asyncio.wait([following])
    return targets


async def main() -> None:
    kildsvc, seed, faults, seconds, rate = sys.argv[1], *map(float, sys.argv[2:])
    prepare()
    world = World(kildsvc, int(seed))
    targets: list[Target] = []
    try:
        targets = await play(world, int(faults), seconds, rate)
    except Exception:
        world.violation(f"the fault program itself: {traceback.format_exc()}")
    report = {
        "seed": world.seed,
        "seconds": round(world.now(), 1),
        "faults": sum(world.counts.values()),
        "by kind": dict(world.counts.most_common()),
        "sessions": sum(target.opens for target in targets),
        "figures": dict(sorted(world.figures.items())),
        "violations": world.violations,
        "history": world.history,
    }
    print(json.dumps(report))


asyncio.run(main())
