"""status, list and logs: what systemd, the kernel and the journal say, and nothing else."""

import base64
import json

import pytest
from box import Box, wait_until


def test_status_exit_codes(box: Box, name: str) -> None:
    assert box.kildsvc("status", name, check=False).returncode == 4
    box.kildsvc("open", name, "--", "sleep", "1000")
    assert box.kildsvc("status", name).returncode == 0
    box.kildsvc("stop", name)
    assert box.kildsvc("status", name, check=False).returncode == 3


def test_errors_as_json(box: Box, name: str) -> None:
    for arguments in (["status", name], ["stop", name], ["destroy", name]):
        done = box.kildsvc(*arguments, "--json", check=False)
        error = json.loads(done.stdout)["error"]
        assert (error["code"], done.returncode, done.stderr) == ("NO_SUCH_SESSION", 4, "")


@pytest.mark.smoke
def test_list(box: Box, name: str) -> None:
    assert box.kildsvc("list").stdout == ""
    box.kildsvc("open", f"{name}-run", "--note", "a note", "--", "sleep", "1000")
    box.kildsvc("open", f"{name}-end", "--", "sh", "-c", "sleep .4; exit 3")
    box.wait_ended(f"{name}-end")
    lines = box.kildsvc("ls").stdout.splitlines()
    assert lines[0].split()[:3] == ["NAME", "STATE", "WHEN"]
    assert [line.split()[:2] for line in lines[1:]] == [[f"{name}-run", "running"], [f"{name}-end", "exited"]]
    assert "a note" in lines[1]
    assert "(3)" in lines[2]


def test_list_of_a_hundred(box: Box) -> None:
    box.python("import kildsvc\nfor i in range(100): kildsvc.open(f's{i}', ['sleep', '1000'], grace=0)", timeout=100)
    sessions = box.json("list")
    assert len(sessions) == 100
    assert {s["state"] for s in sessions} == {"running"}
    assert len({s["pid"] for s in sessions}) == 100
    box.kildsvc("stop", "--all", timeout=60)
    assert {s["state"] for s in box.json("list")} == {"stopped"}
    assert not box.processes("^sleep 1000")


test_list_of_a_hundred = pytest.mark.timeout(240)(test_list_of_a_hundred)


def test_status_is_not_remembered(box: Box, name: str) -> None:
    """Nothing we store says "running": with the unit gone, so is the state."""
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.run(
        "systemctl",
        "--user",
        "stop",
        f"kild-{name}",
        f"kildkeep-{name}.slice".replace("-is-", r"\x2dis\x2d"),
        check=False,
    )
    assert box.json("status", name)["state"] == "stopped"
    assert "running" not in box.sh(f"cat ~/.local/state/kildsvc/sessions/{name}.json")


def test_orphans_are_shown_and_stopped(box: Box, name: str) -> None:
    # A user's own drop-in can take away the shim's restart and its reaper: then a crash leaves the agent alone.
    box.sh(
        """mkdir -p ~/.config/systemd/user/kild-.service.d
        printf '[Service]\\nRestart=no\\nExecStopPost=\\n' >~/.config/systemd/user/kild-.service.d/site.conf"""
    )
    try:
        # With its terminal gone it would get SIGHUP.
        box.kildsvc("open", name, "--", "sh", "-c", "trap '' HUP; exec sleep 1000")
        box.run("kill", "-KILL", str(box.shim_pid(name)))
        session = box.wait_ended(name)
        assert (session["state"], session["exit_code"]) == ("orphaned", None)
        assert box.processes("^sleep 1000")
        box.kildsvc("stop", name)
        assert not box.processes("^sleep 1000")
        assert box.json("status", name)["state"] == "unobserved"
    finally:
        box.sh("rm -r ~/.config/systemd/user/kild-.service.d; systemctl --user daemon-reload")


