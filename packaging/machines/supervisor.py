"""One process for each machine, as long as it is up."""

import argparse
import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from machines.base import BASE, CGROUP2, CONTAINED, PATH, Ended, locked, remove_empty, remove_machine
from machines.inside import enter

HOST_RUNS_SYSTEMD = Path("/run/systemd/system").is_dir()
MASKED = "systemd-timesyncd systemd-pstore systemd-udevd systemd-udev-trigger systemd-update-utmp"

# With --keep-unit nspawn splits its cgroup into ./payload and ./supervisor. cgroup v2 lets only a
# cgroup without processes hand on controllers: all else waits in ./outer, and each boot gets a fresh one.
JOIN = 'mkdir -p "$CG/outer"; echo $$ >"$CG/outer/cgroup.procs"; exec "$@"'

# The machine's root: a writable overlay, ready to be booted. nspawn keeps locks and sockets below /run/systemd; the
# tmpfs there keeps them off the host.
PREPARE = r"""
mount -t tmpfs -o mode=755 machine /run/systemd
cd "$STATE"; mkdir fs; mount -t tmpfs -o size=4G,mode=755 machine fs; cd fs; mkdir lower upper work root
mount --bind "$LOWER" lower
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work machine root; cd root

sed -i -E '/^dev:|^[^:]*:[^:]*:1000:/d' etc/passwd etc/group; sed -i '/^dev:/d' etc/shadow
echo 'dev:x:1000:1000::/home/dev:/bin/bash' >>etc/passwd
echo 'dev:x:1000:' >>etc/group; echo 'dev:!:19000:0:99999:7:::' >>etc/shadow
rm -rf home/dev; cp -rT etc/skel home/dev; chown -R 1000:1000 home/dev

rm -rf .dockerenv etc/machine-id etc/hostname etc/hosts etc/fstab var/log/journal var/lib/systemd/linger
mkdir -p var/log/journal var/lib/systemd/linger etc/systemd/{journald,system,user}.conf.d
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id
echo "$NAME" >etc/hostname; echo "127.0.0.1 localhost $NAME" >etc/hosts
printf '[Journal]\nStorage=%s\n' "$JOURNAL" >etc/systemd/journald.conf.d/kild-machine.conf
# Tests end the user manager, the bus and the journal more often than five times in ten seconds, after which systemd
# would start them no more.
printf '[Manager]\nDefaultStartLimitIntervalSec=0\n' | tee etc/systemd/{system,user}.conf.d/kild-machine.conf
cd etc/systemd/system
for unit in $MASKED; do ln -sf /dev/null $unit.service; done; ln -sf /dev/null timers.target
wants="dbus.service systemd-logind.service systemd-user-sessions.service $WANTS"
[ -z "$LINGER" ] || { wants+=' user@1000.service'; touch ../../../var/lib/systemd/linger/dev; }
printf '[Unit]\nRequires=basic.target\nWants=%s\nAfter=basic.target %s\nAllowIsolate=yes\n' \
  "$wants" "$wants" >kild-machine.target
"""

CHECK = r"""
. /etc/os-release; set -- $(systemctl --version)
echo "${NAME%% *} ${VERSION_ID:-$VERSION_CODENAME}, systemd $2, $(stat -fc %T /sys/fs/cgroup)"
systemctl $SCOPE is-system-running --wait || systemctl $SCOPE --failed --plain --no-legend
"""


