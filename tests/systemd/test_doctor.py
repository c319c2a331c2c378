"""doctor: every check in a machine where it is well, and in one where it is not."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from box import Box, wait_until
from pty_client import Terminal

from kildsvc.operations.checks.log import limit
from kildsvc.operations.checks.manager import kills_lingering

Checks = dict[str, dict[str, Any]]


def examine(box: Box, *command: str, fix: bool = False) -> tuple[int, Checks]:
    """With a command in front, such as `env`."""
    done = box.run(*command, box.kild, "doctor", "--json", *["--fix"] * fix, check=False)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    severities = [one["severity"] for one in told["checks"]]
    assert told["severity"] == max(severities, key=["ok", "warn", "fail"].index)
    for one in told["checks"]:
        assert one["why"] and one["found"] and bool(one["remedy"]) == (one["severity"] != "ok"), one
        assert not re.search("Traceback|cannot be checked", one["found"]), one
    return done.returncode, {one["name"]: one for one in told["checks"]}


def severities(checks: Checks, *names: str) -> dict[str, str]:
    return {name: one["severity"] for name, one in checks.items() if not names or name in names}


ALL = [
    *(
        "user manager",
        "bus",
        "lingering",
        "journal",
        "journal kept",
        "journal rate",
        "cgroups",
        "namespaces",
        "Landlock",
    ),
    *("runtime directory", "versions", "settings", "agents", "terminal", "setup", "left over", "sessions' files"),
    "worktrees",
]
# The kernel and its cgroups are the host's.
HOSTS = {"cgroups", "Landlock", "namespaces"}


@pytest.mark.smoke
def test_a_machine_that_is_well(box: Box) -> None:
    box.sh("mkdir -p ~/work/bin; printf '#!/bin/sh\\necho 1.2.3\\n' >~/work/bin/claude; chmod +x ~/work/bin/claude")
    box.kildsvc("setup")
    try:
        path = box.sh("echo $PATH").strip()
        code, found = examine(box, "env", f"PATH=/home/dev/work/bin:{path}")
        assert code == 0
        assert list(found) == ALL
        bad = {name: one for name, one in found.items() if one["severity"] != "ok" and name not in HOSTS}
        assert bad == {}
        assert ("no pyavt" in found["versions"]["found"]) == (box.release == "trixie")
        assert "claude 1.2.3" in found["agents"]["found"]
        assert "journald takes" in found["journal rate"]["found"]
        # As people read it; and where no agent is, as one may be on the host.
        box.sh("mkdir ~/work/tools; ln -s /usr/bin/{journalctl,systemctl,systemd-analyze} ~/work/tools")
        said = box.run("env", "PATH=/home/dev/work/tools", box.kild, "doctor").stdout
        assert re.search(r"^ok +lingering +on", said, re.M) and re.search(
            r"^warn +agents .*\n +.*runs one\n +→", said, re.M
        )
    finally:
        box.kildsvc("setup", "--remove")
        box.sh("rm -rf ~/.config/systemd")


def test_what_is_wrong_in_the_surroundings(box: Box) -> None:
    """One user service without namespaces and Landlock, on old libraries, with a small and full runtime directory."""
    box.sh(
        """mkdir -p ~/work/{small,lib/pystemd-0.9.dist-info} ~/.config/kildsvc
        echo 'x = 1' >~/.config/kildsvc/config.toml
        printf 'Metadata-Version: 2.1\\nName: pystemd\\nVersion: 0.9\\n' >~/work/lib/pystemd-0.9.dist-info/METADATA"""
    )
    box.root("mount", "-t", "tmpfs", "-o", "size=1M,uid=1000", "small", "/home/dev/work/small")
    try:
        box.sh("ln -s $XDG_RUNTIME_DIR/* ~/work/small; head -c 900K /dev/zero >~/work/small/much")
        limits = [
            "RestrictNamespaces=yes",
            "SystemCallFilter=~landlock_create_ruleset",
            "SystemCallErrorNumber=ENOSYS",
        ]
        service = ["systemd-run", "--user", "--quiet", "--pipe", "--wait", *(f"-p{one}" for one in limits)]
        env = ["PYTHONPATH=/home/dev/work/lib", "XDG_RUNTIME_DIR=/home/dev/work/small"]
        code, found = examine(box, *service, *(f"-E{one}" for one in env))
    finally:
        box.root("umount", "-l", "/home/dev/work/small")
        box.sh("rm -rf ~/.config/kildsvc")
    assert code == 1
    names = ("namespaces", "Landlock", "runtime directory", "versions", "settings", "user manager")
    assert severities(found, *names) == {
        "user manager": "ok",
        "namespaces": "warn",
        "Landlock": "warn",
        "runtime directory": "fail",
        "versions": "fail",
        "settings": "fail",
    }
    assert "config.toml:1: unknown setting 'x'" in found["settings"]["found"]
    assert "pystemd 0.9" in found["versions"]["found"] and "pystemd" in found["versions"]["remedy"]


LEFT = """
mkdir -p ~/.local/state/kildsvc/output/gone ~/.local/share/kildsvc/worktrees/app/stray $XDG_RUNTIME_DIR/kildsvc/dead
touch $XDG_RUNTIME_DIR/kildsvc/.killed.lock
cd $XDG_RUNTIME_DIR/kildsvc/dead; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
rm ~/.local/state/kildsvc/sessions/bare.json; echo '{' >~/.local/state/kildsvc/sessions/broken.json
"""


def test_what_was_left_over(box: Box) -> None:
    box.kildsvc("open", "lives", "--", "sleep", "1000")
    for name in ("bare", "ended"):
        box.kildsvc("open", name, "--grace", "0", "--", "true")
        box.wait_ended(name)
    box.sh(LEFT)
    try:
        _, found = examine(box)
        assert severities(found, "left over", "sessions' files", "worktrees", "setup") == dict.fromkeys(
            ("setup", "left over", "sessions' files", "worktrees"), "warn"
        )
        for what in ("the unit of bare", "the socket of dead", "the lock of killed", "the last output of gone"):
            assert what in found["left over"]["found"]
        assert "lives" not in found["left over"]["found"] and "ended" not in found["left over"]["found"]
        assert "git -C '/home/dev/.local/share/kildsvc/worktrees/app/stray'" in found["worktrees"]["remedy"]
        _, found = examine(box, fix=True)
        assert [name for name, one in found.items() if one["fixed"]] == ["setup", "left over"]
        # There may be work in them: told, not removed.
        assert severities(found, "sessions' files", "worktrees") == {"sessions' files": "warn", "worktrees": "warn"}
        box.sh(found["sessions' files"]["remedy"])
        _, found = examine(box)
        assert set(severities(found, "left over", "sessions' files", "setup").values()) == {"ok"}
        states = {one["name"]: one["state"] for one in box.json("list")}
        assert states == {"lives": "running", "ended": "exited"}
        assert box.sh("systemctl --user list-units --all --plain --no-legend 'kild*-bare*'") == ""
    finally:
        box.kildsvc("setup", "--remove")
        box.sh("rm -rf ~/.local/share/kildsvc ~/.config/systemd")


def test_terminals(box: Box) -> None:
    for variables, expected in (
        (["TERM=xterm-256color", "LC_ALL=C.UTF-8", "COLORTERM=truecolor"], b"xterm-256color, UTF-8, millions of"),
        (["TERM=dumb"], b"TERM is 'dumb'"),
        (["TERM=xterm", "LC_ALL=POSIX", "PYTHONCOERCECLOCALE=0", "PYTHONUTF8=0"], b"agents write UTF-8"),
    ):
        with Terminal(box.argv("env", *variables, box.kild, "doctor")) as terminal:
            terminal.read_until(expected)
            terminal.wait()


@pytest.fixture
def bare() -> Iterator[Box]:
    box = Box(f"bare-{os.getpid()}")
    box.up("--no-linger", "--journal", "volatile")
    yield box
    box.down()


def test_a_machine_without_a_user_manager(bare: Box) -> None:
    """And then with one that nobody keeps, a journal in memory that drops much, and no session bus."""
    code, found = examine(bare)
    assert code == 6
    assert list(found) == ALL
    bad = {"user manager": "fail", "bus": "warn", "journal": "fail", "journal kept": "warn", "lingering": "warn"}
    unknown = {"cgroups": "warn", "runtime directory": "warn", "setup": "warn", "left over": "warn"}
    assert severities(found, *bad, *unknown) == bad | unknown
    assert "enable-linger" in found["user manager"]["remedy"]
    assert "Storage=persistent" in found["journal kept"]["remedy"]

    drop_in = "/etc/systemd/journald.conf.d/zz.conf"
    bare.root("sh", "-c", f"printf '[Journal]\\nRateLimitIntervalSec=1min\\nRateLimitBurst=600\\n' >{drop_in}")
    bare.root("systemctl", "start", "user@1000.service")
    bare.sh("export XDG_RUNTIME_DIR=/run/user/1000; systemctl --user stop dbus.socket dbus.service")
    code, found = examine(bare)
    assert code == 1, "the journal cannot be read"
    bad = {"user manager": "ok", "bus": "warn", "journal": "fail", "journal rate": "warn", "lingering": "warn"}
    assert severities(found, *bad) == bad
    assert "600 entries of yours in 60 s" in found["journal rate"]["found"]
    assert "no session bus" in found["bus"]["found"]
    # The remedies are true.
    bare.root("sh", "-c", found["journal kept"]["remedy"].removeprefix("as root: "))
    bare.root("sh", "-c", f"rm {drop_in}; " + found["journal rate"]["remedy"].removeprefix("as root: "))
    _, after = examine(bare, fix=True)  # where polkit lets one
    lingers = bare.sh("ls /var/lib/systemd/linger").split() == ["dev"]
    assert (after["lingering"]["severity"], after["lingering"]["fixed"]) == (
        ("ok", True) if lingers else ("warn", False)
    )
    if not lingers:
        bare.root(
            "sh", "-c", found["lingering"]["remedy"].removeprefix("sudo ") + " || test -e /var/lib/systemd/linger/dev"
        )
    good = dict.fromkeys(("journal kept", "journal rate", "lingering"), "ok")
    wait_until("all is well", lambda: severities(examine(bare)[1], *good) == good)


def test_systemds_that_end_lingering_users() -> None:
    for version in ("255", "255.4-1ubuntu8.17", "255.22-1.fc40", "256~rc3", "256.2-1"):
        assert kills_lingering(version)
    for version in ("252.39-1~deb12u2", "254.26", "256.3", "256.10-2", "257.8-1~deb13u2", "258~rc1", "strange"):
        assert not kills_lingering(version)


def test_limits_of_journald() -> None:
    assert limit("") == limit("#RateLimitBurst=5\n") == (10_000, 30.0)
    assert limit("RateLimitBurst=5\n[Journal]\nRateLimitBurst = 7\nRateLimitIntervalSec=2min\n") == (7, 120.0)
    assert limit("RateLimitInterval=0\nRateLimitBurst=x\n") == (10_000, 0.0)
