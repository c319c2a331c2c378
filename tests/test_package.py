"""The Debian package, in machines that have nothing of kildsvc but what apt puts there."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from box import DEADLINE, REPO, Box, wait_until
from pty_client import Terminal

from kildsvc.cli.main import kildsvc as command_group
from kildsvc.version import VERSION

# What is not there after it was: apt's and dpkg's own books, and what the machine writes while it runs.
NOT_OURS = "/var/lib/dpkg /var/lib/apt /var/cache /var/log /var/lib/systemd /var/tmp"


pytestmark = pytest.mark.timeout(300)  # the first one builds the package


@pytest.fixture(scope="module")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("deb")
    built = run(str(REPO / "packaging" / "deb"), str(target))
    return Path(built.strip())


@pytest.fixture(scope="module")
def newer(deb: Path) -> Path:
    """The same, of a later version."""
    tree = deb.parent / "newer"
    run("dpkg-deb", "-R", str(deb), str(tree))
    for file in (tree / "DEBIAN" / "control", tree / "usr/lib/python3/dist-packages/kildsvc/version.py"):
        text = file.read_text()
        file.write_text(text.replace(VERSION, "99.0"))
        assert file.read_text() != text
    target = deb.parent / "kildsvc_99.0_all.deb"
    run("dpkg-deb", "-b", "--root-owner-group", str(tree), str(target))
    return target


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Clean(Box):
    """A machine without the checkout."""

    def up(self, *options: str) -> None:
        self.kild = "kildsvc"
        self._machine("up", "--quiet", "--owner", str(os.getpid()), "--release", self.release, *options)

    def apt(self, *arguments: str) -> None:
        self.root(
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            "-qy",
            "--no-install-recommends",
            *arguments,
            timeout=4 * DEADLINE,
        )

    def files(self) -> set[str]:
        skip = " ".join(f"-path {path} -prune -o" for path in NOT_OURS.split())
        return set(self.root("sh", "-c", f"find /etc /usr /var /opt {skip} -print").stdout.splitlines())


@pytest.fixture(params=["bookworm", "trixie"])
def clean(request: pytest.FixtureRequest, deb: Path) -> Iterator[Clean]:
    box = Clean(f"deb-{os.getpid()}-{request.param}", request.param)
    try:
        box.up("--bind", f"{deb.parent}:/srv")
        yield box
    finally:
        box.down()


def test_lintian_has_nothing_to_say(deb: Path) -> None:
    assert run("lintian", "--allow-root", "--pedantic", "--display-info", str(deb)) == ""


def test_the_version_of_the_package_is_ours(deb: Path) -> None:
    assert run("dpkg-deb", "-f", str(deb), "Version").strip() == VERSION


def test_everything_has_its_place(deb: Path) -> None:
    contents = run("dpkg-deb", "-c", str(deb))
    assert not [
        unit for unit in (REPO / "units").iterdir() if f"./usr/lib/systemd/user/{unit.name}\n" not in contents
    ]
    pages = [page.stem for page in (REPO / "packaging" / "man").glob("*.md")]
    assert not [page for page in pages if f"./usr/share/man/man{page[-1]}/{page}.gz\n" not in contents]
    if command_group.get_command(click.Context(command_group), "completion"):
        scripts = ("bash-completion/completions/kildsvc", "zsh/vendor-completions/_kildsvc")
        for script in (*scripts, "fish/vendor_completions.d/kildsvc.fish"):
            assert re.search(rf" [1-9][0-9]+ \S+ \S+ \./usr/share/{script}\n", contents), script


def test_installed_upgraded_and_removed_under_a_running_session(clean: Clean, deb: Path, newer: Path) -> None:
    box = clean
    before = box.files()
    box.apt("install", f"/srv/{deb.name}")
    assert box.kildsvc("--version").stdout == f"kildsvc {VERSION}\n"
    box.kildsvc("doctor")
    assert box.kildsvc("setup").stdout.startswith("enabled kildsvc-gc.timer"), "the package has the units"
    script = "echo from the agent; while read -r line; do echo got $line; done"
    box.kildsvc("open", "work", "--", "bash", "-c", script)
    agent = box.agent_pid("work")
    assert box.json("status", "work")["state"] == "running"
    assert "running, agent pid" in box.run("systemctl", "--user", "status", "kild-work").stdout
    wait_until("the journal has its output", lambda: "from the agent" in box.journal("work"))
    talk(box, b"one")
    assert box.kildsvc("screen", "work").stdout.splitlines() == ["from the agent", "one", "got one"]

    box.apt("install", f"/srv/{newer.name}")
    assert box.kildsvc("--version").stdout == "kildsvc 99.0\n"
    assert (box.json("status", "work")["state"], box.agent_pid("work")) == ("running", agent)
    talk(box, b"two")
    box.crash_shim("work")
    talk(box, b"three")
    box.kildsvc("open", "later", "--", "sleep", "1000")
    assert "later: stopped" in box.kildsvc("stop", "later").stdout

    box.kildsvc("setup", "--remove")

    # What runs is the user's: it goes on without the package, and systemctl has all that is needed to end it.
    with Terminal(box.argv(box.kild, "attach", "work")) as terminal:
        terminal.read_until(rb"got three")
        box.apt("purge", "kildsvc")
        assert box.files() == before
        box.crash_shim("work")
        terminal.type(b"four\r")
        terminal.read_until(rb"got four")
        assert box.processes("from the agent") == [agent]
        box.run("systemctl", "--user", "stop", "kild-work")
        assert terminal.wait() == 143
        assert b"was stopped" in terminal.seen
    assert box.processes("from the agent") == []
    shown = box.show("work", "ActiveState", "StatusText")
    assert (shown["ActiveState"], shown["StatusText"]) == ("inactive", "ended: signal TERM, stopped")
    assert "got four" in box.journal("work")
    assert box.sh("ls ~/.local/state/kildsvc/sessions").split() == ["later.json", "work.json"]


def talk(box: Box, word: bytes) -> None:
    with Terminal(box.argv(box.kild, "attach", "work")) as terminal:
        terminal.read_until(rb"detaches")
        terminal.type(word + b"\r")
        terminal.read_until(b"got " + word)
        terminal.type(b"\0\x11")
        assert terminal.wait() == 0
