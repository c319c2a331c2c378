"""wait: the same true answer for everybody, whenever they come; and nothing else happens because of it."""

import json
import re
import subprocess
from collections.abc import Callable

import pytest
from box import Box, wait_until

UNTIL_TOLD = "until [ -e ~/out ]; do sleep .05; done; "


def end_by_itself(box: Box, name: str) -> None:
    box.sh("touch ~/out")


def kill_agent(box: Box, name: str) -> None:
    box.run("kill", "-KILL", str(box.agent_pid(name)))


def stop(box: Box, name: str) -> None:
    box.kildsvc("stop", name)


def cut_off(box: Box, name: str) -> None:
    box.cut_off()


# How it ends: the agent, what is done to it, and what a wait says: status, exit code in the line, own exit code.
ENDS: dict[str, tuple[str, Callable[[Box, str], None], str, str, int]] = {
    "done-ok": (UNTIL_TOLD + "exit 0", end_by_itself, "exited", "0", 0),
    "done-fail": (UNTIL_TOLD + "exit 42", end_by_itself, "exited", "42", 42),
    "killed": (UNTIL_TOLD, kill_agent, "killed", "137", 137),
    "stopped": (UNTIL_TOLD, stop, "stopped", "143", 143),
    "stopped-in-order": ("trap 'exit 3' TERM; " + UNTIL_TOLD, stop, "stopped", "3", 3),
    "cut-off": (UNTIL_TOLD, cut_off, "dead", "", 124),
}


def start_waiters(box: Box, name: str, count: int) -> subprocess.Popen[bytes]:
    """So many at once, one process each; the machine's own shell starts them, to be quick."""
    loop = "for i in $(seq $3); do (timeout 60 $1 wait $2; echo code=$?) & done; wait"
    return box.popen("bash", "-c", loop, "bash", box.kild, name, str(count), stdout=subprocess.PIPE)


def listening(box: Box) -> int:
    """Waiters that run and are past their imports: asyncio has made its epoll."""
    out = box.sh(
        "for p in $(pgrep -f 'kildsvc wai[t]'); do ls -l /proc/$p/fd 2>/dev/null | grep -c eventpoll; done || :"
    )
    return out.split().count("1")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
@pytest.mark.parametrize("end", ENDS)
def test_every_end_is_told_right(box: Box, name: str, end: str, moment: str, count: int) -> None:
    script, bring_about, status, code, exit_code = ENDS[end]
    if moment == "during":  # the waiters start while the agent ends
        waiters = box.popen(
            "bash",
            "-c",
            "until [ -e ~/go ]; do sleep .02; done; "
            "for i in $(seq $3); do (timeout 60 $1 wait $2; echo code=$?) & done; wait; rm ~/go",
            "bash",
            box.kild,
            name,
            str(count),
            stdout=subprocess.PIPE,
        )
    box.kildsvc("open", name, "--", "bash", "-c", script)
    if moment == "before":
        waiters = start_waiters(box, name, count)
        wait_until("all wait", lambda: listening(box) >= count)
    if moment == "during":
        box.sh("touch ~/go")
    bring_about(box, name)
    if moment == "after":
        box.wait_ended(name)
        waiters = start_waiters(box, name, count)
    out = waiters.communicate(timeout=90)[0].decode()
    line = rf"KILD:WAIT name={name} status={status} exit_code={code} reason=exit( signal=\w+)?"
    lines = out.splitlines()
    assert len([one for one in lines if re.fullmatch(line, one)]) == count, out
    assert lines.count(f"code={exit_code}") == count, out
    assert len(lines) == 2 * count


