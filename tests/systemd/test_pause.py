"""pause: nothing of the agent moves, everything else about the session works."""

import json

import pytest
from box import Box, wait_until
from pty_client import Terminal

COUNT = "while sleep .05; do echo count; echo >>~/out; done"


def counted(box: Box) -> int:
    return int(box.sh("stat -c %s ~/out || echo 0"))


def cpu(box: Box, pid: int) -> str:
    """User and system time of a process so far."""
    return " ".join(box.sh(f"cat /proc/{pid}/stat").rpartition(")")[2].split()[11:13])


@pytest.mark.smoke
def test_nothing_moves_until_it_goes_on(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", f"(while :; do :; done) & {COUNT}")
    wait_until("it counts", lambda: counted(box) > 3)
    assert box.kildsvc("pause", name).stdout == f"{name}: paused\n"
    assert box.kildsvc("pause", name).returncode == 0, "paused is paused"
    (spinning,) = [one["pid"] for one in box.json("status", name)["children"] if one["command"].startswith("sh")]
    before, used = counted(box), cpu(box, spinning)
    assert box.json("status", name)["state"] == "paused"
    assert [one["name"] for one in box.json("list", "--state", "paused")] == [name]
    alive = json.loads(box.kildsvc("wait", name, "--timeout", "1s", "--json").stdout)
    assert (alive["status"], alive["reason"]) == ("alive", "timeout")
    assert (counted(box), cpu(box, spinning)) == (before, used)
    refused = box.kildsvc("open", name, "--", "true", check=False)
    assert (refused.returncode, "running already" in refused.stderr) == (1, True)
    for command in (["send", name, "x"], ["attach", name]):
        refused = box.kildsvc(*command, check=False)
        assert refused.returncode in (1, 125)
        assert f"session '{name}' is paused (kildsvc unpause {name})" in refused.stderr
    assert box.kildsvc("unpause", name).stdout == f"{name}: running\n"
    wait_until("it goes on", lambda: counted(box) > before)
    told = box.kildsvc("events", "--json", "--no-follow", "--since", "1 hour ago", name).stdout
    assert [json.loads(line)["event"] for line in told.splitlines()] == ["opened", "ready", "paused", "resumed"]


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["kildsvc", "systemctl"])
def test_a_paused_session_ends_in_order(box: Box, name: str, how: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "trap 'echo saving; exit 3' TERM; while :; do sleep .05; done")
    box.kildsvc("pause", name)
    if how == "kildsvc":
        box.kildsvc("stop", name)
        session = box.json("status", name)
        assert (session["state"], session["exit_code"]) == ("stopped", 3)
    else:
        box.run("systemctl", "--user", "restart", f"kild-{name}")
        assert box.json("status", name)["state"] == "running"
    assert "saving" in box.journal(name)


@pytest.mark.smoke
def test_a_crash_of_the_shim_meanwhile_changes_nothing(box: Box, name: str) -> None:
    """Frozen with its shim, as `systemctl freeze` does it, this would hang the manager of 257."""
    box.kildsvc("open", name, "--", "sh", "-c", COUNT)
    wait_until("it counts", lambda: counted(box) > 3)
    box.kildsvc("pause", name)
    before = counted(box)
    box.crash_shim(name, 2)
    box.run("systemctl", "--user", "daemon-reload")
    box.run("systemctl", "--user", "daemon-reexec")
    wait_until("still paused", lambda: box.json("status", name)["state"] == "paused")
    assert counted(box) == before
    box.kildsvc("unpause", name)
    wait_until("it goes on", lambda: counted(box) > before)
    box.kildsvc("stop", name)
    assert not box.processes(COUNT[:10])


def test_all_killed_while_paused(box: Box, name: str) -> None:
    """The reaper finds what is frozen too."""
    box.kildsvc("open", name, "--", "bash", "-c", "(trap '' TERM HUP; exec sleep 1001) & exec sleep 1000")
    wait_until("both run", lambda: len(box.processes("^sleep 100[01]")) == 2)
    box.kildsvc("pause", name)
    box.sh(f"kill -KILL {box.agent_pid(name)}")
    session = box.wait_ended(name)
    assert (session["state"], session["signal"]) == ("killed", "KILL")
    assert not box.processes("^sleep 100[01]")


def test_what_systemctl_froze(box: Box, name: str) -> None:
    """The shim is frozen too: told as paused, thawed by unpause, by stop, and not waited for."""
    box.kildsvc("open", name, "--", "sh", "-c", COUNT)
    box.run("systemctl", "--user", "freeze", f"kild-{name}")
    assert box.json("status", name)["state"] == "paused"
    for command in (["screen", name], ["send", name, "x"]):
        assert "is paused" in box.kildsvc(*command, check=False).stderr
    box.kildsvc("unpause", name)
    before = counted(box)
    wait_until("it goes on", lambda: counted(box) > before)
    box.run("systemctl", "--user", "freeze", f"kild-{name}")
    box.kildsvc("stop", name)
    assert box.json("status", name)["state"] == "stopped"


def test_someone_attached_sees_nothing_and_can_leave(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", COUNT)
    with Terminal(box.argv(box.kild, "attach", name)) as terminal:
        terminal.read_until(b"count")
        box.kildsvc("pause", name)
        terminal.drain()
        terminal.seen = b""
        terminal.type(b"\0\x11")
        terminal.read_until(b"detached")
        assert terminal.wait() == 0
        assert b"count" not in terminal.seen


def test_who_cannot_be_paused(box: Box, name: str) -> None:
    assert box.kildsvc("pause", "nobody", check=False).returncode == 4
    assert box.kildsvc("pause", "a/b", check=False).returncode == 2
    trial = f"read x; {box.kild} pause {name}-me 2>~/out; echo code $? >>~/out; sleep 1000"
    box.kildsvc("open", f"{name}-me", "--", "sh", "-c", trial)
    box.kildsvc("send", f"{name}-me", "--enter")
    wait_until("it has tried", lambda: "code 2" in box.sh("cat ~/out || :"))
    assert "would be frozen before it is done" in box.sh("cat ~/out")
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.kildsvc("stop", name)
    for verb in ("pause", "unpause"):
        refused = box.kildsvc(verb, f"{name}-me", name, check=False)
        assert (refused.returncode, "is not running" in refused.stderr) == (3, True)
    assert box.json("status", f"{name}-me")["state"] == "running", "a mistake is found before anything is done"
