"""What a session is to run, and where: as asked, else as it was before, else as the settings say."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kildsvc import config, environment, paths
from kildsvc.agents import table
from kildsvc.errors import UsageError
from kildsvc.model import Metadata, parse_labels
from kildsvc.operations import agent as agents
from kildsvc.operations.agent import Wish
from kildsvc.operations.confine import choose

SHELL = "shell"  # as the name of an agent: the user's login shell


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    name: str
    command: list[str] = field(default_factory=list)  # with an agent: more arguments for it
    shell: bool = False
    wish: Wish = field(default_factory=Wish)
    profile: str | None = None  # of the settings: what is not asked for otherwise
    cwd: str | None = None
    env: tuple[str, ...] = ()
    rows: int = 24
    cols: int = 80
    grace_usec: int | None = None
    note: str | None = None
    labels: tuple[str, ...] = ()
    sandbox: str | None = None
    write: tuple[str, ...] = ()
    limits: Mapping[str, str] = field(default_factory=dict)
    notify: bool | None = None
    best_effort: bool = False  # limits that would have no effect are left out
    caller: Mapping[str, str] | None = None  # instead of our own environment


@dataclass(frozen=True)
class Resolved:
    """What is to be started."""

    metadata: Metadata
    settings: config.Config
    env: dict[str, str]
    takes_terminal: bool
    paste: str  # a prompt that is to be pasted when the agent is up


@dataclass(frozen=True)
class _Command:
    """The command itself, and what it is called."""

    argv: list[str]
    agent: str
    shell: bool = False
    chosen: agents.Chosen | None = None


def resolve(request: Request, remembered: Metadata | None, warnings: list[str]) -> Resolved:
    """Every mistake is found here, before anything is made. Raises UsageError."""
    extra = environment.parse_assignments(request.env)
    anew = bool(request.command or request.shell or request.wish.agent)
    cwd = environment.find_cwd(request.cwd or (remembered.cwd if remembered and not anew else None))
    settings = config.load(cwd)
    request = _with_profile(request, settings)
    again = None if anew or request.wish.agent else remembered
    caller = os.environ if request.caller is None else request.caller
    env = environment.for_agent(caller, request.name, cwd, extra, settings.table("env"), settings.table("env", "set"))
    command = _command(request, remembered, settings, env, cwd)
    if again and (missing := [name for name in again.env_names if name not in extra]):
        warnings.append(f"values given with --env are not remembered: {', '.join(missing)}")
    executable = environment.find_executable(command.argv[0], cwd, env)
    argv = [f"-{os.path.basename(executable)}"] if command.shell else command.argv
    chosen = command.chosen
    metadata = Metadata(
        name=request.name,
        argv=argv,
        executable=executable,
        agent=command.agent,
        cwd=cwd,
        created=time.time(),
        note=request.note if request.note is not None else (remembered.note if remembered else ""),
        env_names=sorted(extra),
        shell=command.shell,
        grace_usec=request.grace_usec if request.grace_usec is not None else again.grace_usec if again else None,
        labels={**(remembered.labels if remembered else {}), **parse_labels(request.labels)},
        former=remembered.former if remembered else [],
        known=bool(chosen),
        yolo=bool(chosen and chosen.yolo),
        model=chosen.model if chosen else "",
        extra=chosen.extra if chosen else [],
        conversations=chosen.conversations if chosen else [],
        sandbox=choose(request.sandbox, remembered, command.agent, settings),
        limits={**(again.limits if again else {}), **request.limits},
        notify=request.notify if request.notify is not None else remembered.notify if remembered else None,
        write=[os.path.abspath(os.path.expanduser(path)) for path in request.write] or (again.write if again else []),
    )
    takes_terminal = bool(chosen and chosen.agent.takes_terminal)
    return Resolved(metadata, settings, env, takes_terminal, chosen.paste if chosen else "")


def _with_profile(request: Request, settings: config.Config) -> Request:
    if not request.profile:
        return request
    known = settings.names("profiles")
    if request.profile not in known:
        hint = f"there are {', '.join(known)}" if known else f"[profiles.{request.profile}] in {paths.config_file()}"
        raise UsageError(f"there is no profile '{request.profile}'", hint)
    table, wish = settings.table("profiles", request.profile), request.wish
    return replace(
        request,
        wish=replace(
            wish,
            agent=wish.agent or (None if request.command or request.shell else table.get("agent")),
            yolo=table.get("yolo") if wish.yolo is None else wish.yolo,
            model=table.get("model") if wish.model is None else wish.model,
        ),
        command=request.command or table.get("arguments", []),
        sandbox=request.sandbox or table.get("sandbox"),
        limits={**settings.table("profiles", request.profile, "limits"), **request.limits},
    )


def _command(
    request: Request, remembered: Metadata | None, settings: config.Config, env: Mapping[str, str], cwd: str
) -> _Command:
    wish = request.wish
    if (
        request.shell
        or wish.agent == SHELL
        or (remembered and remembered.shell and not (request.command or wish.agent))
    ):
        _only_for_agents(wish)
        if request.command:
            raise UsageError("give either a command or --shell, not both")
        shell = environment.login_shell(env)
        return _Command([shell], os.path.basename(shell), shell=True)
    if request.command and not wish.agent:
        _only_for_agents(wish)
        return _Command(request.command, table.name_of(request.command[0]))
    if remembered and not wish.agent and not remembered.known:
        _only_for_agents(wish)
        return _Command(remembered.argv, remembered.agent)
    if not remembered and not wish.agent:
        wish = Wish(agents.default(settings, env, cwd), wish.yolo, wish.model, wish.prompt, wish.resume)
    chosen = agents.choose(wish, request.command, remembered, settings)
    return _Command(chosen.argv, chosen.agent.name, chosen=chosen)


def _only_for_agents(wish: Wish) -> None:
    asked = {"--yolo": wish.yolo, "--model": wish.model, "--prompt": wish.prompt, "--resume": wish.resume is not None}
    if given := [option for option, value in asked.items() if value]:
        raise UsageError(f"{given[0]} is for agents, not for a command or a shell", "give --agent NAME")
