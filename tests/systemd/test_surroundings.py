"""Machines that are not as one would like: a volatile journal, no journald, root's own manager, a full disk."""

import os
from collections.abc import Iterator

import pytest
from box import Box, wait_until


@pytest.fixture(scope="module")
def volatile() -> Iterator[Box]:
    """Its journal belongs to root and to memory: the user cannot read it."""
    box = Box(f"volatile-{os.getpid()}")
    box.up("--journal", "volatile")
    yield box
    box.down()


def test_a_journal_one_may_not_read(volatile: Box, name: str) -> None:
    done = volatile.kildsvc("open", name, "--", "sh", "-c", "echo last words; exit 3", check=False)
    assert done.returncode == 5
    assert done.stderr.splitlines()[1:] == ["  │ last words"]
    volatile.kildsvc("open", name, "--", "sh", "-c", "sleep .4; echo some output; exit 4")
    assert volatile.wait_ended(name)["exit_code"] == 4
    logs = volatile.kildsvc("logs", name)
    assert "some output" in logs.stdout
    assert logs.stderr.count("\n") == 1
    assert "systemd-journald" in logs.stderr
    # Once systemd has forgotten it, nobody can know: this is said, and no exit code made up.
    volatile.restart_manager()
    session = volatile.json("status", name)
    assert (session["state"], session["exit_code"]) == ("lost", None)
    assert "journal cannot be read" in session["cause"]


def test_without_journald(box: Box, name: str) -> None:
    units = ["systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket"]
    box.root("systemctl", "stop", *units)
    try:
        agent = "echo unheard; until [ -e ~/out ]; do sleep .05; done; echo bye; exit 3"
        box.kildsvc("open", name, "--", "sh", "-c", agent)
        assert box.json("status", name)["state"] == "running"
        failed = box.kildsvc("open", f"{name}-2", "--", "sh", "-c", "echo last words; exit 5", check=False)
        assert failed.returncode == 5
        assert "last words" in failed.stderr
    finally:
        box.root("systemctl", "start", *units)
    box.sh("touch ~/out")
    assert box.wait_ended(name)["exit_code"] == 3
    # What journald missed was kept for it.
    assert box.kildsvc("logs", name).stdout == "unheard\nbye\n"


def test_root_has_sessions_too(box: Box, name: str) -> None:
    box.root("systemctl", "start", "user@0.service")
    try:
        root = ("env", "XDG_RUNTIME_DIR=/run/user/0", box.kild)
        box.root(*root, "open", name, "--", "sh", "-c", "sleep .4; echo I am root; exit 6")
        wait_until("it has ended", lambda: "exited (6)" in box.root(*root, "list").stdout)
        assert box.root(*root, "logs", name).stdout == "I am root\n"
        early = box.root(*root, "open", f"{name}-2", "--", "sh", "-c", "echo why; exit 7", check=False)
        assert (early.returncode, "why" in early.stderr) == (5, True)
        box.root(*root, "destroy", name)
        assert box.json("list") == []
    finally:
        box.root("systemctl", "stop", "user@0.service")


@pytest.mark.parametrize("place", ["/run/user/1000/kildsvc", "/home/dev/.local/state"])
def test_a_full_disk(box: Box, name: str, place: str) -> None:
    box.run("mkdir", "-p", place)
    box.root("mount", "-t", "tmpfs", "-o", "size=16k,uid=1000,mode=700", "none", place)
    try:
        box.sh(f"cat /dev/zero >{place}/full", check=False)
        done = box.kildsvc("open", name, "--", "sleep", "1000", check=False)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert done.stderr.count("\n") == 1
        assert not box.processes("^sleep 1000")
    finally:
        box.root("umount", place)
    assert box.kildsvc("status", name, check=False).returncode == 4


def test_the_disk_is_full_when_the_agent_is_up(box: Box, name: str) -> None:
    """That it is up is written down all the same, for the time when its shim is started again."""
    place = "/run/user/1000/kildsvc"
    box.run("mkdir", "-p", place)
    box.root("mount", "-t", "tmpfs", "-o", "size=4M,uid=1000,mode=700", "none", place)
    try:
        box.kildsvc("open", name, "--", "sh", "-c", f"cat /dev/zero >{place}/full; exec sleep 1000")
        assert int(box.run("cat", f"{place}/{name}/ready").stdout) == box.agent_pid(name)
        box.kildsvc("stop", name)
    finally:
        box.root("umount", place)
