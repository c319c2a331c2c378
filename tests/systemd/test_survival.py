"""A session outlives the command, the terminal and the login it was opened from."""

import pytest
from box import Box, wait_until
from pty_client import Terminal


@pytest.mark.timeout(120)
def test_ten_and_sixty_seconds_after_everything_is_gone(box: Box, name: str) -> None:
    beat = "for i in $(seq 70); do sleep 1; echo beat $i; done"
    # From a terminal that is closed, and from a login session (PAM, logind) that ends.
    with Terminal(box.argv(box.kild, "open", f"{name}-t", "--", "sh", "-c", beat)) as terminal:
        terminal.read_until(rb"running as")
        terminal.hang_up()
    login = [
        "systemd-run",
        "--quiet",
        "--pipe",
        "--wait",
        "-p",
        "User=dev",
        "-p",
        "PAMName=login",
        "-E",
        "XDG_RUNTIME_DIR=/run/user/1000",
    ]
    box.root(*login, box.kild, "open", f"{name}-l", "--", "sh", "-c", beat)
    pids = {each: box.agent_pid(each) for each in (f"{name}-t", f"{name}-l")}
    for mark in (10, 60):
        for each, pid in pids.items():
            wait_for_beat(box, each, mark)
            assert box.agent_pid(each) == pid


def wait_for_beat(box: Box, name: str, beat: int) -> None:
    wait_until(f"{name} lives after {beat} s", lambda: f"beat {beat}\n" in box.kildsvc("logs", name).stdout, 90)


def test_without_lingering_one_is_warned_once(box: Box, name: str) -> None:
    box.root("mv", "/var/lib/systemd/linger/dev", "/var/lib/systemd/linger-of-dev")
    try:
        first = box.kildsvc("open", f"{name}-1", "--", "sleep", "1000")
        second = box.kildsvc("open", f"{name}-2", "--", "sleep", "1000")
    finally:
        box.root("mv", "/var/lib/systemd/linger-of-dev", "/var/lib/systemd/linger/dev")
    assert "loginctl enable-linger" in first.stderr
    assert first.stderr.count("\n") == 1
    assert second.stderr == ""
