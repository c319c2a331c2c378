"""Runs as the agent of a session and tries every way out of it. Prints which succeeded, as JSON.

argv: facts (JSON) of what is outside: victim's name and pid, port.
"""

import contextlib
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(sys.argv[1])
HOME = Path.home()
RUNTIME = Path(os.environ["XDG_RUNTIME_DIR"])
OWN = RUNTIME / "kildsvc" / os.environ["KILD_SESSION"]
VICTIM = int(FACTS["pid"])
LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17


def write(path: Path) -> bool:
    with open(path, "a") as file:
        file.write("\n")
    return True


def replace(path: Path) -> bool:
    """Another file under the same name."""
    new = path.with_name("evil")
    with open(new, "w") as file, contextlib.suppress(OSError):
        file.write(path.read_text())
    os.replace(new, path)
    return True


def rename(path: Path) -> bool:
    path.rename(path.with_name("moved"))
    path.with_name("moved").rename(path)
    return True


def read(path: Path) -> bool:
    return bool(os.listdir(path) if path.is_dir() else path.read_bytes())


def connect(address: str | tuple[str, int]) -> bool:
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as sock:
        sock.settimeout(5)
        sock.connect(address)
    return True


def run(*command: str, expect: str = "") -> bool:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    return done.returncode == 0 and expect in done.stdout


def trace(pid: int) -> bool:
    if LIBC.ptrace(PTRACE_SEIZE, pid, None, None):
        return False
    LIBC.ptrace(PTRACE_DETACH, pid, None, None)  # not stopped: fails, and our end lets go of it
    return True


def kill(pid: int) -> bool:
    os.kill(pid, 0)
    return True


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def leave_cgroup() -> bool:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    group = next(line[3:] for line in lines if line.startswith("0::"))
    above = Path("/sys/fs/cgroup" + group).parent.parent / "escaped"
    above.mkdir(exist_ok=True)
    return run("sh", "-c", f"echo $$ >{above}/cgroup.procs")


def set_uid_bit() -> bool:
    path = Path("bit")
    path.touch()
    path.chmod(0o4755)
    return True


def shim_code() -> Path:
    return next(OWN.glob("*.shim")) / "reap.sh"


ATTACKS: dict[str, Callable[[], bool]] = {
    "write to the home directory": lambda: write(HOME / "escaped"),
    "write to .bashrc": lambda: write(HOME / ".bashrc"),
    "write elsewhere": lambda: write(Path("/srv/open/escaped")),
    "write a unit": lambda: write(HOME / ".config/systemd/user/evil.service"),
    "write to another session's metadata": lambda: write(
        HOME / f".local/state/kildsvc/sessions/{FACTS['victim']}.json"
    ),
    "write a hook": lambda: write(Path(".git/hooks/pre-commit")),
    "write git's config": lambda: write(Path(".git/config")),
    "replace git's config": lambda: replace(Path(".git/config")),
    "replace .git": lambda: rename(Path(".git")),
    "read an SSH key": lambda: read(HOME / ".ssh/id"),
    "read another home": lambda: read(Path("/home/other")),
    "read what others printed": lambda: run("journalctl", "--user", "-q", "-n", "100", expect="victim speaks"),
    "read /tmp of others": lambda: read(Path("/tmp/outside")),
    "read /dev/shm of others": lambda: read(Path("/dev/shm/outside")),
    "read another session's directory": lambda: read(RUNTIME / "kildsvc" / FACTS["victim"]),
    "start a unit": lambda: run("systemd-run", "--user", "--wait", "true"),
    "use the user's bus": lambda: run("busctl", "--user", "list"),
    "use systemd's private socket": lambda: connect(f"{RUNTIME}/systemd/private"),
    "use the system bus": lambda: run("busctl", "--system", "list"),
    "use a daemon's socket": lambda: connect("/run/daemon.sock"),
    "use another session's attach socket": lambda: connect(f"{RUNTIME}/kildsvc/{FACTS['victim']}/sock"),
    "use the SSH agent": lambda: connect(os.environ["SSH_AUTH_SOCK"]),
    "use an abstract socket": lambda: connect("\0outside"),
    "connect by TCP": lambda: connect(("127.0.0.1", FACTS["port"])),
    "read another's memory": lambda: (
        read(Path(f"/proc/{VICTIM}/environ")) and os.open(f"/proc/{VICTIM}/mem", os.O_RDWR) > 0
    ),
    "look through another's root": lambda: read(Path(f"/proc/{VICTIM}/root/home")),
    "trace another": lambda: trace(VICTIM),
    "signal another": lambda: kill(VICTIM),
    "trace its own shim": lambda: trace(parent(os.getppid())),
    "signal its own shim": lambda: kill(parent(os.getppid())),
    "change the shim's code": lambda: write(shim_code()),
    "replace the shim's code": lambda: rename(shim_code().parent),
    "change its launch file": lambda: write(next(OWN.glob("*.json"))),
    "gain root by a setuid program": lambda: run("/usr/local/bin/root-id", "-un", expect="root"),
    "set the setuid bit": set_uid_bit,
    "make a namespace": lambda: run("unshare", "--user", "true"),
    "mount": lambda: run("unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"),
    "leave its cgroup": leave_cgroup,
}


def attempt(attack: Callable[[], bool]) -> bool:
    try:
        return attack()
    except (OSError, StopIteration, subprocess.TimeoutExpired):
        return False


def talk() -> bool:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return connect(server.getsockname())


WORK: dict[str, Callable[[], bool]] = {
    "write to the workspace": lambda: write(Path("made")) and write(Path("sub/made")),
    "write to /tmp and /var/tmp": lambda: write(Path("/tmp/made")) and write(Path("/var/tmp/made")),
    "write to the cache": lambda: run("mkdir", "-p", f"{HOME}/.cache/x"),
    "talk to itself": talk,
    "open a terminal": lambda: bool(os.ttyname(os.openpty()[1])),
    "trace its child": lambda: trace(subprocess.Popen(["sleep", "1"]).pid),
    "signal its child": lambda: run("sh", "-c", "sleep 9 & kill $!"),
    "log": lambda: run("logger", "hello"),
    "mark": lambda: run(FACTS["kildsvc"], "mark", "working"),
}

report = {
    "out": [name for name, attack in ATTACKS.items() if attempt(attack)],
    "failed": [name for name, work in WORK.items() if not attempt(work)],
    "landlock": LIBC.syscall(444, None, 0, 1),
}
Path("report.new").write_text(json.dumps(report))
os.replace("report.new", "report")
