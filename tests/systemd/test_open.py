"""open: says "running" only of what runs, and leaves nothing of what does not."""

import json
import subprocess

import pytest
from box import Box, wait_until

FOREVER = ("sleep", "1000")


def leftovers(box: Box) -> str:
    """Everything of ours that exists in the machine: units, runtime and state files."""
    return box.sh(
        """systemctl --user list-units --all --plain --no-legend 'kild-*.service' 'kildkeep-*.slice'
        find $XDG_RUNTIME_DIR/kildsvc ~/.local/state/kildsvc -mindepth 1 ! -type d 2>/dev/null
        find $XDG_RUNTIME_DIR/kildsvc -mindepth 1 -type d 2>/dev/null""",
        check=False,
    )


@pytest.mark.smoke
def test_a_session_is_a_unit(box: Box, name: str) -> None:
    out = box.kildsvc("open", name, "--", "bash", "-c", "echo hello from the agent; sleep 1000").stdout
    pid = box.agent_pid(name)
    assert out == f"{name}: running as kild-{name}.service, pid {pid}\n"
    status = box.run("systemctl", "--user", "status", f"kild-{name}").stdout
    assert "active (running)" in status
    assert f"running, agent pid {pid}" in status
    assert "hello from the agent" in wait_until("the line is in the journal", lambda: box.journal(name))
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("running", None)
    assert box.sh(f"tr '\\0' ' ' </proc/{pid}/cmdline").startswith(("sleep", "bash"))


@pytest.mark.smoke
def test_failure_at_once(box: Box, name: str) -> None:
    done = box.kildsvc("open", name, "--", "bash", "-c", "echo one; echo 'no API key' >&2; exit 42", check=False)
    assert done.returncode == 5
    assert done.stdout == ""
    first, *lines = done.stderr.splitlines()
    assert "exit code 42" in first
    assert lines == ["  │ one", "  │ no API key"]
    assert leftovers(box) == ""


@pytest.mark.parametrize(
    ("script", "options", "cause"),
    [
        ("sleep .1; echo late; exit 7", (), "exit code 7"),
        ("sleep 1; echo later; exit 8", ("--grace", "2s"), "exit code 8"),
        ("exit 3", (), "exit code 3"),
        ("exit 0", (), "exit code 0"),
        ("kill -SEGV $$", (), "killed by SIGSEGV"),
        ("kill -TERM $$", (), "killed by SIGTERM"),
        # A child that ignores SIGTERM and holds the terminal must not delay the news.
        ("(trap '' TERM HUP; sleep 100) & exit 9", (), "exit code 9"),
    ],
)
def test_failure_before_up(box: Box, name: str, script: str, options: tuple[str, ...], cause: str) -> None:
    done = box.kildsvc("open", name, *options, "--", "bash", "-c", script, check=False)
    assert done.returncode == 5
    assert cause in done.stderr
    assert ("it printed nothing" in done.stderr) == ("echo" not in script)
    assert leftovers(box) == ""
    assert not box.processes("sleep 100")


def test_failure_as_json(box: Box, name: str) -> None:
    done = box.kildsvc("open", name, "--json", "--", "sh", "-c", "echo why; exit 4", check=False)
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["exit_code"], error["output"]) == ("AGENT_EXITED_EARLY", 4, "why")
    assert done.stderr == ""


