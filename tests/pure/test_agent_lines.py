"""The agents' command lines."""

import pytest

from kildsvc.agents.table import ARGUMENT_MAX, KNOWN, Agent, Ask, command_line, from_settings
from kildsvc.errors import UsageError


def line(name: str, **ask: object) -> list[str]:
    argv, left = command_line(KNOWN[name], Ask(**ask))  # type: ignore[arg-type]
    assert left == ""
    return argv


def test_plain() -> None:
    assert line("claude") == ["claude"]
    assert line("kiro") == ["kiro-cli", "chat"]


def test_everything_in_its_place() -> None:
    assert line("claude", yolo=True, model="opus", session_id="u", extra=["--add-dir", "x"], prompt="go") == [
        *("claude", "--session-id", "u", "--dangerously-skip-permissions", "--model", "opus"),
        *("--add-dir", "x", "--", "go"),
    ]
    assert line("codex", resume="ID", yolo=True, prompt="go on") == [
        *("codex", "resume", "ID", "--dangerously-bypass-approvals-and-sandbox", "--", "go on"),
    ]
    assert line("gemini", resume="ID", model="pro") == ["gemini", "--resume", "ID", "--model", "pro"]


@pytest.mark.parametrize("prompt", ["-p", "--help", 'it\'s "quoted" $HOME `x` \\', "two\nlines\n", "{}", "ü 日本"])
@pytest.mark.parametrize("name", [name for name, agent in KNOWN.items() if agent.prompt])
def test_a_prompt_arrives_verbatim_and_is_no_option(name: str, prompt: str) -> None:
    before, last = line(name), line(name, prompt=prompt)[len(line(name)) :]
    assert line(name, prompt=prompt)[: len(before)] == before
    assert last == ["--", prompt] or (len(last) == 1 and last[0].startswith("--") and last[0].endswith("=" + prompt))


def test_a_prompt_that_no_argument_holds_is_pasted() -> None:
    fits, too_long = "x" * (ARGUMENT_MAX - 1), "ü" * (ARGUMENT_MAX // 2)
    assert command_line(KNOWN["claude"], Ask(prompt=fits)) == (["claude", "--", fits], "")
    assert command_line(KNOWN["claude"], Ask(prompt=too_long)) == (["claude"], too_long)
    assert command_line(KNOWN["amp"], Ask(prompt="hello")) == (["amp"], "hello")


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("opencode", Ask(yolo=True)),
        ("amp", Ask(model="x")),
        ("amp", Ask(resume="x")),
        ("claude", Ask(prompt="a\0b")),
    ],
)
def test_what_an_agent_cannot_do_is_refused(name: str, ask: Ask) -> None:
    with pytest.raises(UsageError):
        command_line(KNOWN[name], ask)


def test_settings_change_an_agent_or_make_one() -> None:
    changed = from_settings("claude", {"command": ["/opt/claude"], "flags": ["--verbose"], "sandbox": "strict"})
    assert command_line(changed, Ask(yolo=True))[0] == ["/opt/claude", "--verbose", "--dangerously-skip-permissions"]
    own = from_settings("mine", {"command": ["my-agent"], "prompt": ["-m", "{}"]})
    assert own == Agent("mine", ("my-agent",), prompt=("-m", "{}"), takes_terminal=False)
    with pytest.raises(UsageError, match="there is no agent 'other'"):
        from_settings("other", {})
