"""The test machine itself: packaging/machine. Runs as root; boots real machines."""

import os
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MACHINE = str(Path(__file__).parents[1] / "packaging" / "machine")
BASE = Path("/run/kildsvc-machine")
PREFIX = f"t{os.getpid()}"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="boots machines, needs root")

Done = subprocess.CompletedProcess[str]


def call(*args: str, env: dict[str, str] | None = None, prefix: tuple[str, ...] = ()) -> Done:
    command = [*prefix, MACHINE, *args]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | (env or {}), timeout=200)


def fails(done: Done, *words: str, code: int = 1) -> None:
    """One line on stderr that begins with 'machine: ' and has the words."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.startswith("machine: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr


def wait_until(true: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not happen in time"
        os.sched_yield()


@contextmanager
def process_fd(pid: int) -> Iterator[int]:
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def wait_for_exit(pidfd: int) -> None:
    assert select.select([pidfd], [], [], 10)[0], "process did not end"


def supervisor_of(name: str) -> int:
    return int((BASE / name / "supervisor").read_text())


def cgroups_of(name: str) -> list[Path]:
    tops = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/systemd")]
    patterns = (f"kildsvc-machine-{name}", f"system.slice/kildsvc-machine-{name}_*.scope")
    return [path for top in tops for pattern in patterns for path in top.glob(pattern)]


def processes_of(name: str) -> list[int]:
    """All but the supervisor. A cgroup that could be removed had no processes."""
    found: set[int] = set()
    for group in cgroups_of(name):
        for directory, _, _ in os.walk(group):
            with suppress(OSError):  # ENODEV: removed while it was read
                found |= {int(pid) for pid in Path(directory, "cgroup.procs").read_text().split()}
    return sorted(found)


def nspawn_of(name: str) -> int | None:
    for pid in processes_of(name):
        with suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/comm").read_text() == "systemd-nspawn\n":
                return pid
    return None


def leftovers(name: str) -> list[object]:
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if f"{BASE / name}/" in line]
    files = [path for path in (BASE / name, BASE / f"{name}.lock") if path.exists()]
    return [*files, *cgroups_of(name), *mounts, *processes_of(name)]


def leader_of(name: str) -> int:
    """The machine's PID 1, as the host sees it: the only child of nspawn."""
    nspawn = nspawn_of(name)
    assert nspawn
    return int(Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()[0])


@pytest.fixture
def names() -> Iterator[Callable[[str], str]]:
    given: list[str] = []

    def name(suffix: str) -> str:
        given.append(f"{PREFIX}-{suffix}")
        return given[-1]

    yield name
    for each in given:
        call("--name", each, "down")


@pytest.fixture(scope="module")
def up() -> Iterator[str]:
    """One machine for all tests that do not harm it."""
    name = f"{PREFIX}-shared"
    done = call("--name", name, "up", "--owner", str(os.getpid()))
    assert done.returncode == 0, done.stderr
    yield name
    call("--name", name, "down")


@pytest.mark.timeout(60)
def test_up_says_one_line_and_down_leaves_nothing(names: Callable[[str], str]) -> None:
    name = names("a")
    done = call("--name", name, "up")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"machine '{name}' is up in ")
    assert done.stdout.endswith("cgroup v2)\n") and done.stdout.count("\n") == 1
    assert name in call("list").stdout
    with process_fd(leader_of(name)) as leader:
        assert call("--name", name, "down").returncode == 0
        wait_for_exit(leader)
    assert leftovers(name) == []
    assert name not in call("list").stdout