def test_only_the_last_lines_are_shown(box: Box, name: str) -> None:
    done = box.kildsvc("open", name, "--", "sh", "-c", "seq 100; exit 1", check=False)
    assert done.stderr.splitlines()[1:] == [f"  │ {n}" for n in range(81, 101)]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["x", "--", "no-such-command"], 2, "not found in your PATH"),
        (["x", "--", "/no/such/file"], 2, "does not exist"),
        (["x", "--", "/etc"], 2, "is a directory"),
        (["x", "--", "/etc/passwd"], 2, "not executable"),
        (["x", "--cwd", "/no/such/dir", "--", "true"], 2, "does not exist"),
        (["x", "--cwd", "/root", "--", "true"], 2, "permission denied"),
        (["x", "--env", "novalue", "--", "true"], 2, "NAME=VALUE"),
        (["x", "--grace", "soon", "--", "true"], 2, "not a duration"),
        (["x"], 2, "no agent is installed"),
        (["x", "--shell", "--", "true"], 2, "not both"),
        (["a/b", "--", "true"], 2, "try 'a-b'"),
        ([" ", "--", "true"], 2, "cannot be a session name"),
        (["..", "--", "true"], 2, "cannot be a session name"),
        (["n" * 200, "--", "true"], 2, "cannot be a session name"),
        (["x.service", "--", "true"], 2, "try 'x'"),
    ],
)
def test_bad_input_makes_nothing(box: Box, arguments: list[str], code: int, message: str) -> None:
    done = box.kildsvc("open", *arguments, check=False)
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert leftovers(box) == ""


