"""At home on a machine: old sessions are forgotten."""

import json
from typing import Any

import pytest
from box import Box, wait_until

OLD = """
import subprocess, sys, kildsvc
def git(*words, cwd): subprocess.run(["git", *words], cwd=cwd, check=True, stdout=subprocess.DEVNULL)
repo = "/home/dev/work/app"
subprocess.run(["mkdir", "-p", repo], check=True)
git("init", "-q", "-b", "main", cwd=repo)
for key in ("name", "email"): git("config", f"user.{key}", "dev", cwd=repo)
git("commit", "-q", "--allow-empty", "-m", "first", cwd=repo)
for name, code in (("zero", 0), ("three", 3), ("busy", 0)):
    kildsvc.open(name, ["sh", "-c", f"exit {code}"], grace=0)
for name in ("runs", "sleeps", "halted", "cut"):
    kildsvc.open(name, ["sleep", "1000"], grace=0)
for name in ("clean", "dirty", "ahead"):
    kildsvc.create(name, ["sh", "-c", "exit 0"], repo=repo, grace=0)
trees = {one.name: one.worktree.path for one in kildsvc.sessions() if one.worktree}
open(trees["dirty"] + "/file", "w").close()
git("commit", "-q", "--allow-empty", "-m", "more", cwd=trees["ahead"])
kildsvc.pause("sleeps")
kildsvc.stop("halted")
subprocess.run(["systemctl", "--user", "stop", "kild-cut"], check=True)
kildsvc.wait("zero", "three", "busy", "clean", "dirty", "ahead")
"""


def gc(box: Box, *arguments: str) -> dict[str, Any]:
    return {one["name"]: one for one in box.json("gc", *arguments)}


def everything(box: Box) -> str:
    return box.sh(
        """systemctl --user list-units --all --plain --no-legend 'kild-*' 'kildkeep-*'
        find $XDG_RUNTIME_DIR/kildsvc ~/.local/state/kildsvc ~/.local/share/kildsvc | sort
        git -C ~/work/app for-each-ref; git -C ~/work/app worktree list"""
    )


def test_what_is_forgotten_and_what_is_not(box: Box) -> None:
    box.python(OLD)
    try:
        before = everything(box)
        assert gc(box) == {}, "nothing is older than thirty days"
        told = gc(box, "--ttl", "0", "--dry-run")
        assert everything(box) == before
        # Somebody is just opening it.
        lock = "exec 9>$XDG_RUNTIME_DIR/kildsvc/.busy.lock; flock 9; "
        done = {one["name"]: one for one in json.loads(box.sh(f"{lock}{box.kild} gc --ttl 0 --json"))}
        forgotten = {"zero", "three", "halted", "clean"}
        assert {name for name, one in done.items() if one["forgotten"]} == forgotten
        assert {name for name, one in told.items() if one["forgotten"]} == forgotten | {"busy"}
        reasons = {name: one["reason"] for name, one in done.items() if not one["forgotten"]}
        assert set(reasons) == {"cut", "dirty", "ahead", "busy"}
        assert "open --all" in reasons["cut"] and "another command" in reasons["busy"]
        assert "1 uncommitted file" in reasons["dirty"] and "1 commit" in reasons["ahead"]

        states = {one["name"]: one["state"] for one in box.json("list")}
        kept = {"runs": "running", "sleeps": "paused", "cut": "stopped"}
        assert states == {**kept, "busy": "exited", "dirty": "exited", "ahead": "exited"}
        left = everything(box)
        assert not [name for name in forgotten if name in left]
        assert all(name in left for name in (*kept, "kild/dirty", "kild/ahead"))
        assert set(gc(box, "--ttl", "never")) == set()
        assert {name for name, one in gc(box, "--ttl", "0").items() if one["forgotten"]} == {"busy"}
    finally:
        box.sh("rm -rf ~/.local/share/kildsvc")


def wanted(box: Box) -> str:
    return box.sh(
        "find ~/.config/systemd ~/.local/state/kildsvc -mindepth 1 2>/dev/null | sort; ls -A ~/.config || :"
    )


