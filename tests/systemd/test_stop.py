"""stop leaves no process behind, and says how the agent took it."""

import pytest
from box import Box, wait_until


@pytest.mark.smoke
def test_stop(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    assert box.kildsvc("stop", name).stdout == f"{name}: stopped (killed by SIGTERM)\n"
    session = box.json("status", name)
    assert (session["state"], session["exit_code"], session["signal"]) == ("stopped", 143, "TERM")
    shown = box.show(name, "ActiveState", "Result", "StatusText")
    assert shown == {"ActiveState": "inactive", "Result": "success", "StatusText": "ended: signal TERM, stopped"}


def test_an_agent_that_ends_in_order_keeps_its_code(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "trap 'echo saving; exit 3' TERM; while :; do sleep .05; done")
    box.kildsvc("stop", name)
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("stopped", 3)
    assert "saving" in box.kildsvc("logs", name).stdout


def test_the_shim_is_killed_when_it_has_told_the_end(box: Box, name: str) -> None:
    """It waits for a background process to obey then; that a stop was asked for is known all the same."""
    box.kildsvc("open", name, "--", "bash", "-c", "trap '' TERM; sleep 1000 & trap - TERM; wait")
    box.sh(
        """pid=$(systemctl --user show -P MainPID $1); systemctl --user stop --no-block $1
        until systemctl --user show -P StatusText $1 | grep -q ended; do :; done
        kill -KILL $pid; while systemctl --user is-active -q $1; do :; done""",
        f"kild-{name}",
    )
    session = box.wait_ended(name)
    assert (session["state"], session["signal"]) == ("stopped", "TERM")
    assert box.processes("sleep 1000") == []


def test_twice_is_harmless(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.kildsvc("stop", name)
    assert "was not running" in box.kildsvc("stop", name).stdout
    assert box.json("status", name)["signal"] == "TERM"


def test_unknown_session(box: Box) -> None:
    done = box.kildsvc("stop", "nobody", check=False)
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)


@pytest.mark.smoke
def test_the_whole_tree_goes(box: Box, name: str) -> None:
    tree = "setsid sleep 1001 & (setsid sh -c 'sleep 1002 & sleep 1003' &) ; nohup sleep 1004 & sleep 1005"
    box.kildsvc("open", name, "--", "bash", "-c", tree)
    wait_until("the tree stands", lambda: len(box.processes("^sleep 100[1-5]")) == 5)
    box.kildsvc("stop", name)
    assert not box.processes("^sleep 100[1-5]")


@pytest.mark.timeout(90)
def test_an_agent_that_ignores_everything_is_killed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "trap '' TERM HUP INT; while :; do sleep .1; done")
    box.kildsvc("stop", name, timeout=60)
    session = box.json("status", name)
    assert (session["state"], session["signal"]) == ("stopped", "KILL")


def test_leftovers_that_ignore_sigterm_are_killed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "(trap '' TERM HUP; exec setsid sleep 1001) & sleep 1000")
    wait_until("both run", lambda: box.processes("^sleep 1001"))
    box.kildsvc("stop", name)
    assert not box.processes("^sleep 100")


def test_a_stopped_process_is_stopped_too(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.run("kill", "-STOP", str(box.agent_pid(name)))
    box.kildsvc("stop", name)
    assert not box.processes("^sleep 1000")


def test_stop_while_starting(box: Box, name: str) -> None:
    opener = box.popen(box.kild, "open", name, "--grace", "20s", "--", "sleep", "1000")
    wait_until("the agent is there", lambda: box.processes("^sleep 1000"))
    box.run("systemctl", "--user", "stop", f"kild-{name}")
    assert opener.wait(30) == 5
    assert not box.processes("^sleep 1000")


@pytest.mark.parametrize("verb", [["stop"], ["kill"]])
def test_with_systemctl_instead_of_ours(box: Box, name: str, verb: list[str]) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.run("systemctl", "--user", *verb, f"kild-{name}")
    session = box.wait_ended(name)
    assert (session["state"], session["signal"]) == ("stopped", "TERM")
    assert not box.processes("^sleep 1000")


def test_all_but_the_session_one_is_in(box: Box, name: str) -> None:
    box.kildsvc("open", f"{name}-a", "--", "sleep", "1000")
    box.kildsvc("open", f"{name}-b", "--", "sleep", "1000")
    box.kildsvc(
        "open", f"{name}-me", "--", "sh", "-c", f"{box.kild} stop --all >~/out 2>&1; echo code $? >>~/out; sleep 1000"
    )
    wait_until("it has run", lambda: "code 0" in box.sh("cat ~/out"))
    states = {s["name"]: s["state"] for s in box.json("list")}
    assert states == {f"{name}-a": "stopped", f"{name}-b": "stopped", f"{name}-me": "running"}


def test_destroy(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    refused = box.kildsvc("destroy", name, check=False)
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    assert box.json("status", name)["state"] == "running"
    box.kildsvc("destroy", "--force", name)
    assert box.kildsvc("status", name, check=False).returncode == 4
    assert box.json("list") == []
    assert not box.processes("^sleep 1000")
    assert box.sh("ls -A $XDG_RUNTIME_DIR/kildsvc ~/.local/state/kildsvc/sessions", check=False).count(name) == 0


def test_forgetting_one_leaves_those_with_a_longer_name(box: Box) -> None:
    for each in ("a", "a-b"):
        box.kildsvc("open", each, "--", "sh", "-c", "sleep .4; exit 3")
        box.wait_ended(each)
    box.kildsvc("destroy", "a")
    assert box.show("a-b", "LoadState", "ExecMainStatus") == {"LoadState": "loaded", "ExecMainStatus": "3"}


@pytest.mark.timeout(180)
def test_fifty_times_and_nothing_leaks(box: Box, name: str) -> None:
    def counts() -> dict[str, int]:
        manager = box.run("systemctl", "show", "-P", "MainPID", "user@1000.service").stdout.strip()
        return {
            "fds of the manager": int(box.root("sh", "-c", f"ls /proc/{manager}/fd | wc -l").stdout),
            "ptys": int(box.sh("ls /dev/pts | wc -l")),
            "processes": int(box.sh("ps -u dev --no-headers | wc -l")),
            "units": int(box.sh("systemctl --user list-units --all --plain --no-legend 'kild*' | wc -l")),
            "files": int(box.sh("find $XDG_RUNTIME_DIR/kildsvc $XDG_RUNTIME_DIR/systemd/transient | wc -l")),
        }

    loop = (
        "import kildsvc, sys\nfor _ in range(int(sys.argv[2])): kildsvc.open(sys.argv[1], ['sleep', '1000']).stop()"
    )
    box.python(loop, name, "2")
    before = counts()
    box.python(loop, name, "50", timeout=150)
    assert counts() == before
