"""What a person at a terminal meets: the choice of a session, the SSH agent that stays, waiting, tables that fit."""

import re

from box import Box, wait_until
from pty_client import Terminal

DETACH = b"\0\x11"
ESCAPES = rb"\x1b\[[0-9;?]*[A-Za-z]"


def test_attach_without_a_name(box: Box) -> None:
    done = box.kildsvc("attach", check=False)
    assert (done.returncode, done.stderr) == (
        125,
        "kildsvc: no session is running (kildsvc open NAME -- COMMAND)\n",
    )
    box.python("import kildsvc; kildsvc.open('one', ['cat'])")
    with Terminal(box.argv(box.kild, "attach")) as terminal:  # the only one
        terminal.read_until(b"attached to 'one'.*detaches")
        terminal.type(DETACH)
        assert terminal.wait() == 0
    box.python("import kildsvc; kildsvc.open('two', ['cat']); kildsvc.open('twin', ['cat'])")
    done = box.kildsvc("attach", check=False)
    assert (done.returncode, done.stderr) == (125, "kildsvc: which session? (one, two, twin are running)\n")
    with Terminal(box.argv(box.kild, "attach")) as terminal:
        shown = terminal.read_until(rb"attach to which \(1-3, or a name\)\? ")
        assert re.search(rb"1 +one +.*running.*2 +two +.*running.*3 +twin +.*running", shown, re.S)
        terminal.type(b"tw\n")  # two of them
        terminal.read_until(rb"which \(1-3, or a name\)\? ")
        terminal.type(b"2\n")
        terminal.read_until(b"attached to 'two'.*detaches")
        terminal.type(DETACH)
        assert terminal.wait() == 0
    with Terminal(box.argv(box.kild, "attach")) as terminal:
        terminal.read_until(rb"\? ")
        terminal.type(b"\x04")
        assert terminal.wait() == 130


def test_the_ssh_agent_is_that_of_who_is_attached(box: Box, name: str) -> None:
    """A new login has a new agent; the session goes on to use a name that stays."""
    first, second = "/tmp/first", "/tmp/second"
    box.sh("ssh-agent -a $1 >/tmp/first.env; ssh-agent -a $2 >/tmp/second.env", first, second)
    box.sh("mkdir -p ~/work; SSH_AUTH_SOCK=$1 $2 open $3 --cwd ~/work -- cat", first, box.kild, name)
    pid = box.agent_pid(name)
    # `ssh-add -l` ends with 1 where an agent has no keys, with 2 where there is no agent.
    ask = """export $(tr '\\0' '\\n' </proc/$1/environ | grep ^SSH_AUTH_SOCK=)
        ssh-add -l 2>&1; echo $?; readlink $SSH_AUTH_SOCK"""
    assert box.sh(ask, str(pid)).split()[-2:] == ["1", first]
    box.sh(". /tmp/first.env >/dev/null; kill $SSH_AGENT_PID; rm -f $1", first)
    assert box.sh(ask, str(pid)).split()[-2:] == ["2", first]

    def attach(socket: str, *options: str) -> str:
        with Terminal(box.argv("env", f"SSH_AUTH_SOCK={socket}", box.kild, "attach", name, *options)) as terminal:
            terminal.read_until(b"detaches")
            terminal.type(DETACH)
            assert terminal.wait() == 0
        return box.sh(ask, str(pid)).split()[-1]

    assert attach("/tmp/nobody") == first, "one that is not alive is no improvement"
    assert attach(second, "--read-only") == first, "who only watches lends nothing"
    assert attach(second) == second
    assert box.sh(ask, str(pid)).split()[-2:] == ["1", second]
    # Where the variable was chosen, or a sandbox lets one socket through, it is that socket.
    box.sh(
        """cd ~/work; export SSH_AUTH_SOCK=$1; show='echo $SSH_AUTH_SOCK; ssh-add -l; echo $?; sleep 1000'
        $2 open chosen --env SSH_AUTH_SOCK=/s -- sh -c "$show"
        $2 open workspace --sandbox workspace -- sh -c "$show"
        $2 open strict --sandbox strict -- sh -c "$show" """,
        second,
        box.kild,
    )
    for session, code in {"chosen": "2", "workspace": "1", "strict": "2"}.items():
        path, answer = printed(box, session)
        assert (session, answer) == (session, code)
        assert path == ("/s" if session == "chosen" else second)
    box.sh(". /tmp/second.env >/dev/null; kill $SSH_AGENT_PID")


def printed(box: Box, name: str) -> tuple[str, str]:
    """The first of three lines, and the last."""

    def said() -> list[str]:
        lines = box.kildsvc("screen", name).stdout.splitlines()
        return lines if len(lines) == 3 else []

    first, _, last = wait_until("it has said all", said)
    return first, last


def test_who_waits_is_told_for_what(box: Box, name: str) -> None:
    command = ["open", name, "--grace", "1500ms", "--", "sleep", "1000"]
    with Terminal(box.argv(box.kild, *command)) as terminal:
        terminal.read_until(b"waiting for 'sleep' to be up")
        shown = terminal.read_until(b"running as")
        assert re.search(rb"\r\x1b\[K" + name.encode() + b": running as", shown), "the line is taken back"
        assert terminal.wait() == 0
    box.kildsvc("stop", name)
    done = box.kildsvc(*command)
    assert done.stderr == "" or "linger" in done.stderr


def test_tables_fit_the_terminal(box: Box) -> None:
    box.sh("mkdir -p ~/work/a-rather-long-directory/with-another-one-inside-of-it")
    box.python(
        """import kildsvc, os
cwd = os.path.expanduser("~/work/a-rather-long-directory/with-another-one-inside-of-it")
kildsvc.open("a-session-with-a-long-name", ["sleep", "1000"], cwd=cwd, note="näme 日本語")
kildsvc.open("broken", ["sh", "-c", "exit 3"], grace=0).wait()"""
    )
    for columns in (60, 80, 120):
        with Terminal(box.argv(box.kild, "list"), cols=columns) as terminal:
            assert terminal.wait() == 0
            shown = terminal.drain()
        lines = re.sub(ESCAPES, b"", shown).decode().split("\r\n")
        assert max(map(len, lines)) <= columns, shown
        assert lines[1].startswith("a-session-with-a-long-name  running")
        assert b"\x1b[32mrunning" in shown
    with Terminal(box.argv("env", "NO_COLOR=1", box.kild, "status", "broken"), cols=columns) as terminal:
        assert terminal.wait() == 3
        assert b"\x1b" not in terminal.drain()
    plain = box.run(
        "env", "LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0", box.kild, "status", "broken", check=False
    )
    assert plain.stdout.startswith("* broken: exited (3)")
    closed = box.run("sh", "-c", f"{box.kild} list >&-")
    assert closed.stderr == ""