class Supervisor:
    """What is the same for every kind of machine; a kind knows how to boot its root and when that is up."""

    kind = ""
    boot = ""  # the script that boots the root, which is in $STATE/fs/root
    boot_sec = 60.0
    wants = ""  # units of its own
    namespaces: tuple[str, ...] = ()

    def __init__(self, args: argparse.Namespace, root: Path, starter: socket.socket, owner_fd: int | None) -> None:
        self.args = args
        self.root = root
        self.state = BASE / args.name
        self.starter: socket.socket | None = starter
        self.waiting = [starter]  # for the machine to be up
        self.leaving: list[socket.socket] = []  # for it to be gone
        self.leader = 0
        self.about = ""
        self.ready = False
        self.limit_sec = float(os.environ.get("KILDSVC_BOOT_SEC") or self.boot_sec)
        self.deadline = time.monotonic() + self.limit_sec
        self.child: subprocess.Popen[bytes] | None = None
        self.selector = selectors.DefaultSelector()
        self.watch(starter, lambda: self.on_client_readable(starter))
        if owner_fd is not None:
            self.watch(owner_fd, self.on_owner_exit)

    def watch(self, file: socket.socket | int, handler: Callable[[], None]) -> None:
        self.selector.register(file, selectors.EVENT_READ, handler)

    def start(self) -> None:
        Path("/run/systemd").mkdir(exist_ok=True)
        (self.state / "supervisor").write_text(f"{os.getpid()}\n")
        self.control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control.bind(str(self.state / "control"))
        self.control.listen()
        self.watch(self.control, self.on_control_readable)
        self.start_child(self.prepare())

    def prepare(self) -> dict[str, str]:
        """Makes what the boot script needs, and tells it by environment."""
        raise NotImplementedError

    def restart(self) -> None:
        """Boots it again, with its disk. As prepare(), it is another thing for each kind of machine."""
        raise NotImplementedError

    def start_child(self, env: dict[str, str]) -> None:
        name = self.args.name
        group, scope = CGROUP2 / f"kildsvc-machine-{name}", []
        if HOST_RUNS_SYSTEMD:
            unit = f"kildsvc-machine-{name}_{os.getpid()}.scope"
            group = CGROUP2 / "system.slice" / unit
            scope = f"systemd-run --scope --quiet --collect -p Delegate=yes --unit={unit} --description".split()
            scope.append(f"Test machine '{name}' of kildsvc")
        env |= {"PATH": PATH, "LANG": "C.UTF-8", "CG": str(group), "STATE": str(self.state), "LOWER": str(self.root)}
        env |= {"NAME": name, "JOURNAL": self.args.journal, "MASKED": MASKED, "WANTS": self.wants}
        env["LINGER"] = "" if self.args.no_linger else "yes"
        inner = [*CONTAINED, *self.namespaces, "bash", "-euc", PREPARE + self.boot, "machine", *self.args.bind]
        command = [*scope, "bash", "-euc", JOIN, "machine", *inner]
        self.child = subprocess.Popen(command, env=env)
        self.watch(os.pidfd_open(self.child.pid), self.on_child_exit)

    def loop(self) -> None:
        while True:
            left = None if self.ready else self.deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Ended(f"not up within {self.limit_sec:g} s, its console ends with: {self.last_console_line()}")
            for key, _ in self.selector.select(left):
                key.data()

    def last_console_line(self) -> str:
        text = (self.state / "console").read_text(errors="replace")
        lines = [line.strip() for line in re.sub(r"\x1b[^a-zA-Z]*[a-zA-Z]|\r", "", text).split("\n")]
        return next((line for line in reversed(lines) if line), "(nothing)")

    def on_child_exit(self) -> None:
        assert self.child
        powered_off = self.child.wait() == 0
        raise Ended("it powered off" if powered_off else f"it did not boot: {self.last_console_line()}")

    def on_owner_exit(self) -> None:
        raise Ended("its owner died")

    def begin_boot(self) -> None:
        self.ready = False
        self.deadline = time.monotonic() + self.limit_sec

    def check(self) -> None:
        scope = "SCOPE=" if self.args.no_linger else "SCOPE=--user"
        command = enter(self.kind, self.leader, self.args.no_linger, [scope, "sh", "-c", CHECK])
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert process.stdout
        self.watch(process.stdout.fileno(), lambda: self.on_check_readable(process))

    def on_check_readable(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout
        self.selector.unregister(process.stdout.fileno())
        about, state, *failed = [*process.communicate()[0].splitlines(), "", ""]
        # What a user enabled may fail after a reboot; a fresh user manager has no reason to.
        if state != "running" and (state != "degraded" or (self.starter and not self.args.no_linger)):
            raise Ended(f"its manager is '{state}' {' '.join(failed)}".rstrip())
        self.about = about.replace("cgroup2fs", "cgroup v2")
        self.ready = True
        self.starter = None
        for client in self.waiting:
            self.answer(client, f"ok {self.kind} {self.leader} {self.about}")
        self.waiting = []

    def on_control_readable(self) -> None:
        client, _ = self.control.accept()
        self.watch(client, lambda: self.on_client_readable(client))

    def on_client_readable(self, client: socket.socket) -> None:
        command = client.recv(64)
        if not command:
            self.selector.unregister(client)
            client.close()
            self.waiting = [other for other in self.waiting if other is not client]
            if client is self.starter:
                raise Ended("its 'up' was interrupted")
        elif command == b"down\n":
            self.leaving.append(client)
            raise Ended("it was taken down")
        elif command == b"status\n":
            self.answer(
                client, f"ok {self.kind} {self.leader} {self.about}" if self.ready else f"ok {self.kind} 0 booting"
            )
        elif command == b"leader\n" and not self.ready:
            self.waiting.append(client)
        elif command == b"leader\n":
            self.answer(client, f"ok {self.kind} {self.leader} {self.about}")
        elif command == b"reboot\n" and self.ready:
            self.waiting.append(client)
            self.begin_boot()
            self.restart()
        else:
            self.answer(client, f"failed it is booting, so no {command.decode(errors='replace').strip()}")

    def answer(self, client: socket.socket, line: str) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(f"{line}\n".encode())

    def end(self, reason: str, lock_fd: int) -> None:
        if self.child:
            self.child.kill()
            self.child.wait()
        with locked(BASE, temporary=True):
            remove_machine(self.args.name)
            os.close(lock_fd)
            if not any(BASE.iterdir()):
                remove_empty(Path("/run/systemd"))
        for client in self.waiting:
            self.answer(client, f"failed {reason}")
        for client in self.leaving:
            self.answer(client, "ok")


def supervise(supervisor: Supervisor, lock_fd: int) -> None:
    """Becomes a daemon without any of the caller's files, then runs the machine to its end."""

    def on_signal(number: int, _: object) -> None:
        raise Ended(f"its supervisor got {signal.Signals(number).name}")

    os.setsid()
    os.chdir("/")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, on_signal)
    reason = "its supervisor failed"
    try:
        supervisor.state.mkdir(mode=0o700)
        for path, fd in (("/dev/null", 0), (supervisor.state / "console", 1)):
            file_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file_fd, fd)
            os.close(file_fd)
        os.dup2(1, 2)
        supervisor.start()
        supervisor.loop()
    except Ended as ended:
        reason = str(ended)
    except Exception as error:
        reason = f"its supervisor failed: {error}"
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.end(reason, lock_fd)
