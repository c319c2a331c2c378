"""run: a session as a command in the foreground."""

import pytest
from box import Box, wait_until
from pty_client import Terminal


@pytest.mark.smoke
@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -KILL $$", 137)])
def test_the_agents_code(box: Box, name: str, script: str, code: int) -> None:
    done = box.kildsvc("run", name, "--", "bash", "-c", f"echo hello; {script}", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "hello\n", "")
    assert box.json("status", name)["exit_code"] == code


@pytest.mark.smoke
def test_every_byte_however_short_its_life(box: Box, name: str) -> None:
    numbers = "".join(f"{n}\n" for n in range(1, 5001))
    for i in range(5):
        assert box.kildsvc("run", f"{name}-{i}", "--", "seq", "5000").stdout == numbers
    raw = box.kildsvc("run", name, "--raw", "--", "printf", "\\033[1mbold\\033[0m\\n").stdout
    assert raw == "\x1b[1mbold\x1b[0m\r\n"
    assert box.kildsvc("run", name, "--", "printf", "\\033[1mbold\\033[0m\\n").stdout == "bold\n"


def test_a_restarted_shim_in_between(box: Box, name: str) -> None:
    script = "for i in $(seq 300); do echo line $i; sleep .01; done; exit 5"
    command = box.popen(box.kild, "run", name, "--", "bash", "-c", script, stdout=-1)
    wait_until("it runs", lambda: box.show(name, "ActiveState")["ActiveState"] == "active")
    box.crash_shim(name, 3)
    out = command.communicate(timeout=60)[0].decode()
    assert command.returncode == 5
    assert out.splitlines() == [f"line {i}" for i in range(1, 301)]


def test_rm_forgets_it(box: Box, name: str) -> None:
    assert box.kildsvc("run", name, "--rm", "--", "sh", "-c", "exit 3", check=False).returncode == 3
    assert box.kildsvc("status", name, check=False).returncode == 4


def test_failures_of_our_own(box: Box, name: str) -> None:
    done = box.kildsvc("run", name, "--", "no-such-command", check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (125, "", 1)
    box.kildsvc("open", name, "--", "sleep", "1000")
    assert box.kildsvc("run", name, "--", "true", check=False).returncode == 125
    assert box.json("status", name)["state"] == "running"


def interrupt(box: Box, name: str) -> None:
    """Ctrl+C for the command alone: typed, it would also end what connects our terminal with the machine."""
    box.run("pkill", "-INT", "-f", f"kildsvc run [{name[0]}]{name[1:]} ")


def test_ctrl_c_stops_it(box: Box, name: str) -> None:
    script = "trap 'echo saving; exit 3' TERM; echo started; while :; do sleep .05; done"
    command = box.popen(box.kild, "run", name, "--", "bash", "-c", script, stdout=-1, stderr=-1)
    assert command.stdout and command.stdout.readline() == b"started\n"
    interrupt(box, name)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out) == (3, b"saving\n")
    assert b"once more kills it" in err
    assert box.json("status", name)["state"] == "stopped"


def test_a_second_ctrl_c_kills_it(box: Box, name: str) -> None:
    script = "trap 'echo not yet' TERM HUP INT; echo started; while :; do sleep .05; done"
    command = box.popen(box.kild, "run", name, "--", "bash", "-c", script, stdout=-1, stderr=-1)
    assert command.stdout and command.stdout.readline() == b"started\n"
    interrupt(box, name)
    assert command.stdout.readline() == b"not yet\n"
    interrupt(box, name)
    command.communicate(timeout=30)
    assert command.returncode == 137
    session = box.json("status", name)
    assert (session["state"], session["signal"]) == ("stopped", "KILL")


@pytest.mark.parametrize("detach", [True, False])
def test_the_terminal_is_closed(box: Box, name: str, detach: bool) -> None:
    options = ["--detach-on-hup"] if detach else []
    with Terminal(
        box.argv(box.kild, "run", name, *options, "--", "sh", "-c", "echo started; sleep 1000")
    ) as terminal:
        terminal.read_until(b"started")
        terminal.hang_up()
        wait_until("the command has ended", lambda: not box.processes(f"kildsvc run {name}"))
    assert box.json("status", name)["state"] == ("running" if detach else "stopped")


def test_a_closed_pipe_is_quiet_and_stops_it(box: Box, name: str) -> None:
    script = "while :; do echo line; sleep .01; done"
    assert box.sh(f"{box.kild} run {name} -- bash -c '{script}' 2>&1 | head -n1") == "line\n"
    assert box.wait_ended(name)["state"] == "stopped"


def test_a_slow_reader_misses_nothing(box: Box, name: str) -> None:
    """Twice the ring, and nobody reads for a while: what the shim no longer has is in the journal."""
    pieces = "for i in $(seq 20); do seq ${i}00000 ${i}14000; sleep .1; done"  # at a pace journald keeps up with
    out = box.sh(
        f"$1 run {name} -- bash -c '{pieces}' | (sleep 3; md5sum); bash -c '{pieces}' | md5sum", box.kild, timeout=60
    )
    first, second = out.splitlines()
    assert first == second
