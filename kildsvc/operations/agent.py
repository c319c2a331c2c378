"""Which agent a session runs, and its conversations."""

import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from kildsvc import config, environment
from kildsvc.agents import table
from kildsvc.agents.table import Agent, Ask, Installed
from kildsvc.errors import UsageError
from kildsvc.model import Metadata
from kildsvc.operations import sessions, word

VERSION_SEC = 5.0


@dataclass(frozen=True)
class Wish:
    """How an agent was asked for; what is None is as it was before."""

    agent: str | None = None
    yolo: bool | None = None
    model: str | None = None
    prompt: str = ""
    resume: str | None = None  # a conversation; '' is the last one


@dataclass(frozen=True)
class Chosen:
    """An agent, and the words that start it."""

    agent: Agent
    argv: list[str]
    yolo: bool
    model: str
    extra: list[str]
    conversations: list[str] = field(default_factory=list)  # newest last
    paste: str = ""  # a prompt its arguments cannot hold


def choose(wish: Wish, extra: list[str], remembered: Metadata | None, settings: config.Config) -> Chosen:
    """The command line of the agent that was asked for, or that this session ran before. Raises UsageError."""
    name = wish.agent or (remembered.agent if remembered and remembered.known else "")
    before = remembered if remembered and remembered.known and remembered.agent == name else None
    agent = find(name, settings)
    old = known_conversations(before, agent) if before else []
    resume = ""
    if wish.resume is not None:
        resume = wish.resume or (old[-1] if old else "")
        if not agent.resume:
            raise UsageError(f"'{name}' cannot resume a conversation", "leave out --resume to begin a new one")
        if not resume:
            raise UsageError(f"no conversation of '{name}' is known here to resume", "give its id: --resume ID")
    new = str(uuid.uuid4()) if agent.session_id and not resume else ""
    yolo = wish.yolo if wish.yolo is not None else bool(before and before.yolo)
    model = wish.model if wish.model is not None else before.model if before else ""
    extra = extra or (before.extra if before else [])
    argv, paste = table.command_line(agent, Ask(yolo, model, new, resume, extra, wish.prompt))
    current = resume or new
    conversations = [one for one in old if one != current] + ([current] if current else [])
    return Chosen(agent, argv, yolo, model, extra, conversations, paste)


def find(name: str, settings: config.Config) -> Agent:
    return table.from_settings(name, settings.table("agents", name))


def default(settings: config.Config, env: Mapping[str, str], cwd: str) -> str:
    """The configured one, else the only one there is. Raises UsageError."""
    if configured := settings.get("agent"):
        return str(configured)
    found = [name for name in settings.agents() if _where(find(name, settings), env, cwd)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"which agent? {', '.join(found)} are here",
            f'--agent {found[0]}, or `agent = "{found[0]}"` in the settings',
        )
    raise UsageError("no agent is installed", f"known: {', '.join(table.KNOWN)}; or give a command after --")


def known_conversations(metadata: Metadata, agent: Agent) -> list[str]:
    """Those we know of, newest last; where the agent chooses their ids itself, its own records tell the last one."""
    known = metadata.conversations
    if agent.session_id:
        return known
    found = word.conversation_of(sessions.status(metadata.name))
    return [*(one for one in known if one != found), found] if found else known


def installed() -> list[Installed]:
    """Every known agent: whether it is here, and which version."""
    from concurrent.futures import ThreadPoolExecutor

    settings = config.load()
    env = dict(os.environ)
    try:
        chosen = default(settings, env, "/")
    except UsageError:
        chosen = ""
    agents = [find(name, settings) for name in settings.agents()]
    paths = [_where(agent, env, "/") for agent in agents]
    with ThreadPoolExecutor(len(agents)) as pool:
        versions = list(pool.map(_version, paths))
    return [
        Installed(
            agent.name, agent.command[0], path, version, bool(agent.resume), bool(agent.yolo), agent.name == chosen
        )
        for agent, path, version in zip(agents, paths, versions, strict=True)
    ]


def _where(agent: Agent, env: Mapping[str, str], cwd: str) -> str | None:
    try:
        return environment.find_executable(agent.command[0], cwd, env)
    except UsageError:
        return None


def _version(path: str | None) -> str | None:
    """The first line of what it says of itself; None when it says nothing in time."""
    if not path:
        return None
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_SEC,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.decode(errors="replace").split("\n")
    return lines[0].strip()[:60] or None if done.returncode == 0 else None
