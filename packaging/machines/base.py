"""What all machines share: names, locks, and what killed supervisors leave behind."""

import contextlib
import errno
import fcntl
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

BASE = Path("/run/kildsvc-machine")
CGROUPS = Path("/sys/fs/cgroup")
CGROUP2 = CGROUPS / "unified" if (CGROUPS / "unified").is_dir() else CGROUPS
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A namespace of its own for mounts and processes: when its first process dies, the kernel ends all of it.
CONTAINED = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
CONTAINED += ["--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]


class Failure(Exception):
    """One line for the person who called."""


class Ended(Exception):
    """The machine goes away, for this reason."""


def require(packages: dict[str, str]) -> None:
    def missing(path: str) -> bool:
        found = list(Path("/").glob(path[1:]))
        return not found or (path.startswith("/usr/bin/") and not os.access(found[0], os.X_OK))

    lacking = sorted({package for path, package in packages.items() if missing(path)})
    if lacking:
        raise Failure(f"needs Debian packages that are not installed: run 'apt-get install {' '.join(lacking)}'")


@contextlib.contextmanager
def locked(directory: Path, temporary: bool = False) -> Iterator[None]:
    """Waits for the lock on the directory; makes it when missing and, if temporary, removes it when empty."""
    while True:
        directory.mkdir(mode=0o700 if temporary else 0o755, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            lock_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
            if directory.exists() and os.path.samestat(os.fstat(lock_fd), directory.stat()):
                break
            os.close(lock_fd)
    try:
        yield
    finally:
        if temporary:
            remove_empty(directory)
        os.close(lock_fd)


def remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
            raise


def claim(name: str) -> int | None:
    """The lock that marks a name as occupied, held until closed. Call with BASE locked."""
    lock_fd = os.open(BASE / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock_fd)
        return None
    return lock_fd


def sweep() -> None:
    """Removes what killed supervisors left. Call with BASE locked."""
    for path in BASE.glob("*.lock"):
        lock_fd = claim(path.stem)
        if lock_fd is not None:
            remove_machine(path.stem)
            os.close(lock_fd)


def remove_machine(name: str) -> None:
    for group in cgroups(name):
        remove_cgroup(group)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(BASE / name)
    (BASE / f"{name}.lock").unlink()


def cgroups(name: str) -> list[Path]:
    """nspawn on a hybrid host repeats its v2 cgroups in the v1 hierarchy 'systemd'."""
    roots = [CGROUP2, CGROUPS / "systemd"]
    names = (f"kildsvc-machine-{name}", f"system.slice/kildsvc-machine-{name}_*.scope")
    return [group for root in roots for pattern in names for group in root.glob(pattern)]


def remove_left_cgroups(name: str) -> None:
    """Of a machine that was killed together with its /run, as in a container. Raises Failure if it lives."""
    for group in cgroups(name):
        events = group / "cgroup.events"
        if events.exists() and "populated 1" in events.read_text():
            raise Failure(f"machine '{name}' is up in another container of this host: choose another name")
        remove_cgroup(group)


def remove_cgroup(group: Path) -> None:
    try:
        with open(group / "cgroup.kill", "r+") as file:
            file.write("1")
        wait_until_empty(group / "cgroup.events")
    except OSError as error:
        # ENOENT: v1 has no such files. ENODEV: a host's systemd has removed the cgroup meanwhile.
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise
    if group.suffix == ".scope":
        # systemd takes a scope whose cgroup was removed behind its back for running.
        subprocess.run(["systemctl", "stop", "--quiet", group.name], stderr=subprocess.DEVNULL)
    for directory, _, _ in os.walk(group, topdown=False):
        remove_empty(Path(directory))


def wait_until_empty(events: Path) -> None:
    deadline = time.monotonic() + 10
    with open(events) as file:
        # The kernel marks cgroup.events as exceptional (POLLPRI) whenever its content changes.
        changed = select.poll()
        changed.register(file, select.POLLPRI)
        while "populated 1" in file.read():
            if time.monotonic() > deadline:
                raise Failure(f"processes in '{events.parent}' do not die")
            changed.poll(1000)
            file.seek(0)


def run_logged(command: list[str], log: Path, **env: str) -> int:
    with (
        open(log, "wb") as file,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | env,
        ) as process,
    ):
        assert process.stdout
        try:
            for line in process.stdout:
                file.write(line)
        finally:
            process.kill()
            process.stdout.read()  # ends when the last process that holds the pipe is gone
        return process.wait()


def cache() -> Path:
    return Path(os.environ.get("KILDSVC_CACHE") or "/var/cache/kildsvc").absolute()