def test_what_cannot_be_executed(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/work; printf '#!/no/such/interpreter\\n' >~/work/tool; chmod +x ~/work/tool")
    done = box.kildsvc("open", name, "--", "/home/dev/work/tool", check=False)
    assert done.returncode == 5
    assert "could not be executed: exec: No such file or directory" in done.stderr
    assert leftovers(box) == ""


def test_name_in_use(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", *FOREVER)
    pid = box.agent_pid(name)
    done = box.kildsvc("open", name, "--", "true", check=False)
    assert done.returncode == 1
    assert "is running already" in done.stderr
    assert f"kildsvc attach {name}" in done.stderr
    assert box.agent_pid(name) == pid


def test_two_at_once_one_wins_with_its_own_launch(box: Box, name: str) -> None:
    for _ in range(5):
        openers = [
            box.popen(
                box.kild, "open", name, "--env", f"WHO={who}", "--", "sh", "-c", "echo I am $WHO; sleep 1000",
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for who in range(3)
        ]  # fmt: skip
        results = [(opener.communicate(timeout=30), opener.returncode) for opener in openers]
        winners = [who for who, (_, code) in enumerate(results) if code == 0]
        assert len(winners) == 1, results
        assert wait_until("it speaks", lambda: box.kildsvc("logs", name).stdout) == f"I am {winners[0]}\n"
        box.kildsvc("destroy", "--force", name)


def test_the_opener_may_be_killed(box: Box, name: str) -> None:
    opener = box.popen(box.kild, "open", name, "--grace", "3s", "--", *FOREVER)
    wait_until("the agent is there", lambda: box.processes("^sleep 1000"))
    box.run("pkill", "-KILL", "-f", f"kildsvc open {name}")
    opener.wait(30)
    wait_until("it is up", lambda: box.json("status", name)["state"] == "running")
    assert box.processes("^sleep 1000") == [box.agent_pid(name)]
    assert box.kildsvc("stop", name).returncode == 0


def test_ctrl_c_while_opening_leaves_nothing(box: Box, name: str) -> None:
    opener = box.popen(box.kild, "open", name, "--grace", "20s", "--", *FOREVER)
    wait_until("the agent is there", lambda: box.processes("^sleep 1000"))
    box.run("pkill", "-INT", "-f", f"kildsvc open {name}")
    assert opener.wait(30) == 130
    assert leftovers(box) == ""
    assert not box.processes("^sleep 1000")


def test_the_callers_environment_reaches_the_agent(box: Box, name: str) -> None:
    script = """mkdir -p ~/work; cd ~/work
        export PATH=$HOME/bin:$PATH SSH_AUTH_SOCK=/s ANTHROPIC_API_KEY=k COLORTERM=truecolor MULTI=$'a\\nb'
        export NOTIFY_SOCKET=/n LISTEN_FDS=1 INVOCATION_ID=i JOURNAL_STREAM=1:2 MANAGERPID=1
        export CLAUDECODE=1 TMUX=t TERM=dumb
        umask 027; ulimit -n 555
        exec "$@" """
    agent = "env -0 >~/out; { umask; ulimit -n; pwd; tty; stty size; } >~/work/facts; sleep 1000"
    box.sh(
        script, box.kild, "open", name, "--env", "MINE=x=y", "--rows", "30", "--cols", "100", "--", "sh", "-c", agent
    )
    env = dict(item.split("=", 1) for item in box.sh("cat ~/out").split("\0")[:-1])
    assert env["PATH"].startswith("/home/dev/bin:")
    assert (env["ANTHROPIC_API_KEY"], env["COLORTERM"]) == ("k", "truecolor")
    assert box.run("readlink", env["SSH_AUTH_SOCK"]).stdout == "/s\n"
    assert (env["MULTI"], env["MINE"], env["TERM"], env["KILD_SESSION"]) == ("a\nb", "x=y", "xterm-256color", name)
    assert env["PWD"] == "/home/dev/work"
    for private in [
        "NOTIFY_SOCKET",
        "LISTEN_FDS",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "MANAGERPID",
        "CLAUDECODE",
        "TMUX",
    ]:
        assert private not in env
    umask, files, cwd, tty, size = box.sh("cat ~/work/facts").splitlines()
    assert (umask, files, cwd, size) == ("0027", "555", "/home/dev/work", "30 100")
    assert tty.startswith("/dev/pts/")


def test_secrets_stay_secret(box: Box, name: str) -> None:
    secret = "s3cr3t-in-the-environment"
    box.sh(f"export API_KEY={secret}; exec {box.kild} open {name} --env OTHER={secret} -- sleep 1000")
    pid = box.agent_pid(name)
    assert secret in box.sh(f"tr '\\0' '\\n' </proc/{pid}/environ")
    assert secret not in box.run("systemctl", "--user", "show", f"kild-{name}").stdout
    assert secret not in box.run("ps", "axww", "-o", "args").stdout
    assert secret not in box.root("journalctl", "-o", "verbose", "--all").stdout
    assert secret not in box.sh("cat ~/.local/state/kildsvc/sessions/* $XDG_RUNTIME_DIR/systemd/transient/*")
    launch = box.sh(f"stat -c '%a %U' $XDG_RUNTIME_DIR/kildsvc/{name} $XDG_RUNTIME_DIR/kildsvc/{name}/*.json")
    assert launch.splitlines() == ["700 dev", "600 dev"]


def test_an_ended_session_is_opened_again(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/work")
    box.kildsvc(
        "open", name, "--cwd", "/home/dev/work", "--env", "A=1", "--note", "mine", "--", "sh", "-c", "pwd; sleep 1000"
    )
    box.kildsvc("stop", name)
    done = box.kildsvc("open", name)
    assert "values given with --env are not remembered: A" in done.stderr
    session = box.json("status", name)
    assert (session["state"], session["cwd"], session["note"]) == ("running", "/home/dev/work", "mine")
    assert wait_until("output", lambda: box.kildsvc("logs", name).stdout) == "/home/dev/work\n"


def test_a_failed_reopen_keeps_what_was_remembered(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "test -e ~/out && exit 6; sleep 1000")
    box.kildsvc("stop", name)
    box.sh("touch ~/out")
    assert box.kildsvc("open", name, check=False).returncode == 5
    session = box.json("status", name)
    assert (session["state"], session["exit_code"]) == ("exited", 6)
    box.sh("rm ~/out")
    box.kildsvc("open", name)


def test_login_shell(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--shell")
    pid = box.agent_pid(name)
    assert box.sh(f"tr '\\0' ' ' </proc/{pid}/cmdline") == "-bash "
    # An interactive shell ignores SIGTERM; stop must not take its whole time-out.
    box.kildsvc("stop", name, timeout=8)
    assert box.json("status", name)["signal"] == "HUP"


def test_the_agent_is_the_first_to_go_when_memory_is_short(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", *FOREVER)
    shim, agent = box.shim_pid(name), box.agent_pid(name)
    scores = box.sh(f"cat /proc/{shim}/oom_score_adj /proc/{agent}/oom_score_adj").split()
    assert int(scores[1]) > int(scores[0])