@pytest.mark.timeout(60)
def test_quiet_up_says_nothing(names: Callable[[str], str]) -> None:
    done = call("--name", names("q"), "up", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("verb", ["run", "root"])
def test_exit_codes_pass(up: str, verb: str) -> None:
    assert call("--name", up, verb, "true").returncode == 0
    assert call("--name", up, verb, "sh", "-c", "exit 42").returncode == 42
    assert call("--name", up, verb, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    through_shell = ["sh", "-c", f"{MACHINE} --name {up} {verb} sh -c 'kill -9 $$'; exit $?"]
    assert subprocess.run(through_shell, capture_output=True, timeout=20).returncode == 128 + 9
    assert call("--name", up, verb, "no-such-command").returncode == 127


@pytest.mark.timeout(60)
def test_who_and_where(up: str) -> None:
    told = call("--name", up, "run", "sh", "-c", "id -un; id -u; pwd; echo $XDG_RUNTIME_DIR; hostname").stdout
    assert told.split() == ["dev", "1000", "/home/dev", "/run/user/1000", up]
    told = call("--name", up, "root", "sh", "-c", "id -un; pwd; cat /proc/1/comm; systemd-detect-virt").stdout
    assert told.split() == ["root", "/root", "systemd", "systemd-nspawn"]


@pytest.mark.timeout(60)
def test_broken_pipe_ends_a_command(up: str) -> None:
    assert call("--name", up, "run", "bash", "-c", "set -o pipefail; yes | head -1").returncode == 128 + 13


@pytest.mark.timeout(60)
def test_killed_run_ends_its_command(up: str) -> None:
    command = [MACHINE, "--name", up, "run", "sh", "-c", "echo started; exec sleep 1234.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stdout.readline() == "started\n"
        process.kill()
        # The pipe ends when the command inside is gone too.
        assert process.stdout.read() == ""


@pytest.mark.timeout(60)
def test_user_manager_runs(up: str) -> None:
    assert call("--name", up, "run", "systemctl", "--user", "is-system-running").stdout == "running\n"


@pytest.mark.timeout(60)
def test_user_journal_is_readable(up: str) -> None:
    unit = [
        "systemd-run",
        "--user",
        "--wait",
        "--quiet",
        "--unit=talker",
        "sh",
        "-c",
        "echo a line for the journal",
    ]
    done = call("--name", up, "run", *unit)
    assert done.returncode == 0, done.stderr
    call("--name", up, "root", "journalctl", "--sync")
    # Without --unit: journald may find a process that ends at once gone before it can tell its unit.
    read = call("--name", up, "run", "journalctl", "--user", "--output=cat")
    assert "a line for the journal\n" in read.stdout


@pytest.mark.timeout(60)
def test_terminal_passes_through(up: str) -> None:
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(ours, (33, 111))
        command = [
            MACHINE,
            "--name",
            up,
            "run",
            "sh",
            "-c",
            "test -t 0 && test -t 1 && stty size <&0 && exit 7",
        ]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        seen = b""
        while b"33 111" not in seen:
            assert select.select([ours], [], [], 20)[0]
            seen += os.read(ours, 1024)
        assert process.wait(timeout=20) == 7
    finally:
        os.close(ours)


@pytest.mark.timeout(60)
def test_bind_and_no_linger(names: Callable[[str], str], tmp_path: Path) -> None:
    name = names("bind")
    (tmp_path / "hello").write_text("from the host")
    done = call("--name", name, "up", "--bind", f"{tmp_path}:/srv/deep/new", "--no-linger", "--journal", "volatile")
    assert done.returncode == 0, done.stderr
    assert call("--name", name, "root", "cat", "/srv/deep/new/hello").stdout == "from the host"
    assert call("--name", name, "root", "test", "-e", "/run/user/1000").returncode == 1
    assert call("--name", name, "root", "test", "-d", "/run/log/journal").returncode == 0


@pytest.mark.timeout(60)
def test_two_machines_side_by_side(up: str, names: Callable[[str], str]) -> None:
    other = names("b")
    assert call("--name", other, "up").returncode == 0
    for name in (up, other):
        assert call("--name", name, "root", "hostname").stdout == f"{name}\n"
        assert call("--name", name, "run", "systemctl", "--user", "start", "basic.target").returncode == 0
        assert call("--name", name, "root", "systemctl", "status", "user@1000.service").returncode == 0
    assert call("--name", other, "down").returncode == 0
    assert leftovers(other) == []
    assert call("--name", up, "run", "systemctl", "--user", "is-system-running").stdout == "running\n"


@pytest.mark.timeout(120)
def test_the_manager_may_be_ended_often(up: str) -> None:
    """systemd's own limit is five starts in ten seconds; a quick test suite is over that."""
    script = "for i in 1 2 3 4 5 6 7 8; do systemctl kill -s KILL $0 || exit 1; systemctl restart $0 || exit 2; done"
    done = call("--name", up, "root", "sh", "-c", script, "user@1000.service")
    assert done.returncode == 0, done.stderr
    assert call("--name", up, "run", "systemctl", "--user", "is-active", "basic.target").stdout == "active\n"


@pytest.mark.timeout(120)
def test_reboot_keeps_the_journal(names: Callable[[str], str]) -> None:
    name = names("r")
    assert call("--name", name, "up").returncode == 0
    for boots in (2, 3):
        done = call("--name", name, "reboot")
        assert (done.returncode, done.stderr) == (0, "")
        assert call("--name", name, "run", "systemctl", "--user", "is-system-running").stdout == "running\n"
        told = call("--name", name, "root", "journalctl", "--list-boots", "--no-pager").stdout
        assert len([line for line in told.splitlines() if not line.startswith("IDX")]) == boots


@pytest.mark.timeout(60)
def test_reboot_from_inside(names: Callable[[str], str]) -> None:
    name = names("ri")
    assert call("--name", name, "up").returncode == 0
    with process_fd(leader_of(name)) as leader:
        call("--name", name, "root", "systemctl", "reboot")
        wait_for_exit(leader)
    assert call("--name", name, "run", "true").returncode == 0


@pytest.mark.timeout(60)
def test_poweroff_from_inside_leaves_nothing(names: Callable[[str], str]) -> None:
    name = names("off")
    assert call("--name", name, "up").returncode == 0
    with process_fd(supervisor_of(name)) as supervisor:
        call("--name", name, "root", "systemctl", "poweroff")
        wait_for_exit(supervisor)
    assert leftovers(name) == []


@pytest.mark.timeout(60)
def test_machine_goes_with_its_owner(names: Callable[[str], str]) -> None:
    name = names("o")
    with subprocess.Popen(["sleep", "infinity"]) as owner:
        try:
            assert call("--name", name, "up", "--owner", str(owner.pid)).returncode == 0
            supervisor_pid, leader_pid = supervisor_of(name), leader_of(name)
            with process_fd(supervisor_pid) as supervisor, process_fd(leader_pid) as leader:
                owner.kill()
                wait_for_exit(supervisor)
                wait_for_exit(leader)
        finally:
            owner.kill()
    assert leftovers(name) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_interrupted_up_leaves_nothing(names: Callable[[str], str], number: signal.Signals) -> None:
    name = names(f"k{number}")
    with subprocess.Popen([MACHINE, "--name", name, "up"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: nspawn_of(name) is not None)
        with process_fd(supervisor_of(name)) as supervisor:
            process.send_signal(number)
            assert process.wait() == (-9 if number == signal.SIGKILL else 130)
            wait_for_exit(supervisor)
    assert leftovers(name) == []


@pytest.mark.timeout(60)
def test_killed_supervisor_takes_all_along(up: str, names: Callable[[str], str]) -> None:
    name = names("s")
    assert call("--name", name, "up").returncode == 0
    with process_fd(leader_of(name)) as leader:
        os.kill(supervisor_of(name), signal.SIGKILL)
        wait_for_exit(leader)
    wait_until(lambda: processes_of(name) == [])
    fails(call("--name", name, "run", "true"), f"'{name}' is not up")
    assert leftovers(name) == []
    assert call("--name", name, "up").returncode == 0
    os.kill(supervisor_of(name), signal.SIGKILL)
    assert call("--name", name, "up").returncode == 0, "at once, while the old processes are still dying"
    assert call("--name", up, "run", "true").returncode == 0


@pytest.mark.timeout(60)
def test_what_a_machine_left_that_died_with_its_run_is_no_hindrance(up: str, names: Callable[[str], str]) -> None:
    name = names("left")
    for group in cgroups_of(up):
        (group.parent / f"kildsvc-machine-{name}" / "boot1").mkdir(parents=True)
    assert call("--name", name, "up").returncode == 0
    call("--name", name, "down")
    assert leftovers(name) == []


def test_terminated_supervisor_cleans_up(names: Callable[[str], str]) -> None:
    name = names("st")
    assert call("--name", name, "up").returncode == 0
    pid = supervisor_of(name)
    with process_fd(pid) as supervisor:
        os.kill(pid, signal.SIGTERM)
        wait_for_exit(supervisor)
    assert leftovers(name) == []


@pytest.mark.timeout(90)
def test_host_that_runs_systemd(names: Callable[[str], str]) -> None:
    """A machine in a machine: there the cgroup is a scope of the host's systemd."""
    host = names("host")
    done = call("--name", host, "up", "--bind", f"{Path(MACHINE).parent}:/srv/packaging")
    assert done.returncode == 0, done.stderr
    inside = ("--name", host, "root", "/usr/bin/python3", "/srv/packaging/machine")
    for _ in range(2):
        done = call(*inside, "up")
        assert done.returncode == 0, done.stderr
        assert call(*inside, "reboot").returncode == 0
        assert call(*inside, "run", "systemctl", "--user", "is-system-running").stdout == "running\n"
        told = call("--name", host, "root", "systemctl", "list-units", "kildsvc-*.scope", "--no-legend", "--plain")
        assert told.stdout.count(".scope") == 1
        done = call(*inside, "down")
        assert (done.returncode, done.stderr) == (0, "")
        assert call("--name", host, "root", "test", "-e", str(BASE)).returncode == 1
        assert call("--name", host, "root", "find", "/sys/fs/cgroup", "-name", "kildsvc-*").stdout == ""


@pytest.mark.timeout(60)
def test_only_root_may() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3"]
    with tempfile.TemporaryDirectory() as copy:  # nobody may not be able to read the checkout
        os.chmod(copy, 0o755)
        shutil.copytree(Path(MACHINE).parent, copy, dirs_exist_ok=True)
        done = subprocess.run([*nobody, f"{copy}/machine", "up"], capture_output=True, text=True)
    fails(done, "must be run as root")


@pytest.mark.timeout(60)
def test_bad_input(up: str) -> None:
    absent = f"{PREFIX}-absent"
    fails(call("--name", up, "up"), f"'{up}' is already up")
    for verb in (["run", "true"], ["root", "true"], ["down"], ["reboot"]):
        fails(call("--name", absent, *verb), f"'{absent}' is not up")
    for bad in ("", "A", "-a", "a-", "a/b", "..", "a b", "x" * 32):
        fails(call(f"--name={bad}", "up"), f"bad name '{bad}'")
    fails(call("--name", absent, "up", "--release", "potato"), "unknown release 'potato'", "trixie")
    fails(call("build", "potato"), "unknown release 'potato'")
    fails(call("--name", absent, "up", "--bind", "/no/such/dir:/mnt"), "'/no/such/dir'")
    fails(call("--name", absent, "up", "--bind", "/srv:relative"), "'relative'")
    fails(call("--name", absent, "up", "--owner", "4194304"), "owner 4194304")
    fails(call("--name", absent, "up", "--journal", "paper"), "paper", code=2)
    fails(call("dance"), "dance", code=2)
    fails(call(), code=2)
    assert leftovers(absent) == []


@pytest.mark.timeout(60)
def test_missing_packages_are_all_named() -> None:
    hide = 'for f in /usr/bin/systemd-nspawn /usr/bin/dbus-daemon; do mount --bind /dev/null $f; done; exec "$@"'
    name = f"{PREFIX}-absent"
    done = call("--name", name, "up", prefix=("unshare", "--mount", "sh", "-ec", hide, "sh"))
    fails(done, "apt-get install dbus systemd-container'")
    assert leftovers(name) == []


@pytest.mark.timeout(60)
def test_failed_boot_says_why(tmp_path: Path) -> None:
    name = f"{PREFIX}-fail"
    fails(call("--name", name, "up", "--bind", f"{tmp_path}:/etc/passwd"), "it did not boot: ", "passwd")
    assert leftovers(name) == []


@pytest.mark.timeout(60)
def test_boot_has_a_deadline(tmp_path: Path) -> None:
    name = f"{PREFIX}-slow"
    init = tmp_path / "init"
    init.write_text("#!/bin/sh\necho waiting for Godot\nexec sleep infinity\n")
    init.chmod(0o755)
    bind = f"{init}:{os.path.realpath('/lib/systemd/systemd')}"
    done = call("--name", name, "up", "--bind", bind, env={"KILDSVC_BOOT_SEC": "2"})
    fails(done, "not up within 2 s", "waiting for Godot")
    assert leftovers(name) == []


@pytest.mark.timeout(60)
def test_build_without_mirror(tmp_path: Path) -> None:
    env = {"KILDSVC_CACHE": str(tmp_path), "KILDSVC_MIRROR": "http://127.0.0.1:9/"}
    log = tmp_path / "roots" / "trixie.log"
    fails(call("build", "trixie", env=env), "127.0.0.1:9", str(log))
    assert list((tmp_path / "roots").iterdir()) == [log]


@pytest.mark.timeout(60)
def test_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    env = os.environ | {"KILDSVC_CACHE": str(tmp_path)}
    with subprocess.Popen([MACHINE, "build", "trixie"], env=env) as process:
        wait_until(lambda: list(tmp_path.glob("roots/building-*/root/var")) != [])
        process.terminate()
        assert process.wait() == 130
    assert list((tmp_path / "roots").iterdir()) == [tmp_path / "roots" / "trixie.log"]


@pytest.mark.timeout(60)
def test_build_on_full_disk(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=10M tmpfs "{tmp_path}"; exec "$@"'
    full = ("unshare", "--mount", "sh", "-ec", mount, "sh")
    fails(call("build", "trixie", env={"KILDSVC_CACHE": str(tmp_path)}, prefix=full), "MB free", "700 MB")


@pytest.mark.timeout(200)
def test_trixie(names: Callable[[str], str]) -> None:
    name = names("trixie")
    done = call("--name", name, "up", "--release", "trixie")
    assert done.returncode == 0, done.stderr
    assert "Debian 13, systemd 257" in done.stdout
    assert call("--name", name, "run", "systemctl", "--version").stdout.startswith("systemd 257 ")
    assert call("--name", name, "run", "systemctl", "--user", "is-system-running").stdout == "running\n"