@pytest.mark.smoke
def test_setup_and_back(box: Box) -> None:
    box.sh("mkdir -p ~/.config; rm -rf ~/.config/kildsvc ~/.config/systemd; systemctl --user daemon-reload")
    units = "/home/dev/.config/systemd/user"
    before = wanted(box)
    said = box.kildsvc("setup", "--restore").stdout
    try:
        for unit in ("kild.slice", "kildsvc-gc.service", "kildsvc-gc.timer", "kildsvc-restore.service"):
            assert f"wrote '{units}/{unit}'\n" in said
        assert "enabled kildsvc-gc.timer" in said and "started kildsvc-gc.timer" in said
        assert "enabled kildsvc-restore.service" in said and "started kildsvc-restore" not in said
        assert "notify.service:" not in said
        states = ["is-enabled kildsvc-gc.timer", "is-enabled kildsvc-restore", "is-active kildsvc-gc.timer"]
        asked = "; ".join(
            [
                f"systemd-analyze --user --man=no verify {units}/kild* 2>&1",
                *(f"systemctl --user {one}" for one in states),
            ]
        )
        assert box.sh(asked).split() == ["enabled", "enabled", "active"]
        assert box.kildsvc("setup").stdout == "everything is set up\n"
        # What it runs is this kildsvc, and it works there.
        box.sh(
            """$1 open old --grace 0 -- true; $1 wait old
            mkdir -p ~/.config/kildsvc; echo 'ttl = "0s"' >~/.config/kildsvc/config.toml
            systemctl --user start kildsvc-gc.service""",
            box.kild,
        )
        assert box.json("list") == []
        # The user's own change stays; the rest goes.
        box.sh(f"echo '# mine' >>{units}/kildsvc-gc.timer; rm {units}/kild.slice")
        said = box.kildsvc("setup").stdout
        assert f"kept '{units}/kildsvc-gc.timer'" in said and f"wrote '{units}/kild.slice'" in said
        box.sh(f"cd {units}; touch other.service; sed -i '/# mine/d' *.timer; echo '# mine' >>kildsvc-gc.service")
    finally:
        said = box.kildsvc("setup", "--remove").stdout
        left = box.sh(f"cd {units}; ls; rm -f other.service kildsvc-gc.service; rm -rf ~/.config/kildsvc")
    assert left.split() == ["kildsvc-gc.service", "other.service"]
    assert "disabled kildsvc-gc.timer" in said and f"kept '{units}/kildsvc-gc.service': it was changed" in said
    box.sh(
        f"rmdir -p {units} 2>/dev/null || :; mkdir -p ~/.config; cd ~/.local/state/kildsvc; rm -rf sessions output"
    )
    assert wanted(box) == before
    assert box.sh("systemctl --user is-active kildsvc-gc.timer || :") == "inactive\n"
    assert box.kildsvc("setup", "--remove").stdout == "nothing was set up\n"


def test_what_was_running_comes_back(box: Box) -> None:
    """With units that a package has installed for everybody: they are enabled, and that is all."""
    shipped = box.python("from kildsvc.operations.setup import SHIPPED; print(SHIPPED)").strip()
    place = "/usr/local/lib/systemd/user"
    box.root(
        "sh", "-c", f"mkdir -p {place}; cp {shipped}/* {place}; sed -i 's:/usr/bin/kildsvc:{box.kild}:' {place}/*"
    )
    try:
        said = box.kildsvc("setup", "--restore").stdout.splitlines()
        assert [line.split()[0] for line in said] == ["enabled", "started", "enabled"]
        box.python(
            "import kildsvc\n"
            "for name in ('goes-on', 'was-stopped'): kildsvc.open(name, ['sleep', '1000'], grace=0)\n"
            "kildsvc.open('is-over', ['true'], grace=0); kildsvc.stop('was-stopped')"
        )
        box.restart_manager()
        wait_until(
            "it has been restored", lambda: box.sh("systemctl --user is-active kildsvc-restore || :") == "active\n"
        )
        states = {one["name"]: one["state"] for one in box.json("list")}
        assert states == {"goes-on": "running", "is-over": "exited", "was-stopped": "stopped"}
        assert (
            box.kildsvc("setup", "--remove").stdout == "disabled kildsvc-gc.timer\ndisabled kildsvc-restore.service\n"
        )
    finally:
        box.root("rm", "-r", place)
        box.sh("rm -rf ~/.config/systemd; systemctl --user daemon-reload")
