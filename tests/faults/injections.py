"""The faults. Each is a coroutine that does its harm, undoes what it must, and returns whether it did anything."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from faults.observe import Watcher
from faults.target import AGENT, Target
from faults.world import JOURNAL, RUNTIME, World, children, group, resume, send_signal

NO_MANAGER = 6  # the exit code


class Injections:
    def __init__(self, world: World, targets: list[Target], watchers: list[Watcher]) -> None:
        self.world = world
        self.targets = targets
        self.watchers = watchers
        self._number = 0
        self.paused = False
        self._busy: set[str] = set()
        self._last: dict[str, float] = {}

    def table(self) -> dict[str, tuple[int, Callable[[], Awaitable[bool]]]]:
        """By name: how often, relative to the others, and what."""
        return {
            "kill shim": (30, self.kill_shim),
            "stop and continue shim": (12, self.pause_shim),
            "kill shim twice": (4, self.kill_shim_twice),
            "kill all shims": (1, self.kill_all_shims),
            "kill client": (8, self.kill_client),
            "stop and continue client": (8, self.pause_client),
            "kill agent's child": (12, self.kill_child),
            "kill waiter": (1, self.kill_waiter),
            "kill command": (6, self.kill_command),
            "kill open": (3, self.kill_open),
            "kill dbus-daemon": (3, self.kill_dbus),
            "kill journald": (3, self.kill_journald),
            "daemon-reload": (3, self.reload),
            "daemon-reexec": (3, self.reexec),
            "full journal": (2, self.full_journal),
            "full runtime directory": (3, self.full_runtime),
            "no inodes in the runtime directory": (2, self.no_inodes),
            "many connections": (3, self.many_connections),
            "no descriptors": (10, self.no_descriptors),
            "open that fails": (2, self.failing_open),
            "opens and stops race": (2, self.race),
            "end of an agent": (5, self.end_agent),
            "typed": (5, self.type),
        }

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number}"

    def _living(self) -> Target | None:
        living = [target for target in self.targets if target.alive]
        return self.world.rng.choice(living) if living else None

    def _any(self) -> Target:
        return self.world.rng.choice(self.targets)

    # -- processes ------------------------------------------------------------------------------------------

    def _kill_shim_of(self, target: Target, number: int) -> bool:
        pid = target.shim
        if target.life:
            # One that is stopped dies of it when it goes on; of SIGKILL, at once.
            later = target.life.shim_stopped_until if number != signal.SIGKILL else 0.0
            target.life.shim_killed_at.append(max(time.monotonic(), later))
        self.world.note(f"signal {number} to the shim of {target.name}, pid {pid}")
        return bool(pid) and send_signal(pid, number)

    async def kill_shim(self) -> bool:
        number = self.world.rng.choice(
            [signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]
        )
        return self._kill_shim_of(self._any(), number)

    async def kill_shim_twice(self) -> bool:
        """The second one while it recovers."""
        target = self._any()
        first = self._kill_shim_of(target, signal.SIGKILL)
        await asyncio.sleep(self.world.rng.random() * 0.1)
        return self._kill_shim_of(target, signal.SIGKILL) or first

    async def kill_all_shims(self) -> bool:
        return sum(self._kill_shim_of(target, signal.SIGKILL) for target in self.targets) > 0

    async def pause_shim(self) -> bool:
        target = self._any()
        pid = target.shim
        self.world.note(f"SIGSTOP to the shim of {target.name}, pid {pid}")
        if not pid or not send_signal(pid, signal.SIGSTOP):
            return False
        pause = self.world.rng.random() * 1.5
        if target.life:
            target.life.shim_stopped_until = time.monotonic() + pause
        await asyncio.sleep(pause)
        resume(pid)
        return True

    async def kill_client(self) -> bool:
        return self.world.rng.choice(self.watchers).kill()

    async def pause_client(self) -> bool:
        pid = self.world.rng.choice(self.watchers).pid
        if not pid or not send_signal(pid, signal.SIGSTOP):
            return False
        await asyncio.sleep(self.world.rng.random() * 2)
        resume(pid)
        return True

    async def kill_child(self) -> bool:
        target = self._living()
        return bool(target and target.life) and any(
            send_signal(pid, signal.SIGKILL)
            for pid in children(target.life.pid)  # type: ignore[union-attr]
        )

    async def kill_waiter(self) -> bool:
        target = self._living()
        if not target or not target.life:
            return False
        waiter = target.life.waiter
        if waiter not in group(target.name):
            return False
        target.life.waiter_killed = True
        self.world.note(f"SIGKILL to the waiter of {target.name}, pid {waiter}")
        if self.world.rng.random() < 0.3:
            self._kill_shim_of(target, signal.SIGKILL)
        return send_signal(waiter, signal.SIGKILL)

    async def kill_command(self) -> bool:
        name, rng = self._any().name, self.world.rng
        verb = rng.choice([["list"], ["status", name], ["logs", name], ["wait", name], ["events"], ["screen", name]])
        await self.world.kild(*verb, kill_after=rng.random() * 0.4)
        return True

    async def kill_open(self) -> bool:
        """Of a session of its own. Whatever is left of it can be destroyed."""
        name = self._name("killed")
        await self.world.kild("open", name, "--", "sleep", "1000", kill_after=self.world.rng.random() * 0.6)
        await self._destroy(name)
        return True

    async def _destroy(self, name: str) -> None:
        for _ in range(50):
            answer = await self.world.kild("destroy", "--force", name, "--json")
            if answer.code in (0, 4):
                break
            self.world.note(f"destroy {name} gave {answer.code}: {answer.out.decode().strip()}")
            await asyncio.sleep(0.2)
        else:
            self.world.violation(f"{name} cannot be destroyed: {answer.out.decode()}")
        if left := group(name):
            self.world.violation(f"{name} was destroyed, and processes {left} live")
        if os.path.exists(f"{RUNTIME}/kildsvc/{name}"):
            found = os.listdir(f"{RUNTIME}/kildsvc/{name}")
            self.world.violation(f"{name} was destroyed ({answer.code}), and files of it are there: {found}")

    # -- the system -----------------------------------------------------------------------------------------

    def _allowed(self, what: str) -> bool:
        """systemd gives up on a service that dies five times in ten seconds."""
        now = time.monotonic()
        if now - self._last.get(what, 0.0) < 3:
            return False
        self._last[what] = now
        return True

    async def kill_dbus(self) -> bool:
        if not self._allowed("dbus"):
            return False
        return await self._once("runtime", self._kill_dbus())

    async def _kill_dbus(self) -> bool:
        """Not when it has just been started, nor the manager executed anew, and with nothing new meanwhile: what
        systemd 252 asks of it then it asks without doing anything else, for 90 s, also starting another one."""
        pids = subprocess.run(["pgrep", "-u", "dev", "-x", "dbus-daemon"], capture_output=True, check=False).stdout
        killed = False
        for pid in map(int, pids.split()):
            if time.time() - os.stat(f"/proc/{pid}").st_ctime > 5:
                self.paused = True
                await asyncio.sleep(1)
                self.world.note("kill dbus-daemon")
                killed = send_signal(pid, signal.SIGKILL)
                await asyncio.sleep(1)
                self.paused = False
        # It is started when it is needed.
        await (await self.world.start("busctl", "--user", "list")).communicate()
        return killed

    async def kill_journald(self) -> bool:
        if not self._allowed("journald"):
            return False
        begin = time.monotonic()
        self.world.note("kill journald")
        done = subprocess.run(["pkill", "-KILL", "-x", "systemd-journal"], check=False)
        self.world.blind.append((begin, time.monotonic()))
        return done.returncode == 0

    async def reload(self) -> bool:
        return await self._once("runtime", self._systemctl("daemon-reload"))

    async def reexec(self) -> bool:
        # Not while its runtime directory is full: systemd itself does not come back then.
        return await self._once("runtime", self._systemctl("daemon-reexec"))

    async def _systemctl(self, verb: str) -> bool:
        self.world.note(verb)
        process = await self.world.start("systemctl", "--user", verb)
        await process.communicate()
        process = await self.world.start("systemctl", "--user", "is-system-running")  # it is back
        await process.communicate()
        await asyncio.sleep(1)
        return True

    async def full_journal(self) -> bool:
        return await self._once("journal", self._fill(JOURNAL, blind=True))

    async def full_runtime(self) -> bool:
        return await self._once("runtime", self._fill(RUNTIME, blind=False))

    async def _once(self, what: str, work: Coroutine[Any, Any, bool]) -> bool:
        """Not twice at the same time: the first to end would undo both."""
        if what in self._busy:
            work.close()
            return False
        self._busy.add(what)
        try:
            return await work
        finally:
            self._busy.discard(what)

    async def _fill(self, directory: str, blind: bool) -> bool:
        path = f"{directory}/fill"
        begin = time.monotonic()
        self.world.note(f"{directory} is full")
        with open(path, "wb") as file:
            room = os.statvfs(directory)
            for size in (room.f_bavail * room.f_frsize, 1 << 16, 1 << 12, 1 << 12):
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, max(size, 1))
                except OSError:
                    continue
        await asyncio.sleep(0.2 + self.world.rng.random())
        os.unlink(path)
        self.world.note(f"{directory} has room again")
        if blind:
            self.world.blind.append((begin, time.monotonic()))
        return True

    async def no_inodes(self) -> bool:
        return await self._once("runtime", self._take_inodes())

    async def _take_inodes(self) -> bool:
        room = os.statvfs(RUNTIME)
        used = room.f_files - room.f_ffree
        done = subprocess.run(["mount", "-o", f"remount,nr_inodes={used}", RUNTIME], check=False, capture_output=True)
        self.world.note(f"no inodes in {RUNTIME}")
        await asyncio.sleep(0.2 + self.world.rng.random())
        subprocess.run(["mount", "-o", f"remount,nr_inodes={room.f_files}", RUNTIME], check=True)
        self.world.note(f"inodes in {RUNTIME} again")
        return done.returncode == 0

    # -- descriptors ----------------------------------------------------------------------------------------

    async def many_connections(self) -> bool:
        """More than the shim takes; some of them say nonsense, some are gone before it looks."""
        target, made = self._any(), []
        count = self.world.rng.choice([20, 100, 600])
        self.world.note(f"{count} connections to {target.name}")
        for at in range(count):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            try:
                sock.connect(f"{RUNTIME}/kildsvc/{target.name}/sock")
                if at % 3 == 0:
                    sock.send(os.urandom(8))
            except OSError:
                sock.close()
                await asyncio.sleep(0.005)  # its queue is full, or it is not there
                continue
            if at % 5 == 0:
                sock.close()
            else:
                made.append(sock)
        await asyncio.sleep(self.world.rng.random())
        for sock in made:
            sock.close()
        return bool(made)

    async def no_descriptors(self) -> bool:
        target = self._any()
        pid = target.shim
        try:
            used = len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            return False
        if used < 10:
            return False  # it has just been started: Python itself could not begin
        if not await self._limit_descriptors(pid, used + self.world.rng.randrange(3)):
            return False
        self.world.note(f"no descriptors for the shim of {target.name}, pid {pid}")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            sock.connect(f"{RUNTIME}/kildsvc/{target.name}/sock")
        except OSError:
            pass
        await asyncio.sleep(0.2 + self.world.rng.random())
        sock.close()
        await self._limit_descriptors(pid, 1024)
        return True

    async def _limit_descriptors(self, pid: int, count: int) -> bool:
        """As its user: the machine's root has no such power over others."""
        process = await self.world.start("prlimit", "--pid", str(pid), f"--nofile={count}:")
        await process.communicate()
        return process.returncode == 0

    # -- verbs ----------------------------------------------------------------------------------------------

    async def failing_open(self) -> bool:
        name, code = self._name("fails"), self.world.rng.randrange(1, 256)
        answer = await self.world.kild("open", name, "--json", "--", "sh", "-c", f"echo last words; exit {code}")
        said = answer.out.decode()
        if answer.code == 5 and f"exit code {code}" not in said:
            self.world.violation(f"open of an agent that ends with {code} says: {said}")
        elif answer.code not in (1, 5, 6):
            self.world.violation(f"open of an agent that ends with {code} gave {answer.code}: {said}")
        elif answer.code != 5:
            self.world.note(f"open {name} gave {answer.code}: {said.strip()}")
            self.world.given_up += [name] * (answer.code == NO_MANAGER)
        await self._destroy(name)
        return True

    async def race(self) -> bool:
        """Of several opens one wins, however many stops come in between; in the end all is gone."""
        name, rng = self._name("race"), self.world.rng
        order = f"/home/dev/order-{name}"
        verbs = [["open", name, "--json", "--", sys.executable, AGENT, order, "0.05"]] * 3
        verbs += [["stop", name, "--json"]] * rng.randrange(3)
        rng.shuffle(verbs)

        async def later(verb: list[str], delay: float) -> tuple[str, int, str]:
            await asyncio.sleep(delay)
            answer = await self.world.kild(*verb)
            return verb[0], answer.code, answer.out.decode()

        answers = await asyncio.gather(*[later(verb, rng.random() * 0.4) for verb in verbs])
        self.world.note(f"race for {name}: {[(verb, code) for verb, code, _ in answers]}")
        for verb, code, said in answers:
            if code not in ((0, 1, 5, 6) if verb == "open" else (0, 4, 6)):
                self.world.violation(f"{verb} {name} gave {code}: {said}")
        won = [code for verb, code, _ in answers if verb == "open"].count(0)
        if won > 1 + [verb for verb, _, _ in answers].count("stop"):
            self.world.violation(f"{won} opens of {name} have won: {answers}")
        await self._destroy(name)
        return True

    async def end_agent(self) -> bool:
        """The session's keeper opens it again."""
        target = self._living()
        if not target or not target.life or target.life.doomed:
            return False
        await target.end()
        return True

    async def type(self) -> bool:
        """What `send` says has been taken, the agent reads, whatever happens to the shim."""
        target = self._living()
        if not target or not target.life:
            return False
        life, word = target.life, self._name("word").encode()
        answer = await self.world.kild("send", target.name, f"say {word.decode()}", "--enter")
        if answer.code == 0 and not life.told_at:
            life.said.add(word)
        elif answer.code == 0:
            self.world.note(f"{word.decode()} was typed to {target.name} at its end")
        elif not life.told_at and (answer.code == 3 or "ended" in answer.err):
            self.world.violation(f"send to {target.name}, which lives, gave {answer.code}: {answer.err}")
        else:
            self.world.note(f"send to {target.name} gave {answer.code}: {answer.err.strip()}")
        return True
