"""What only a kernel of one's own can show: the cgroup controllers at work, and a clock that jumps."""

import json
import re
import signal
import subprocess

import pytest
from box import Box, wait_until
from pty_client import Terminal

pytestmark = pytest.mark.vm

LONG = 180.0  # seconds; the processor is emulated, and the host may be busy
USER_CGROUP = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"


def test_the_user_manager_has_the_controllers(box: Box) -> None:
    told = box.run("cat", f"{USER_CGROUP}/cgroup.controllers").stdout.split()
    assert {"cpu", "io", "memory", "pids"} <= set(told)


def test_commands_pass_as_into_a_container(box: Box) -> None:
    assert box.run("sh", "-c", "kill -TERM $$", check=False).returncode == -signal.SIGTERM
    done = box.run("sh", "-c", "cat; echo aside >&2; exit 42", check=False, stdin="text\n" * 100_000)
    assert (done.returncode, done.stdout, done.stderr) == (42, "text\n" * 100_000, "aside\n")
    client = box.popen("sh", "-c", "echo started; exec sleep 1234.5", stdout=subprocess.PIPE)
    assert client.stdout and client.stdout.readline() == b"started\n"
    client.kill()
    client.communicate()
    wait_until("the command of a killed client ends", lambda: box.processes("sleep 1234.5") == [], LONG)
    with Terminal(
        box.argv("sh", "-c", "stty size; read line; echo got $line; exit 7"), rows=33, cols=111
    ) as terminal:
        terminal.read_until(b"33 111", LONG)
        terminal.type(b"it\r")
        terminal.read_until(b"got it", LONG)
        assert terminal.wait(LONG) == 7


def test_a_session_is_seen_and_leaves_nothing(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "infinity")
    told = box.json("status", name)
    assert told["state"] == "running"
    assert told["memory"] > 0 and told["tasks"] >= 3, "shim, waiter, agent"
    box.kildsvc("stop", name)
    assert box.processes("sleep infinity") == []
    assert box.sh(f"find {USER_CGROUP} -path '*kild-*'") == ""


# Not before it is told to: the limit comes after it has started.
EAT = "input(); data = b'x' * (200 << 20); input()"


def test_a_session_beyond_its_memory_ends_alone(box: Box, name: str) -> None:
    box.kildsvc("open", "neighbour", "--", "sleep", "infinity")
    box.kildsvc("open", name, "--", "python3", "-c", EAT)
    box.run("systemctl", "--user", "set-property", "--runtime", f"kild-{name}", "MemoryMax=60M")
    waiting = box.popen(box.kild, "wait", "--json", name, stdout=subprocess.PIPE)
    box.kildsvc("send", name, "--enter", "eat")
    out, _ = waiting.communicate(timeout=LONG)
    assert (waiting.returncode, json.loads(out)["status"]) == (128 + 9, "oom")
    told = box.json("status", name)
    assert (told["state"], told["signal"], told["exit_code"]) == ("oom", "KILL", 128 + 9)
    assert "out of memory" in told["cause"]
    assert box.json("status", "neighbour")["state"] == "running"


def test_a_clock_that_jumps_confuses_nobody(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "infinity")
    pid = box.agent_pid(name)
    jumped = 0
    try:
        for days in (-1, 2):
            waiting = box.popen(box.kild, "wait", name, "--timeout", "5", stdout=subprocess.PIPE)
            box.root("date", "--set", f"{days} day")
            jumped += days
            told = box.json("status", name)
            assert (told["state"], told["pid"]) == ("running", pid)
            assert told["duration"] >= 0 and told["idle"] >= 0
            assert re.search(rf"^{name} +running +for \d", box.kildsvc("list").stdout, re.M)
            out, _ = waiting.communicate(timeout=LONG)
            assert b"status=alive" in out and b"reason=timeout" in out
    finally:
        box.root("date", "--set", f"{-jumped} day")
    box.kildsvc("stop", name)
    assert box.json("status", name)["state"] == "stopped"


def test_a_reboot_keeps_the_disk_and_says_what_was_cut_off(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "infinity")
    box.reboot()
    told = box.json("status", name)
    assert told["before_boot"] and told["pid"] is None
