"""What every part of the fault program shares: time, chance, what was done, what was found, and commands."""

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

UID = 1000
RUNTIME = f"/run/user/{UID}"
JOURNAL = "/var/log/journal"
# Far more than anything takes, however busy the machine is: beyond it something hangs. systemd 252 itself may, for
# 90 s, when its user's dbus-daemon is killed: it asks for something before it has seen that end, and starts no other.
PATIENCE_SEC = 200.0


@dataclass
class Answer:
    """What a command said, and when it was asked and done."""

    code: int
    out: bytes
    err: str
    began: float
    done: float

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class World:
    kildsvc: str
    seed: int
    rng: random.Random = field(init=False)
    begin: float = field(default_factory=time.monotonic)
    history: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # faults by kind
    figures: Counter[str] = field(default_factory=Counter)
    given_up: list[str] = field(default_factory=list)  # sessions whose open had no answer from the manager
    blind: list[tuple[float, float]] = field(default_factory=list)  # when journald may have lost something
    tasks: set["asyncio.Task[Any]"] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def now(self) -> float:
        return time.monotonic() - self.begin

    def note(self, text: str) -> None:
        self.history.append(f"{self.now():8.3f} {text}")

    def violation(self, text: str) -> None:
        self.note(f"VIOLATION {text}")
        self.violations.append(f"{self.now():.3f} {text}")

    def was_blind(self, begin: float, end: float) -> bool:
        """Whether journald was killed or out of room then; what it had taken and not written is lost."""
        return any(begin - 2 <= stop and start <= end + 2 for start, stop in self.blind)

    def spawn(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.violation(f"the fault program itself: {error!r}")

    async def start(self, *argv: str, **options: Any) -> asyncio.subprocess.Process:
        """A command of the user's."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/home/dev",
            "USER": "dev",
            "XDG_RUNTIME_DIR": RUNTIME,
            "LANG": "C.UTF-8",
            "KILDSVC_DEBUG": "1",
        }
        pipes = {"stdin": asyncio.subprocess.DEVNULL, "stdout": asyncio.subprocess.PIPE}
        return await asyncio.create_subprocess_exec(
            *argv,
            **{**pipes, "stderr": asyncio.subprocess.PIPE, **options},
            user=UID,
            group=UID,
            extra_groups=[],
            env=environment,
            cwd="/home/dev",
            limit=1 << 22,
        )

    async def kild(self, *arguments: str, kill_after: float | None = None) -> Answer:
        """A verb, to its end; or killed in the midst of it."""
        began = time.monotonic()
        process = await self.start(self.kildsvc, *arguments)
        patience = PATIENCE_SEC if kill_after is None else kill_after
        talk = asyncio.ensure_future(process.communicate())
        done, _ = await asyncio.wait([talk], timeout=patience)
        if not done:
            if process.returncode is None:
                process.kill()
            if kill_after is None:
                self.violation(f"kildsvc {' '.join(arguments)} has not come back in {PATIENCE_SEC:.0f} s")
        out, err = await talk
        answer = Answer(process.returncode or 0, out, err.decode(errors="replace"), began, time.monotonic())
        if "Traceback" in answer.err or "Exception" in answer.err:
            self.violation(f"kildsvc {' '.join(arguments)} ended with a traceback: {answer.err[-1500:]}")
        self.figures["commands"] += 1
        return answer


def send_signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def resume(pid: int) -> None:
    send_signal(pid, signal.SIGCONT)


def children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def main_pid(name: str) -> int:
    """The shim, from the cgroup: asking systemd takes longer than a shim may live here. 0 while there is none."""
    pids = group(name)
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                ours = file.read().split(b"\0")[1:2] == [b"-SI"]
            # The waiter looks the same, is the shim's child until that dies, and holds no descriptor.
            if ours and parent(pid) not in pids and os.listdir(f"/proc/{pid}/fd"):
                return pid
        except OSError:
            continue
    return 0


def _slice() -> str:
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        path = f"{root}/user.slice/user-{UID}.slice/user@{UID}.service/kild.slice"
        if os.path.isdir(path):
            return path
    return ""


def group(name: str) -> list[int]:
    try:
        with open(f"{_slice()}/kild-{name}.service/cgroup.procs") as file:
            return [int(line) for line in file]
    except OSError:
        return []


def everything_in_the_slice() -> list[int]:
    found = []
    for directory, _, files in os.walk(_slice() or "/nonexistent"):
        if "cgroup.procs" in files:
            with open(f"{directory}/cgroup.procs") as file:
                found += [int(line) for line in file]
    return found
