"""How a run ended is never lost and never invented."""

import pytest
from box import Box


@pytest.mark.smoke
@pytest.mark.parametrize("code", [0, 1, 42, 200, 255])
def test_exit_code(box: Box, name: str, code: int) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", f"sleep .4; exit {code}")
    session = box.wait_ended(name)
    assert (session["state"], session["exit_code"], session["signal"]) == ("exited", code, None)
    assert session["ended"] >= session["started"]
    shown = box.show(name, "ActiveState", "ExecMainStatus", "StatusText")
    assert shown["StatusText"] == f"ended: exit {code}"
    assert shown["ExecMainStatus"] == str(code)
    assert shown["ActiveState"] == ("inactive" if code == 0 else "failed")


@pytest.mark.smoke
@pytest.mark.parametrize(("signal", "number"), [("TERM", 15), ("INT", 2), ("HUP", 1), ("KILL", 9), ("SEGV", 11)])
def test_signal(box: Box, name: str, signal: str, number: int) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.run("kill", f"-{signal}", str(box.agent_pid(name)))
    session = box.wait_ended(name)
    assert (session["state"], session["exit_code"], session["signal"]) == ("killed", 128 + number, signal)
    assert box.show(name, "ExecMainStatus")["ExecMainStatus"] == str(128 + number)


def test_an_exit_code_that_looks_like_a_signal(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; exit 137")
    session = box.wait_ended(name)
    assert (session["state"], session["exit_code"], session["signal"]) == ("exited", 137, None)


def test_a_minute_later(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; exit 42")
    box.wait_ended(name)
    box.run("sleep", "60", timeout=70)  # the promise is about time
    assert box.json("status", name)["exit_code"] == 42


test_a_minute_later = pytest.mark.timeout(120)(test_a_minute_later)


def test_a_background_child_holds_the_terminal(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "(trap '' HUP; sleep 1000) & sleep .4; echo bye; exit 5")
    session = box.wait_ended(name, 10)
    assert (session["state"], session["exit_code"]) == ("exited", 5)
    assert box.kildsvc("logs", name).stdout == "bye\n"
    assert not box.processes("^sleep 1000")


def test_an_agent_that_closes_its_terminal_lives(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "exec <&- >&- 2>&-; until [ -e ~/out ]; do sleep .1; done; exit 3")
    assert box.json("status", name)["state"] == "running"
    box.sh("touch ~/out")
    assert box.wait_ended(name)["exit_code"] == 3


def test_all_of_the_last_output_is_kept(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; seq 20000; exit 1")
    box.wait_ended(name)
    assert box.kildsvc("logs", name).stdout.split() == [str(n) for n in range(1, 20001)]


def test_exits_are_told_after_the_manager_was_restarted(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; exit 42")
    box.kildsvc("open", f"{name}-2", "--", "sleep", "1000")
    box.wait_ended(name)
    box.restart_manager()
    session = box.json("status", name)
    assert (session["state"], session["exit_code"], session["unit"]) == ("exited", 42, "")
    stopped = box.json("status", f"{name}-2")
    assert (stopped["state"], stopped["signal"]) == ("stopped", "TERM")
    assert {s["name"] for s in box.json("list")} == {name, f"{name}-2"}
    # Loaded again, by whatever means, and never run as far as systemd knows.
    place = "~/.config/systemd/user"
    box.sh(f"mkdir -p {place}; printf '[Service]\\nExecStart=true\\n' >{place}/kild-{name}.service")
    box.run("systemctl", "--user", "daemon-reload")
    session = box.json("status", name)
    box.sh(f"rm {place}/kild-{name}.service; systemctl --user daemon-reload")
    assert (session["state"], session["exit_code"], session["unit"]) == ("exited", 42, f"kild-{name}.service")


def test_exits_are_told_after_a_reboot(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; exit 42")
    box.wait_ended(name)
    box.reboot()
    session = box.json("status", name)
    assert (session["state"], session["exit_code"], session["before_boot"]) == ("exited", 42, True)
    assert "before boot" in box.kildsvc("list").stdout


def test_a_session_that_was_cut_off_has_no_exit_code(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.cut_off()
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("lost", None)
    assert "cut off" in session["cause"]


def test_an_ending_is_announced_once_in_the_journal(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "sleep .4; exit 3")
    box.wait_ended(name)
    assert box.journal(name).count("ended: exit 3") == 1
