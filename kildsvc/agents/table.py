"""The agents we know: how each is started, given a prompt, and made to go on with a conversation. Pure.

Arguments are templates: '{}' stands for the value. A prompt comes after '--' or behind '=', so that one that begins
with a '-' is not taken for an option.
"""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from kildsvc.errors import UsageError

# Linux takes no single argument longer than this, its NUL included (MAX_ARG_STRLEN).
ARGUMENT_MAX = 32 * 4096

Template = tuple[str, ...]


@dataclass(frozen=True)
class Agent:
    """A program that is known: how it is started, and how it is asked for what people want of it."""

    name: str
    command: Template
    flags: Template = ()  # always given
    yolo: Template = ()  # acts without asking
    model: Template = ()
    prompt: Template = ()  # none: it is pasted when the agent is up
    session_id: Template = ()  # begins a conversation with an id of ours
    resume: Template = ()  # goes on with one
    takes_terminal: bool = True  # up means that it has left the line-by-line mode of a terminal


_TABLE = (
    Agent(
        "claude",
        ("claude",),
        yolo=("--dangerously-skip-permissions",),
        model=("--model", "{}"),
        prompt=("--", "{}"),
        session_id=("--session-id", "{}"),
        resume=("--resume", "{}"),
    ),
    Agent(
        "codex",
        ("codex",),
        yolo=("--dangerously-bypass-approvals-and-sandbox",),
        model=("--model", "{}"),
        prompt=("--", "{}"),
        resume=("resume", "{}"),
    ),
    Agent(
        "gemini",
        ("gemini",),
        yolo=("--yolo",),
        model=("--model", "{}"),
        prompt=("--prompt-interactive={}",),
        resume=("--resume", "{}"),
    ),
    Agent(
        "opencode",
        ("opencode",),
        model=("--model", "{}"),
        prompt=("--prompt={}",),
        resume=("--session", "{}"),
    ),
    Agent("amp", ("amp",), yolo=("--dangerously-allow-all",)),
    Agent(
        "kiro",
        ("kiro-cli", "chat"),
        yolo=("--trust-all-tools",),
        model=("--model", "{}"),
        prompt=("--", "{}"),
        resume=("--resume-id", "{}"),
    ),
)
KNOWN = {agent.name: agent for agent in _TABLE}
# What a configuration may say of an agent: the same, as lists of strings.
SETTINGS = tuple(field.name for field in fields(Agent) if field.name != "name")


def name_of(command: str) -> str:
    """What a command is called: by the name of its agent where we know it."""
    program = os.path.basename(command).lstrip("-")
    return next((agent.name for agent in _TABLE if agent.command[0] == program), program) or "agent"


def from_settings(name: str, settings: dict[str, Any]) -> Agent:
    """A known agent with the user's changes, or one that only the user knows. Raises UsageError."""
    given = {
        key: tuple(value) if isinstance(value, list) else value for key, value in settings.items() if key in SETTINGS
    }
    if known := KNOWN.get(name):
        return Agent(**{**known.__dict__, **given})
    if not given.get("command"):
        raise UsageError(f"there is no agent '{name}'", f"known: {', '.join(KNOWN)}; [agents.{name}] command = […]")
    own: dict[str, Any] = {"takes_terminal": False, **given, "name": name}
    return Agent(**own)


@dataclass(frozen=True)
class Ask:
    """What one start of an agent should be."""

    yolo: bool = False
    model: str = ""
    session_id: str = ""  # for a new conversation
    resume: str = ""  # the one to go on with
    extra: Sequence[str] = ()
    prompt: str = ""


def command_line(agent: Agent, ask: Ask) -> tuple[list[str], str]:
    """Its arguments, and the part of the prompt that they cannot hold and that is to be pasted. Raises UsageError."""
    argv = [*agent.command]
    argv += _filled(agent, "resume", ask.resume, "cannot resume a conversation")
    argv += _filled(agent, "session_id", ask.session_id, "")
    argv += agent.flags
    if ask.yolo:
        if not agent.yolo:
            raise UsageError(f"'{agent.name}' has no flags that make it act without asking", "leave out --yolo")
        argv += agent.yolo
    argv += _filled(agent, "model", ask.model, "cannot be told its model", "leave out --model")
    argv += ask.extra
    if "\0" in ask.prompt:
        raise UsageError("a prompt cannot contain a NUL")
    prompt = [part.replace("{}", ask.prompt) for part in agent.prompt] if ask.prompt else []
    if any(len(part.encode(errors="surrogateescape")) >= ARGUMENT_MAX for part in prompt) or not agent.prompt:
        return argv, ask.prompt
    return argv + prompt, ""


def _filled(agent: Agent, part: str, value: str, problem: str, hint: str = "") -> list[str]:
    template: Template = getattr(agent, part)
    if value and not template and problem:
        raise UsageError(f"'{agent.name}' {problem}", hint)
    return [piece.replace("{}", value) for piece in template] if value else []


@dataclass(frozen=True)
class Installed:
    """A known agent, as it is on this machine."""

    name: str
    command: str
    path: str | None
    version: str | None
    can_resume: bool
    can_yolo: bool
    default: bool
