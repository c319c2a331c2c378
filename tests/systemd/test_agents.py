"""Agents by their names: how they are started and given a prompt, when they are up, and their conversations."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, Result, wait_until

STANDIN = (Path(__file__).parents[1] / "standin_agent.py").read_text()
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class Agents:
    """The machine with stand-ins on PATH."""

    def __init__(self, box: Box) -> None:
        self.box = box

    def install(self, *names: str) -> None:
        self.box.run(
            "sh",
            "-c",
            "mkdir -p ~/agents; cat >~/agents/.one; chmod +x ~/agents/.one; for n; do ln -sf .one ~/agents/$n; done",
            "sh",
            *names,
            stdin=STANDIN,
        )

    def kildsvc(self, *arguments: str, check: bool = True, stdin: str | None = None, **env: str) -> Result:
        settings = [f"{key}={value}" for key, value in env.items()]
        path = "PATH=/home/dev/agents:/usr/bin:/bin"
        return self.box.run("env", path, *settings, self.box.kild, *arguments, check=check, stdin=stdin, timeout=60)

    def given(self) -> list[str]:
        found: list[str] = json.loads(self.box.sh("cat ~/given.json"))
        return found


@pytest.fixture
def agents(box: Box) -> Iterator[Agents]:
    yield Agents(box)
    box.sh("rm -rf ~/agents ~/given.json ~/pasted ~/.config/kildsvc ~/prompt ~/.bash_profile")


def test_a_prompt_arrives_as_it_was_written(agents: Agents, name: str) -> None:
    agents.install("claude")
    prompt = '--fix it\'s "odd" $HOME\nand `this` \\ ü'
    agents.kildsvc("open", name, "--agent", "claude", "--prompt", "-", "--yolo", "--model", "opus", stdin=prompt)
    given = agents.given()
    assert re.fullmatch(UUID, given[2])
    assert given == [
        *("claude", "--session-id", given[2], "--dangerously-skip-permissions", "--model", "opus", "--", prompt)
    ]
    assert agents.box.json("status", name)["agent"] == "claude"
    assert agents.box.json("status", name)["took_terminal"] is True


def test_a_prompt_too_long_for_an_argument_is_pasted(agents: Agents, name: str) -> None:
    agents.install("claude", "amp")
    long = "".join(f"line {i} of it, ü\n" for i in range(9000))
    agents.box.run("sh", "-c", "cat >~/prompt", stdin=long)
    agents.kildsvc("open", name, "--agent", "claude", "--prompt", "@/home/dev/prompt", "--", "--verbose")
    assert agents.given()[3:] == ["--verbose"]
    wait_until("it came whole", lambda: agents.box.sh("cat ~/pasted || :").replace("\r", "\n") == long)
    agents.kildsvc("open", f"{name}-amp", "--agent", "amp", "--prompt", "short")
    wait_until("amp has no argument for it", lambda: agents.box.sh("cat ~/pasted") == "short")
    assert agents.given() == ["amp"]


def test_one_that_fails_late_has_not_been_up(agents: Agents, name: str) -> None:
    """Longer than the grace period: a node program takes its time to find that it cannot work."""
    agents.install("codex")
    done = agents.kildsvc("open", name, "--agent", "codex", check=False, STANDIN="late")
    assert (done.returncode, done.stdout) == (5, "")
    assert "invalid API key" in done.stderr and "exit code 3" in done.stderr
    assert agents.box.kildsvc("status", name, check=False).returncode == 4


def test_one_that_never_takes_the_terminal_is_up_all_the_same(agents: Agents, name: str) -> None:
    agents.install("gemini")
    agents.kildsvc("open", name, "--agent", "gemini", STANDIN="plain")
    assert "has not taken the terminal yet" in agents.box.show(name, "StatusText")["StatusText"]
    assert agents.box.json("status", name)["state"] == "running"


def test_conversations(agents: Agents, name: str) -> None:
    agents.install("claude")
    agents.kildsvc("open", name, "--agent", "claude")
    first = agents.given()[2]
    agents.kildsvc("stop", name)
    agents.kildsvc("open", name, "--resume", "--prompt", "go on")
    assert agents.given() == ["claude", "--resume", first, "--", "go on"]
    agents.kildsvc("stop", name)
    agents.kildsvc("open", name)
    second = agents.given()[2]
    assert agents.given() == ["claude", "--session-id", second] and second != first
    agents.kildsvc("stop", name)
    agents.kildsvc("open", name, "--resume", first)
    assert agents.given() == ["claude", "--resume", first]
    assert agents.box.json("status", name)["conversations"] == [second, first]


def test_an_agent_that_names_its_conversations_itself(agents: Agents, name: str) -> None:
    agents.install("codex")
    agents.kildsvc("open", name, "--agent", "codex")
    id, other = "0199a213-81c0-7800-8aa1-bbab2a035a53", "0199a213-81c0-7800-8aa1-bbab2a035a54"

    def converse(id: str, when: str) -> None:
        """As codex does; at a time, for want of one that was long ago."""
        agents.box.sh(
            """d=~/.codex/sessions/$(date +%Y/%m/%d); mkdir -p $d
            about="{\\"id\\": \\"$1\\", \\"cwd\\": \\"$HOME\\", \\"timestamp\\": \\"$(date -Is -d "$2")\\"}"
            line="{\\"type\\": \\"session_meta\\", \\"payload\\": $about}"
            echo "$line" >$d/rollout-$(date +%FT%H-%M-%S)-$1.jsonl""",
            id,
            when,
        )

    converse(id, "now")
    agents.kildsvc("stop", name)
    converse(other, "now + 1 hour")  # by hand, when the session had ended
    agents.kildsvc("open", name, "--resume")
    assert agents.given() == ["codex", "resume", id]
    session = agents.box.json("status", name)
    assert (session["conversations"], session["word"]["conversation"]) == ([id], id)
    agents.kildsvc("stop", name)
    agents.box.sh("find ~/.codex -name 'rollout-*' -exec touch -d '1 hour ago' {} +")
    agents.kildsvc("open", name)
    session = agents.box.json("status", name)
    assert (session["conversations"], session["word"]) == ([id], None), "this run has said nothing yet"
    agents.box.sh("rm -rf ~/.codex")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "amp", "--resume"], "'amp' cannot resume"),
        (["--agent", "codex", "--resume"], "no conversation of 'codex' is known"),
        (["--agent", "opencode", "--yolo"], "'opencode' has no flags"),
        (["--agent", "gemini"], "command 'gemini' was not found"),
        (["--agent", "nobody"], "there is no agent 'nobody'"),
        (["--prompt", "x", "--", "sleep", "9"], "--prompt is for agents"),
        (["--agent", "claude", "--prompt", "@/no/such"], "No such file"),
        ([], "which agent? claude, codex, opencode, amp are here"),
    ],
)
def test_refused_before_anything_is_made(agents: Agents, name: str, arguments: list[str], message: str) -> None:
    agents.install("claude", "codex", "opencode", "amp")
    done = agents.kildsvc("open", name, *arguments, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert agents.box.kildsvc("status", name, check=False).returncode == 4
    assert agents.box.sh("ls ~/given.json 2>&1 || :").endswith("No such file or directory\n")


def test_the_default(agents: Agents, name: str) -> None:
    none = agents.kildsvc("open", name, check=False)
    assert none.returncode == 2 and "no agent is installed" in none.stderr
    agents.install("codex")
    agents.kildsvc("open", name)
    assert agents.given() == ["codex"]
    agents.install("claude", "mine")
    settings = 'agent = "mine"\n[agents.mine]\ncommand = ["mine", "chat"]\nprompt = ["-m", "{}"]\n'
    agents.box.run("sh", "-c", "mkdir -p ~/.config/kildsvc; cat >~/.config/kildsvc/config.toml", stdin=settings)
    agents.kildsvc("open", f"{name}-2", "--prompt", "hello")
    assert agents.given() == ["mine", "chat", "-m", "hello"]
    found = {one["name"]: one for one in json.loads(agents.kildsvc("agents", "--json").stdout)}
    assert found["mine"]["default"] and found["mine"]["version"] == "mine 1.2.3 (stand-in)"
    assert found["claude"]["path"] == "/home/dev/agents/claude" and found["claude"]["can_resume"]
    assert found["gemini"]["path"] is None
    assert "no 'gemini' in PATH" in agents.kildsvc("agents").stdout


def test_a_profile_says_what_was_not_asked_for(agents: Agents, name: str) -> None:
    agents.install("claude", "codex")
    settings = (
        '[profiles.review]\nagent = "claude"\nmodel = "opus"\nyolo = true\narguments = ["--verbose"]\n'
        'limits = { nofile = 99 }\n[profiles.other]\nsandbox = "off"\n'
    )
    agents.box.run("sh", "-c", "mkdir -p ~/.config/kildsvc; cat >~/.config/kildsvc/config.toml", stdin=settings)
    agents.kildsvc("open", name, "--profile", "review", "--model", "haiku")
    assert agents.given()[3:] == ["--dangerously-skip-permissions", "--model", "haiku", "--verbose"]
    assert agents.box.json("status", name)["limits"]["nofile"] == 99
    done = agents.kildsvc("open", f"{name}-2", "--profile", "revue", check=False)
    assert (done.returncode, "there is no profile 'revue' (there are other, review)" in done.stderr) == (2, True)


def test_what_was_running_comes_back(agents: Agents, name: str) -> None:
    """The manager goes down as at a shutdown; what was stopped before, or had ended, stays so."""
    agents.install("claude")
    agents.box.sh("echo 'export PATH=~/agents:$PATH FROM_LOGIN=yes' >~/.bash_profile")
    agents.kildsvc("open", f"{name}-agent", "--agent", "claude")
    conversation = agents.given()[2]
    agents.kildsvc("open", f"{name}-stopped", "--", "sleep", "1000")
    agents.kildsvc("stop", f"{name}-stopped")
    agents.kildsvc("open", f"{name}-ended", "--", "sh", "-c", "sleep .5; exit 3")
    agents.box.wait_ended(f"{name}-ended")
    agents.kildsvc("open", f"{name}-plain", "--", "sh", "-c", "echo from $FROM_LOGIN; exec sleep 1000")
    agents.box.restart_manager()
    back = agents.box.kildsvc("open", "--all", "--resume", timeout=60)
    assert sorted(back.stdout.splitlines()) == [f"{name}-agent: running again", f"{name}-plain: running again"]
    assert agents.given() == ["claude", "--resume", conversation]
    wait_until("its output", lambda: "from yes" in agents.box.kildsvc("logs", f"{name}-plain").stdout)
    states = {one["name"].removeprefix(f"{name}-"): one["state"] for one in agents.box.json("list")}
    assert states == {"agent": "running", "plain": "running", "stopped": "stopped", "ended": "exited"}
    assert agents.box.kildsvc("open", "--all").stdout == "nothing was running\n"