@pytest.mark.smoke
def test_the_time_is_over_and_it_lives(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    done = box.kildsvc("wait", name, "--timeout", "300ms")
    assert done.stdout == f"KILD:WAIT name={name} status=alive exit_code= reason=timeout\n"
    again = re.search(r"kildsvc (wait .*)\n", done.stderr)
    assert again and again[1] == f"wait {name} --timeout 0.3s"
    assert box.json("wait", name, "--timeout", "1ms")["hint"] == f"kildsvc wait {name} --timeout 0.001s"
    assert box.json("status", name)["state"] == "running"


@pytest.mark.smoke
def test_in_the_first_milliseconds(box: Box, name: str) -> None:
    """Beside an open that is under way, a wait never takes the last run, or nothing, for the end."""
    for i in range(8):
        script = """$1 open $2 --grace 1ms -- sh -c 'sleep .6; exit 9' >/dev/null & opener=$!
            until [ -e $XDG_RUNTIME_DIR/kildsvc/.$2.lock ]; do :; done
            $1 wait $2; echo $?; wait $opener"""
        out = box.sh(script, box.kild, name)
        assert out == f"KILD:WAIT name={name} status=exited exit_code=9 reason=exit\n9\n", f"round {i}"


def test_reload_reexec_bus_and_shim(box: Box, name: str) -> None:
    """Whatever happens beside the session, a wait for it goes on."""
    box.kildsvc("open", name, "--", "bash", "-c", UNTIL_TOLD + "exit 7")
    waiters = start_waiters(box, name, 3)
    wait_until("all wait", lambda: listening(box) >= 3)
    box.run("systemctl", "--user", "daemon-reload")
    box.crash_shim(name)
    box.run("systemctl", "--user", "restart", "dbus.service")
    box.run("systemctl", "--user", "daemon-reexec")
    box.run("systemctl", "--user", "daemon-reload")
    box.root("systemctl", "restart", "systemd-journald")
    assert waiters.poll() is None
    box.sh("touch ~/out")
    out = waiters.communicate(timeout=60)[0].decode()
    assert out.count("status=exited exit_code=7") == 3
    assert out.count("code=7\n") == 3


def test_without_a_session_bus(box: Box, name: str) -> None:
    box.run("systemctl", "--user", "stop", "dbus.socket", "dbus.service")
    try:
        box.kildsvc("open", name, "--", "sh", "-c", "sleep 1; exit 5")
        assert box.kildsvc("wait", name, check=False).returncode == 5
    finally:
        box.run("systemctl", "--user", "start", "dbus.socket")


def test_a_killed_waiter_touches_nothing(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", UNTIL_TOLD + "exit 4")
    waiters = start_waiters(box, name, 5)
    wait_until("all wait", lambda: listening(box) >= 5)
    box.sh("pkill -KILL -f 'kildsvc wai[t]'")
    waiters.communicate(timeout=30)
    assert box.json("status", name)["state"] == "running"
    box.sh("touch ~/out")
    assert box.kildsvc("wait", name, check=False).returncode == 4


def test_forgotten_while_waited_for(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    waiters = start_waiters(box, name, 3)
    wait_until("all wait", lambda: listening(box) >= 3)
    box.kildsvc("destroy", "--force", name)
    out = waiters.communicate(timeout=60)[0].decode()
    assert out.count("status=stopped exit_code=143") == 3, out


def test_run_again_while_waited_for(box: Box, name: str) -> None:
    """The wait is for the run that was there, not for the name."""
    box.kildsvc("open", name, "--", "sh", "-c", "echo started; sleep 1000")
    waiters = start_waiters(box, name, 3)
    wait_until("all wait", lambda: listening(box) >= 3)
    box.run("systemctl", "--user", "restart", f"kild-{name}")
    out = waiters.communicate(timeout=60)[0].decode()
    assert out.count("status=stopped exit_code=143") == 3, out
    assert box.json("status", name)["state"] == "running"


def test_the_manager_stays_away(box: Box, name: str) -> None:
    """Logged out: nobody is left to ask, but the journal has the end."""
    box.kildsvc("open", name, "--", "sleep", "1000")
    waiters = start_waiters(box, name, 3)
    wait_until("all wait", lambda: listening(box) >= 3)
    box.root("systemctl", "stop", "user@1000.service")
    try:
        out = waiters.communicate(timeout=50)[0].decode()
        assert out.count("status=stopped exit_code=143") == 3, out
    finally:
        box.root("systemctl", "start", "user@1000.service")


def test_several(box: Box, name: str) -> None:
    for i, code in enumerate([0, 3, 5]):
        box.kildsvc(
            "open", f"{name}-{i}", "--", "bash", "-c", f"until [ -e ~/out{i} ]; do sleep .05; done; exit {code}"
        )
    names = [f"{name}-{i}" for i in range(3)]
    every = box.popen(box.kild, "wait", *names, stdout=subprocess.PIPE)
    one = box.popen(box.kild, "wait", "--any", *names, stdout=subprocess.PIPE)
    wait_until("both wait", lambda: listening(box) >= 2)
    box.sh("touch ~/out2")
    assert (
        one.communicate(timeout=30)[0]
        == f"KILD:WAIT name={names[2]} status=exited exit_code=5 reason=exit\n".encode()
    )
    assert one.returncode == 5
    capped = box.kildsvc("wait", *names, "--timeout", "300ms", check=False)
    assert (capped.returncode, capped.stdout.count("status=alive"), capped.stdout.count("exit_code=5")) == (5, 2, 1)
    assert f"kildsvc wait {names[0]} {names[1]} --timeout 0.3s" in capped.stderr
    box.sh("touch ~/out1 ~/out0")
    out = every.communicate(timeout=30)[0].decode()
    assert out.startswith(f"KILD:WAIT name={names[2]} status=exited exit_code=5")
    assert (every.returncode, out.count("\n")) == (3, 3)
    box.sh("rm ~/out?")


def test_failures_of_our_own(box: Box, name: str) -> None:
    unknown = box.kildsvc("wait", name, check=False)
    assert (unknown.returncode, unknown.stdout) == (125, "")
    assert "no session" in unknown.stderr
    for bad in ("nonsense", "idle=", "idle=x", "output=(", "exit=1"):
        done = box.kildsvc("wait", name, "--for", bad, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (125, 1), bad
    box.kildsvc("open", name, "--", "sleep", "1000")
    assert box.kildsvc("wait", name, "nobody", check=False).returncode == 125


def test_for_ready(box: Box, name: str) -> None:
    opener = box.popen(box.kild, "open", name, "--grace", "2s", "--", "sleep", "1000", stdout=subprocess.DEVNULL)
    wait_until("it starts", lambda: box.show(name, "ActiveState")["ActiveState"] == "activating")
    done = box.kildsvc("wait", name, "--for", "ready")
    assert done.stdout == f"KILD:WAIT name={name} status=alive exit_code= reason=ready\n"
    assert box.show(name, "ActiveState")["ActiveState"] == "active"
    assert opener.wait(30) == 0
    box.kildsvc("stop", name)
    after = box.kildsvc("wait", name, "--for", "ready")
    assert after.stdout.startswith(f"KILD:WAIT name={name} status=stopped exit_code=143 reason=ready")


def test_for_output(box: Box, name: str) -> None:
    script = "echo first line; read x; printf '\\033[1mready\\033[0m> '; read y; echo bye; exit 3"
    box.kildsvc("open", name, "--", "bash", "-c", script)
    early = box.kildsvc("wait", name, "--for", "output=^first")
    assert early.stdout.endswith("status=alive exit_code= reason=output\n")
    waiters = [box.popen(box.kild, "wait", "--json", name, "--for", "output=^ready> $", stdout=-1) for _ in range(3)]
    wait_until("all wait", lambda: listening(box) >= 3)
    box.crash_shim(name)
    box.sh("printf '\\n' >/dev/pts/$(ps -o tty= -p $1 | tr -dc 0-9)", str(box.agent_pid(name)), check=False)
    box.run("python3", "-c", TYPE, f"/run/user/1000/kildsvc/{name}/sock")
    for waiter in waiters:
        found = json.loads(waiter.communicate(timeout=30)[0])
        assert (waiter.returncode, found["status"], found["match"]) == (0, "alive", "ready> ")
    box.run("python3", "-c", TYPE, f"/run/user/1000/kildsvc/{name}/sock")
    assert box.kildsvc("wait", name, check=False).returncode == 3
    # After the end the answer is the same; and what was never printed is not a success.
    late = box.kildsvc("wait", name, "--for", "output=^ready>")
    assert "exit_code=3 reason=output" in late.stdout
    assert box.kildsvc("wait", name, "--for", "output=never", check=False).returncode == 3


# Types Enter, as a control client of the shim.
TYPE = """import socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(struct.pack("<BI", 1, 15) + struct.pack("<HBHHQ", 1, 2, 0, 0, 0) + struct.pack("<BI", 2, 1) + b"\\n")
s.recv(100)"""


def test_what_was_waited_for_cannot_come_any_more(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep 1; exit 0")
    done = box.kildsvc("wait", name, "--for", "output=never", check=False)
    assert (done.returncode, "status=exited exit_code=0 reason=exit" in done.stdout) == (125, True)


def test_for_idle(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep .3; done; sleep 1000")
    box.kildsvc("wait", name, "--for", "idle=1s")
    session = box.json("status", name)
    assert session["idle"] >= 0.99
    assert box.kildsvc("logs", name).stdout.split() == ["1", "2", "3", "4", "5", "6"]
    assert box.kildsvc("wait", name, "--for", "idle=1s", "--timeout", "9s").stdout.endswith("reason=idle\n")


@pytest.mark.timeout(150)
def test_a_minute_costs_next_to_nothing(box: Box, name: str) -> None:
    """User and system time of a waiter, from when it waits until a minute later."""
    box.kildsvc("open", name, "--", "bash", "-c", "while :; do echo x; sleep .5; done")
    waiter = box.popen(box.kild, "wait", name, stdout=subprocess.DEVNULL)
    wait_until("it waits", lambda: listening(box))
    pid = box.sh("pgrep -nf 'kildsvc wai[t]'").strip()

    def used() -> int:
        # pid (comm) state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime, in 1/100 s
        fields = box.sh(f"cat /proc/{pid}/stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 10

    def settled() -> bool:
        before = used()
        box.run("sleep", "1")
        return used() == before

    wait_until("start-up is over", settled)
    before = used()
    box.run("sleep", "60", timeout=80)
    assert used() - before < 50, "milliseconds"
    box.kildsvc("stop", name)
    assert waiter.wait(30) == 143


def test_a_person_sees_progress(box: Box, name: str) -> None:
    from pty_client import Terminal

    box.kildsvc("open", name, "--", "bash", "-c", UNTIL_TOLD + "exit 6")
    with Terminal(box.argv(box.kild, "wait", name)) as terminal:
        terminal.read_until(rf"1 s: {name} running, silent for \d+ s".encode())
        box.sh("touch ~/out")
        terminal.read_until(b"KILD:WAIT name=.* status=exited exit_code=6 reason=exit")
        assert terminal.wait() == 6
