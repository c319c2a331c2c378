"""Limits where the kernel has none of the controllers: what needs none works, the rest is never a silent no-op."""

import json

import pytest
from box import Box, wait_until

FILE = "/home/dev/.config/kildsvc/config.toml"
OBEYS = "trap 'exit 0' TERM; while :; do sleep .05; done"


@pytest.mark.smoke
def test_time_that_is_over(box: Box, name: str) -> None:
    """Also that of a paused agent, and of one that obeys with code 0: neither stopped nor a success."""
    box.kildsvc("open", f"{name}-b", "--runtime", "8s", "--", "sleep", "1000")
    box.kildsvc("pause", f"{name}-b")
    box.kildsvc("open", f"{name}-a", "--runtime", "2s", "--", "bash", "-c", OBEYS)
    assert box.kildsvc("wait", f"{name}-a", check=False).returncode == 124
    for which, code in (("a", 0), ("b", 143)):
        session = box.wait_ended(f"{name}-{which}")
        assert (session["state"], session["exit_code"]) == ("timeout", code)
        assert "its time was over" in session["cause"]
        shown = box.show(f"{name}-{which}", "Result", "RuntimeMaxUSec")
        assert shown == {"Result": "timeout", "RuntimeMaxUSec": "2s" if which == "a" else "8s"}
    assert not box.processes("^sleep 1000")
    # The journal alone tells the same.
    told = box.kildsvc("events", "--json", "--no-follow", "--since", "1 hour ago", f"{name}-a").stdout
    assert [json.loads(line)["status"] for line in told.splitlines()][-1] == "timeout"


def test_a_crash_of_the_shim_gives_no_more_time(box: Box, name: str) -> None:
    """systemd counts anew from a restart: ten crashes would be ten times the time."""
    box.kildsvc("open", name, "--runtime", "12s", "--", "bash", "-c", OBEYS)
    assert box.json("status", name)["limits"]["runtime"] == 12
    started = float(box.sh("cut -d' ' -f1 /proc/uptime"))
    wait_until("most of it is over", lambda: float(box.sh("cut -d' ' -f1 /proc/uptime")) > started + 6)
    box.crash_shim(name)
    crashed = float(box.sh("cut -d' ' -f1 /proc/uptime"))
    box.kildsvc("wait", name, check=False)
    assert float(box.sh("cut -d' ' -f1 /proc/uptime")) < crashed + 10
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("timeout", 0)


def test_a_stop_in_time_is_a_stop(box: Box, name: str) -> None:
    """Though its time is over before it has ended."""
    slow = "trap 'sleep 8; exit 3' TERM; echo up; while :; do sleep .05; done"
    box.kildsvc("open", name, "--runtime", "6s", "--", "bash", "-c", slow)
    box.kildsvc("stop", name)
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("stopped", 3)


def test_what_the_agent_alone_is_given(box: Box, name: str) -> None:
    """Niceness and open files: the shim keeps its own. Remembered, and of the configuration."""
    settings = "[limits]\nnofile = 300\n[agents.bash.limits]\nnice = 3\n"
    box.sh('mkdir -p ~/.config/kildsvc; printf %s "$1" >$2', settings, FILE)
    try:
        box.kildsvc("open", name, "--nofile", "100", "--", "bash", "-c", "ulimit -Sn; ulimit -Hn; nice; sleep 1000")
        found = box.json("status", name)["limits"]
        assert (found["nofile"], found["nice"], found["runtime"]) == (100, 3, None)
        wait_until("it has said so", lambda: box.kildsvc("logs", name).stdout.split() == ["100", "100", "3"])
        shim = box.shim_pid(name)
        assert "100 " not in box.sh(f"grep 'open files' /proc/{shim}/limits")
        box.kildsvc("stop", name)
        box.kildsvc("open", name, "--nice", "infinity")
        found = box.json("status", name)["limits"]
        assert (found["nofile"], found["nice"]) == (100, 0)
        box.kildsvc("stop", name)
        box.kildsvc("open", name, "--", "sleep", "1000")
        found = box.json("status", name)["limits"]
        assert (found["nofile"], found["nice"]) == (300, 0), "another command does not inherit them"
    finally:
        box.sh("rm $1", FILE)


def test_too_much(box: Box, name: str) -> None:
    for option, why in (
        (["--nofile", "99999999"], "--nofile 99999999 is above the hard limit of"),
        (["--nice", "-1"], "below 0 is for root"),
        (["--memory", "4X"], "'4X' is not a size such as 512M or 4G"),
    ):
        refused = box.kildsvc("open", name, *option, "--", "sleep", "1000", check=False)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert why in refused.stderr
    assert box.json("list") == []


def test_without_its_controller(box: Box, name: str) -> None:
    refused = box.kildsvc("open", name, "--memory", "64M", "--", "sleep", "1000", check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "--memory would have no effect: there is no 'memory' controller here" in refused.stderr
    assert "--best-effort" in refused.stderr
    assert box.json("list") == []
    done = box.kildsvc("open", name, "--memory", "64M", "--tasks", "50", "--best-effort", "--", "sleep", "1000")
    assert "--memory has no effect" in done.stderr
    assert "--tasks has no effect" in done.stderr
    assert box.json("status", name)["limits"]["memory"] is None
    assert box.show(name, "MemoryMax")["MemoryMax"] == "infinity"
    refused = box.kildsvc("limit", name, "--cpu", "50%", check=False)
    assert (refused.returncode, "--cpu would have no effect" in refused.stderr) == (1, True)
    assert "--cpu has no effect" in box.kildsvc("limit", name, "--cpu", "50%", "--best-effort").stderr


def test_of_the_configuration_without_its_controller(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/.config/kildsvc")
    try:
        for table in ("limits", "agents.sleep.limits", "slice"):
            box.sh("printf '[%s]\\nmemory = \"50%%\"\\n' $1 >$2", table, FILE)
            refused = box.kildsvc("open", name, "--", "sleep", "1000", check=False)
            assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
            assert f"{FILE}:2: the limit 'memory' would have no effect" in refused.stderr
        assert box.json("list") == []
        box.kildsvc("open", name, "--best-effort", "--", "sleep", "1000")
    finally:
        box.sh("rm $1", FILE)


def test_limit(box: Box, name: str) -> None:
    assert box.kildsvc("limit", "nobody", check=False).returncode == 4
    box.kildsvc("open", name, "--nice", "4", "--", "sleep", "1000")
    shown = box.kildsvc("limit", name).stdout
    assert [line.split()[:2] for line in shown.splitlines() if "nice" in line] == [["nice", "4"]]
    for option in ("nice", "nofile", "runtime"):
        refused = box.kildsvc("limit", name, f"--{option}", "10", check=False)
        assert (refused.returncode, f"--{option} cannot be changed while" in refused.stderr) == (2, True)
    box.kildsvc("stop", name)
    assert box.kildsvc("limit", name, check=False).returncode == 3