def test_logs_are_the_lines_and_raw_is_the_bytes(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/work; printf 'plain\\n\\033[31mred\\033[0m\\n10%%\\r20%%\\r30%%\\nend\\n' >~/work/f")
    box.kildsvc("open", name, "--", "sh", "-c", "cat ~/work/f; sleep 1000")
    text = "plain\nred\n30%\nend\n"
    wait_until("all is there", lambda: box.kildsvc("logs", name).stdout == text)
    assert text in box.journal(name) + "\n"
    assert box.kildsvc("logs", name, "-n", "2").stdout == "30%\nend\n"
    assert box.kildsvc("logs", name, "--raw").stdout == "plain\r\n\x1b[31mred\x1b[0m\r\n10%\r20%\r30%\r\nend\r\n"


def test_any_byte_comes_back(box: Box, name: str) -> None:
    data = bytes(range(256)) * 40 + b"x" * 200_000 + "ünï€ö".encode() * 5000 + b"\xff\xfe\0\n"
    box.run("sh", "-c", "mkdir -p ~/work; base64 -d >~/work/f", stdin=base64.b64encode(data).decode())
    box.kildsvc("open", name, "--", "sh", "-c", "stty raw; cat ~/work/f; sleep .5; exit 1")
    box.wait_ended(name)
    raw = box.kildsvc("logs", name, "--raw").stdout.encode(errors="surrogateescape")
    assert raw == data
    shown = box.run("journalctl", "--user", "-u", f"kild-{name}", "--no-pager").stdout
    assert "blob data" not in shown
    assert "x" * 10_000 in shown
    assert "ünï€ö" * 100 in shown


def test_a_run_as_asciicast(box: Box, name: str) -> None:
    script = "printf '\\033[31mred\\033[0m\\n'; sleep .6; echo ünï; exit 1"
    box.kildsvc("open", name, "--rows", "30", "--cols", "99", "--", "bash", "-c", script)
    box.wait_ended(name)
    box.kildsvc("logs", name, "--cast", "/home/dev/out")
    head, *events = [json.loads(line) for line in box.sh("cat ~/out").splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 99, 30)
    assert "".join(data for _, kind, data in events if kind == "o") == "\x1b[31mred\x1b[0m\r\nünï\r\n"
    assert events[-1][0] - events[0][0] > 0.3
    assert box.kildsvc("logs", "nobody", "--cast", "/home/dev/other", check=False).returncode == 4


def test_lines_of_an_agent_that_lived_a_millisecond(box: Box, name: str) -> None:
    for i in range(10):
        box.kildsvc("open", f"{name}-{i}", "--", "echo", f"short life {i}", check=False)
        assert f"short life {i}" in box.journal(f"{name}-{i}")


def test_runs_are_told_apart(box: Box, name: str) -> None:
    for word in ("first", "second"):
        box.kildsvc("open", name, "--", "sh", "-c", f"echo {word}; sleep .4; exit 1")
        box.wait_ended(name)
    run = box.json("status", name)["run"]
    assert box.kildsvc("logs", name).stdout == "second\n"
    assert box.kildsvc("logs", name, "--run", "all").stdout == "first\nsecond\n"
    assert box.kildsvc("logs", name, "--run", run).stdout == "second\n"
    assert box.kildsvc("logs", name, "--run", "nonsense").stdout == ""
    assert box.kildsvc("logs", "nobody", check=False).returncode == 4


def test_follow_ends_with_the_run(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "echo one; sleep 1; echo two; exit 1")
    assert box.kildsvc("logs", "-f", name).stdout == "one\ntwo\n"


def test_since(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "echo one; sleep 1000")
    wait_until("it is there", lambda: box.kildsvc("logs", name, "--since", "1 min ago").stdout == "one\n")
    bad = box.kildsvc("logs", name, "--since", "whenever", check=False)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def test_a_closed_pipe_is_quiet(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "seq 50000; sleep 1000")
    wait_until("it is there", lambda: "50000" in box.kildsvc("logs", name).stdout)
    assert box.sh(f"{box.kild} logs {name} 2>&1 | head -n1") == "1\n"


@pytest.mark.timeout(120)
def test_a_flood_is_bounded_announced_and_survived(box: Box, name: str) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' x | fold -w 120; echo; echo the end; sleep 1000"
    box.kildsvc("open", name, "--", "sh", "-c", flood)
    shim = box.shim_pid(name)
    wait_until("the flood is over", lambda: box.kildsvc("logs", name, "-n", "1").stdout == "the end\n", 90)
    assert box.shim_pid(name) == shim
    memory = int(box.sh(f"awk '/^Private/ {{s += $2}} END {{print s}}' /proc/{shim}/smaps_rollup"))
    assert memory < 8000, "kilobytes"
    assert "bytes of output are missing here" in box.journal(name)
    stored = box.kildsvc("logs", name, "--raw").stdout
    assert len(stored) < 40_000_000
    assert stored.startswith("x" * 120)


def test_without_a_user_manager(box: Box) -> None:
    done = box.root("setpriv", "--reuid=nobody", "--clear-groups", "--reset-env", box.kild, "list", check=False)
    assert done.returncode == 6
    assert done.stderr.count("\n") == 1
    assert "enable-linger" in done.stderr


def test_without_a_session_bus(box: Box, name: str) -> None:
    box.run("systemctl", "--user", "stop", "dbus.socket", "dbus.service")
    try:
        box.kildsvc("open", name, "--", "sleep", "1000")
        assert box.json("status", name)["state"] == "running"
        box.kildsvc("stop", name)
    finally:
        box.run("systemctl", "--user", "start", "dbus.socket")


def test_from_cron_without_xdg_runtime_dir(box: Box, name: str) -> None:
    box.sh(f"unset XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS; {box.kild} open {name} -- sleep 1000; {box.kild} list")
    assert box.json("status", name)["state"] == "running"
