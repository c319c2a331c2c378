"""The shim may die at any moment: the agent goes on, no byte and no exit code is lost, nothing starts twice."""

from pathlib import Path

import pytest
from box import Box, wait_until

# Counts aloud; each line is one the terminal must not lose.
COUNT = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo line $i; {pause} done; exit {code}"


@pytest.mark.smoke
@pytest.mark.parametrize("end", ["exit 7", "kill -SEGV $$", "kill -KILL $$", "kill -TERM $$", "kill -HUP $$"])
def test_the_end_after_a_crash_is_told_right(box: Box, name: str, end: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", f"until [ -e ~/out ]; do sleep .05; done; {end}")
    pid = box.agent_pid(name)
    box.crash_shim(name)
    session = box.json("status", name)
    assert (session["state"], session["pid"]) == ("running", pid)
    box.sh("touch ~/out")
    session = box.wait_ended(name)
    if end.startswith("exit"):
        assert (session["state"], session["exit_code"]) == ("exited", 7)
    else:
        assert (session["state"], session["signal"]) == ("killed", end.split("-")[1].split()[0])


def test_the_agent_ends_inside_the_gap(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    # One command line, so that both are dead before systemd can start anything.
    box.sh(f"kill -STOP {box.shim_pid(name)}; kill -INT {box.agent_pid(name)}; kill -KILL {box.shim_pid(name)}")
    session = box.wait_ended(name)
    assert (session["state"], session["signal"]) == ("killed", "INT")


def test_killed_ten_times_no_line_is_lost(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", COUNT.format(n=800, pause="sleep .01;", code=9))
    box.crash_shim(name, 10)
    session = box.wait_ended(name, 60)
    assert session["exit_code"] == 9
    expected = [f"line {i}" for i in range(1, 801)]
    assert box.kildsvc("logs", name).stdout.splitlines() == expected
    assert box.kildsvc("logs", name, "--raw").stdout == "".join(f"{line}\r\n" for line in expected)


def test_killed_in_a_flood_no_byte_is_lost(box: Box, name: str) -> None:
    # Half a megabyte: within the ring, so that nothing may be missing.
    box.kildsvc("open", name, "--", "bash", "-c", "for i in {1..100}; do seq 1000; sleep .02; done; exit 4")
    box.crash_shim(name, 8)
    assert box.wait_ended(name)["exit_code"] == 4
    assert box.kildsvc("logs", name, "--raw").stdout == "".join(f"{n}\r\n" for n in range(1, 1001)) * 100


def test_killed_while_starting(box: Box, name: str) -> None:
    opener = box.popen(box.kild, "open", name, "--grace", "2s", "--", "sleep", "1000")
    first = wait_until("the agent is there", lambda: box.processes("^sleep 1000"))
    kill_shim_now = f"kill -KILL $(systemctl --user show -P MainPID kild-{name})"
    box.sh(kill_shim_now)
    assert opener.wait(30) == 0
    assert box.processes("^sleep 1000") == first
    assert box.agent_pid(name) == first[0]


def test_killed_while_stopping(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "trap 'sleep 2; exit 3' TERM; while :; do sleep .1; done")
    box.sh(
        """systemctl --user stop --no-block $1
        until [ $(systemctl --user show -P ActiveState $1) = deactivating ]; do :; done
        kill -KILL $(systemctl --user show -P MainPID $1)""",
        f"kild-{name}",
    )
    # systemd does not start it again then: the reaper must end the agent, also when nobody of ours is there.
    assert box.wait_ended(name)["state"] == "unobserved"
    assert box.processes("trap 'sleep 2") == []


def test_all_killed_together_is_unobserved(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "echo started >>~/out; sleep 1000")
    box.run("systemctl", "--user", "kill", "-s", "KILL", f"kild-{name}")
    session = box.wait_ended(name)
    assert (session["state"], session["exit_code"], session["signal"]) == ("unobserved", None, None)
    assert box.sh("cat ~/out") == "started\n"


def test_the_waiter_is_killed_the_agent_lives(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    shim, agent = box.shim_pid(name), box.agent_pid(name)
    waiter = box.sh(f"ps -o ppid= -p {agent}").strip()
    assert box.sh(f"ps -o ppid= -p {waiter}").strip() == str(shim)
    box.run("kill", "-KILL", waiter)
    wait_until("it is noted", lambda: "the waiter was killed" in box.journal(name))
    assert box.json("status", name)["state"] == "running"
    box.run("kill", "-TERM", str(agent))
    assert box.wait_ended(name)["state"] == "unobserved"


def test_signals_to_shim_and_waiter_are_ignored(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    shim, agent = box.shim_pid(name), box.agent_pid(name)
    waiter = box.sh(f"ps -o ppid= -p {agent}").strip()
    for signal in ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "PIPE", "WINCH"]:
        box.run("kill", f"-{signal}", str(shim), waiter)
    box.run("kill", "-TERM", waiter)
    assert box.shim_pid(name) == shim
    assert box.json("status", name)["state"] == "running"
    box.run("kill", "-KILL", str(agent))
    assert box.wait_ended(name)["signal"] == "KILL"


def test_the_package_is_removed_while_a_session_runs(box: Box, name: str) -> None:
    """An upgrade or removal of kildsvc: neither the session nor its recovery needs the installed files."""
    box.kildsvc("open", name, "--", "bash", "-c", "until [ -e ~/out ]; do sleep .05; done; exit 7")
    # The overlay is the machine's own: the installed package is hidden behind an empty directory.
    python = str(Path(box.kild).with_name("python"))
    package = box.run(python, "-c", "import kildsvc; print(kildsvc.__path__[0])").stdout.strip()
    box.root("mount", "-t", "tmpfs", "none", package)
    try:
        assert box.kildsvc("list", check=False).returncode != 0
        shim = box.shim_pid(name)
        box.run("kill", "-KILL", str(shim))
        wait_until("another shim", lambda: box.shim_pid(name) not in (0, shim))
        box.sh("touch ~/out")
        wait_until("it ends", lambda: box.show(name, "ActiveState")["ActiveState"] == "failed")
        assert box.show(name, "StatusText")["StatusText"] == "ended: exit 7"
    finally:
        box.root("umount", package)
    assert box.json("status", name)["exit_code"] == 7


def test_reload_and_reexec_of_the_manager(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", COUNT.format(n=500, pause="sleep .01;", code=6))
    shim = box.shim_pid(name)
    box.run("systemctl", "--user", "daemon-reload")
    box.run("systemctl", "--user", "daemon-reexec")
    box.root("systemctl", "daemon-reexec")
    assert box.shim_pid(name) == shim
    # What systemd kept for the shim has survived as well.
    box.crash_shim(name)
    assert box.wait_ended(name)["exit_code"] == 6
    assert box.kildsvc("logs", name).stdout.splitlines() == [f"line {i}" for i in range(1, 501)]


def test_journald_is_restarted_and_killed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", COUNT.format(n=300, pause="sleep .01;", code=6))
    box.root("systemctl", "restart", "systemd-journald")
    box.root("systemctl", "kill", "-s", "KILL", "systemd-journald")
    assert box.wait_ended(name)["exit_code"] == 6
    assert box.kildsvc("logs", name).stdout.splitlines() == [f"line {i}" for i in range(1, 301)]


def test_systemctl_restart_is_a_new_run(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "echo started; sleep 1000")
    before = box.json("status", name)
    box.run("systemctl", "--user", "restart", f"kild-{name}")
    after = box.json("status", name)
    assert after["state"] == "running"
    assert after["pid"] != before["pid"]
    assert after["run"] == f"{before['run']}.2"
    assert box.kildsvc("logs", name, "--run", before["run"]).stdout == "started\n"
    assert wait_until("output", lambda: box.kildsvc("logs", name).stdout) == "started\n"
    assert not box.kildsvc("stop", name).stderr


BROKEN = """
cp -r $(dirname $(dirname $1))/lib/python3*/site-packages/kildsvc ~/broken/
cat >>~/broken/kildsvc/shim/text.py <<'END'
_feed = Cleaner.feed
def _broken(self, data, final=False):
    if b"Boom" in data:
        raise IndexError("list index out of range")
    return _feed(self, data, final)
Cleaner.feed = _broken
END
"""


def test_a_mistake_in_reading_the_output_costs_no_session(box: Box, name: str) -> None:
    """What makes readable lines of output fails. The agent does not notice, nor does who reads the bytes."""
    box.sh("mkdir ~/broken;" + BROKEN, box.kild)
    agent = "echo before; read; echo Boom; read; echo after; read; exit 6"
    box.run("env", "PYTHONPATH=/home/dev/broken", box.kild, "open", name, "--", "bash", "-c", agent)
    for word in ("before", "Boom", "after"):
        wait_until(word, lambda word=word: word in box.kildsvc("logs", name, "--raw").stdout)  # type: ignore[misc]
        box.kildsvc("send", name, "--enter")
    session = box.wait_ended(name)
    assert (session["state"], session["exit_code"]) == ("exited", 6)
    assert box.show(name, "NRestarts") == {"NRestarts": "0"}
    assert "only in `logs --raw`, our mistake: IndexError" in box.journal(name)
    assert box.kildsvc("logs", name).stdout.splitlines()[0] == "before"
    assert "after" in box.kildsvc("logs", name).stdout
