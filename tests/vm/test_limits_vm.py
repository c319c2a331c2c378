"""Limits at work, which takes a kernel that has the controllers."""

import json

import pytest
from box import Box, wait_until

pytestmark = pytest.mark.vm

GROUP = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/kild.slice"
FILE = "/home/dev/.config/kildsvc/config.toml"
EAT = "python3 -SIc 'x = bytearray(100 << 20)'"


def test_out_of_memory(box: Box, name: str) -> None:
    """The session alone ends; one that has ended before it was up is told of; a child's end is only told."""
    early = box.kildsvc(
        "open", name, "--memory", "40M", "--grace", "5m", "--", "sh", "-c", f"exec {EAT}", check=False
    )
    assert (early.returncode, "out of memory: limit 40M, peak 40M" in early.stderr) == (5, True), early.stderr
    box.kildsvc("open", f"{name}-other", "--", "sleep", "1000")
    meals = f"for i in 1 2; do {EAT}; echo code $?; read x; done; exec {EAT}"
    box.kildsvc("open", name, "--memory", "40M", "--swap", "0", "--", "sh", "-c", meals)

    def printed(code: int) -> bool:
        return f"code {code}" in box.kildsvc("logs", name).stdout

    wait_until("the child was killed", lambda: printed(137), 120)
    session = wait_until("it is told", lambda: (one := box.json("status", name))["oom_kills"] and one, 60)
    assert (session["state"], session["oom_kills"], session["limits"]["swap"]) == ("running", 1, 0)
    assert 39 << 20 < session["memory_peak"] <= session["limits"]["memory"] == 40 << 20
    shown = box.kildsvc("status", name).stdout
    assert "1 process was killed for want of memory" in shown
    assert "of 40M (peak 40M)" in shown
    # A running one is given more, and has it taken away again.
    assert "400M" in box.kildsvc("limit", name, "--memory", "400M").stdout
    box.kildsvc("send", name, "--enter")
    wait_until("the next child had enough", lambda: printed(0), 120)
    box.kildsvc("limit", name, "--memory", "40M")
    box.kildsvc("send", name, "--enter")
    assert box.kildsvc("wait", name, check=False).returncode == 137
    session = box.json("status", name)
    assert (session["state"], session["cause"].startswith("out of memory: limit 40M, peak 1")) == ("oom", True)
    assert box.json("status", f"{name}-other")["state"] == "running"
    told = box.kildsvc("events", "--json", "--no-follow", "--since", "1 hour ago", name).stdout
    events = [json.loads(line)["event"] for line in told.splitlines()]
    assert events.count("oom") == 1
    box.kildsvc("limit", f"{name}-other", "--memory", "300M")
    box.kildsvc("stop", f"{name}-other")
    box.kildsvc("open", f"{name}-other")
    assert box.json("status", f"{name}-other")["limits"]["memory"] == 300 << 20, "remembered"


def test_cpu_tasks_and_all_sessions_together(box: Box, name: str) -> None:
    settings = '[slice]\nmemory = "80%"\ntasks = 300\n[agents.bash.limits]\ncpu_weight = 30\n'
    box.sh('mkdir -p ~/.config/kildsvc; printf %s "$1" >$2', settings, FILE)
    try:
        spin = "(for i in $(seq 30); do sleep 1000 & done); echo forked $?; while :; do :; done"
        options = ["--cpu", "20%", "--tasks", "12", "--io-weight", "60", "--memory-high", "300M"]
        box.kildsvc("open", name, *options, "--", "sh", "-c", spin)
        box.kildsvc("open", f"{name}-b", "--", "bash", "-c", "sleep 1000")
    finally:
        box.sh("rm $1", FILE)
    found = box.json("status", name)["limits"]
    assert (found["cpu"], found["tasks"], found["io_weight"], found["memory_high"]) == (20, 12, 60, 300 << 20)
    assert box.json("status", f"{name}-b")["limits"]["cpu_weight"] == 30
    total = int(box.sh("awk '/MemTotal/ {print $2}' /proc/meminfo")) * 1024
    assert box.sh(f"cat {GROUP}/pids.max").strip() == "300"
    assert 0.75 * total < int(box.sh(f"cat {GROUP}/memory.max")) < 0.82 * total
    wait_until("a fork has failed", lambda: "forked 2" in box.kildsvc("logs", name).stdout, 120)
    assert "at most 20%" in box.kildsvc("status", name).stdout

    def throttled() -> bool:
        text = box.sh(f"cat {GROUP}/kild-{name}.service/cpu.stat")
        numbers = dict(line.split() for line in text.splitlines())
        return int(numbers["nr_throttled"]) > 10

    wait_until("it is held back", throttled, 120)
    assert "--tasks: it has more than that now" in box.kildsvc("limit", name, "--tasks", "2").stderr
    shown = box.kildsvc("limit", name, "--cpu", "infinity", "--tasks", "100").stdout
    assert [line.split()[1] for line in shown.splitlines() if line.split()[0] in ("cpu", "tasks")] == ["none", "100"]
    box.kildsvc("pause", name)
    assert box.json("status", name)["state"] == "paused", "also in a group with controllers"


def test_the_doctor_finds_the_controllers(box: Box) -> None:
    found = {one["name"]: one for one in box.json("doctor")["checks"]}
    assert found["cgroups"]["severity"] == "ok"
    assert all(name in found["cgroups"]["found"] for name in ("cpu", "io", "memory", "pids"))
