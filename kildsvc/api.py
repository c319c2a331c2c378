"""kildsvc for Python programs: `import kildsvc` gives all of this. The command line is made of the same calls.

    import kildsvc

    session = kildsvc.open("api", ["claude"], labels={"team": "web"})
    result = session.wait(timeout=600)        # or kildsvc.wait("api", "web", any=True)
    print(result.status, result.exit_code)    # "exited" 0; "alive" None when the time was over

    for one in kildsvc.sessions(states=["running"]):
        print(one.name, one.idle, one.mark)

    async for event in kildsvc.events():
        print(event.name, event.event)

Every failure is a kildsvc.KildError with .message, .hint and a stable .code. The calls block, except those that are
coroutines; a program with a running event loop uses `wait_async`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kildsvc import quantity
from kildsvc.errors import KildError, NoSuchSession, NotRunning, UsageError
from kildsvc.model import Event, Mark, Session, Waited

if TYPE_CHECKING:
    from kildsvc.operations.limit import Changed
    from kildsvc.operations.stop import Stopped
    from kildsvc.operations.wait import Condition
    from kildsvc.operations.worktree import Plan

T = TypeVar("T")

__all__ = [
    "Event",
    "Handle",
    "KildError",
    "Mark",
    "NoSuchSession",
    "NotRunning",
    "Session",
    "UsageError",
    "Waited",
    "create",
    "destroy",
    "events",
    "label",
    "limit",
    "mark",
    "note",
    "open",
    "pause",
    "rename",
    "sessions",
    "status",
    "stop",
    "unpause",
    "wait",
    "wait_async",
]


@dataclass(frozen=True)
class Handle:
    """A session that was opened."""

    name: str
    unit: str
    run: str
    pid: int | None
    warnings: list[str]

    def wait(self, timeout: float | None = None, until: str = "exit") -> Waited:
        """For this run of it, whoever runs it again meanwhile."""
        return _run_async(self.wait_async(timeout, until))

    async def wait_async(self, timeout: float | None = None, until: str = "exit") -> Waited:
        (result,) = [one async for one in waiting([self.name], condition(until), timeout, False, self.run)]
        return result

    def status(self) -> Session:
        return status(self.name)

    def stop(self) -> Session:
        return stop(self.name)[0].session

    def destroy(self, force: bool = False) -> None:
        destroy(self.name, force)


def open(
    name: str,
    command: Sequence[str] = (),
    *,
    agent: str | None = None,
    profile: str | None = None,
    prompt: str = "",
    yolo: bool | None = None,
    model: str | None = None,
    resume: str | None = None,
    shell: bool = False,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    rows: int = 24,
    cols: int = 80,
    grace: float | None = None,
    note: str | None = None,
    labels: Mapping[str, str] | None = None,
    sandbox: str | None = None,
    write: Sequence[str] = (),
    limits: Mapping[str, str | int] | None = None,
    best_effort: bool = False,
    notify: bool | None = None,
    _plan: Plan | None = None,
) -> Handle:
    """Opens a session and returns when its agent is up; raises AgentExitedEarly when it ended before.

    With an agent, `command` is more arguments for it, and `resume` the id of a conversation to go on with ('' is the
    last). Without a command and an agent an ended session is run again. With `grace` 0 an agent is up when it is
    executed. `sandbox` is the name of a profile (workspace, strict, off), `write` what it may write to beside its
    work tree. `limits` are those of the command line, such as {"memory": "4G", "cpu": "200%"}; one that would have no
    effect here raises NoEffect, or is left out with `best_effort`. `notify` says whether people are told when it
    ends, waits or rings; None leaves it to the settings.
    """
    from kildsvc.operations.agent import Wish
    from kildsvc.operations.open import open_session
    from kildsvc.operations.resolve import Request

    request = Request(
        name=name,
        command=list(command),
        wish=Wish(agent, yolo, model, prompt, resume),
        profile=profile,
        shell=shell,
        cwd=cwd,
        env=tuple(f"{key}={value}" for key, value in (env or {}).items()),
        rows=rows,
        cols=cols,
        grace_usec=None if grace is None else int(grace * 1e6),
        note=note,
        labels=tuple(f"{key}={value}" for key, value in (labels or {}).items()),
        sandbox=sandbox,
        write=tuple(write),
        limits={key: str(value) for key, value in (limits or {}).items()},
        best_effort=best_effort,
        notify=notify,
    )
    if _plan:
        from kildsvc.operations.worktree import create_session

        opened = create_session(_plan, request)
    else:
        opened = open_session(request)
    return Handle(opened.name, opened.unit, opened.run, opened.pid, opened.warnings)


def create(
    name: str,
    command: Sequence[str] = (),
    *,
    repo: str | None = None,
    base: str | None = None,
    branch: str | None = None,
    copy: Sequence[str] | None = None,
    setup: str | None = None,
    **options: Any,
) -> Handle:
    """Opens a session in a git worktree of its own, on a new branch kild/NAME; `options` are those of open().

    Untracked files that fit `copy` come along (.env and .env.* when it is None), `setup` is run in the worktree by a
    shell. If anything fails, nothing of it is left.
    """
    from kildsvc.operations.worktree import DEFAULT_COPY, Plan

    plan = Plan(repo, base, branch, DEFAULT_COPY if copy is None else tuple(copy), setup)
    return open(name, command, **options, _plan=plan)


def status(name: str) -> Session:
    """How it is now, or how its last run ended. Raises NoSuchSession."""
    from kildsvc.operations.sessions import status
    from kildsvc.operations.word import with_words

    return next(with_words([status(name)]))


def sessions(
    *,
    states: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    cwd: str = "",
    agent: str = "",
    words: bool = False,
    _full: bool = True,
) -> list[Session]:
    """All sessions, running and ended, or those that fit; with `words` also what their agents wrote."""
    from kildsvc.operations.sessions import Filter, list_sessions

    found = list_sessions(Filter(tuple(states), tuple((labels or {}).items()), cwd, agent), _full)
    if words:
        from kildsvc.operations.word import with_words

        found = list(with_words(found))
    return found


def stop(*names: str) -> list[Stopped]:
    """Stops them side by side; every process of them is gone when this returns."""
    from kildsvc.operations.stop import stop_sessions

    return stop_sessions(list(dict.fromkeys(names)))


def limit(name: str, limits: Mapping[str, str | int], best_effort: bool = False) -> Changed:
    """Changes limits of a running session; "infinity" takes one away. Returns the session as it is then."""
    from kildsvc.operations.limit import limit

    return limit(name, {key: str(value) for key, value in limits.items()}, best_effort)


def pause(*names: str) -> list[Session]:
    """Freezes their agents with all they started, until `unpause`. They go on as if nothing had been."""
    from kildsvc.operations.pause import pause_sessions

    return pause_sessions(list(dict.fromkeys(names)))


def unpause(*names: str) -> list[Session]:
    from kildsvc.operations.pause import unpause_sessions

    return unpause_sessions(list(dict.fromkeys(names)))


def destroy(name: str, force: bool = False) -> None:
    """Forgets a session with its worktree; with force also one that is running, or has work that is nowhere else.
    What it printed stays in the journal."""
    from kildsvc.operations.stop import destroy

    destroy(name, force)


def mark(name: str, state: str, text: str = "") -> Mark:
    """Says of a running session that it is 'working', 'waiting' or 'done'."""
    from kildsvc.operations.mark import mark

    return mark(name, state, text)


def note(name: str, text: str | None = None) -> str:
    """The line about a session; with a text, that is set first. An empty one clears it."""
    from kildsvc.operations.about import note

    return note(name, text)


def label(name: str, labels: Mapping[str, str] | None = None, remove: Iterable[str] = ()) -> dict[str, str]:
    """The labels of a session, after these have been set and removed."""
    from kildsvc.operations.about import label

    return label(name, labels or {}, remove)


def rename(name: str, new: str) -> Session:
    """Gives an ended session another name."""
    from kildsvc.operations.about import rename

    return rename(name, new)


def wait(*names: str, timeout: float | None = None, until: str = "exit", any: bool = False) -> list[Waited]:
    """Blocks until all of the sessions (or one, with `any`) have ended, or are as `until` says, or time is over.

    `until` is "exit", "ready", "idle=SECONDS" or "output=REGEX". One result per session; with `any` the first.
    """
    return _run_async(wait_async(*names, timeout=timeout, until=until, any=any))


def _run_async(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # not above: most programs, and most commands of ours, do without

    return asyncio.run(work)


async def wait_async(
    *names: str, timeout: float | None = None, until: str = "exit", any: bool = False
) -> list[Waited]:
    return [result async for result in waiting(names, condition(until), timeout, any)]


async def waiting(
    names: Sequence[str], condition: Condition, timeout: float | None, any: bool, run: str | None = None
) -> AsyncGenerator[Waited, None]:
    """The results of a wait, each as soon as it is there."""
    from kildsvc.operations.wait import wait

    async with aclosing(wait(list(dict.fromkeys(names)), condition, timeout, run)) as results:
        async for result in results:
            yield result
            if any and result.reason != "timeout":
                return


def condition(until: str) -> Condition:
    from kildsvc.operations.wait import Condition

    kind, separator, value = until.partition("=")
    try:
        if kind in ("exit", "ready") and not separator:
            return Condition(kind)
        if kind == "idle" and value:
            return Condition(kind, seconds=quantity.duration(value) / 1e6)
        if kind == "output" and value:
            return Condition(kind, pattern=re.compile(value))
    except (ValueError, re.error) as error:
        raise UsageError(f"cannot wait for '{until}': {error}") from error
    raise UsageError(f"cannot wait for '{until}'", "exit, ready, idle=30s or output=REGEX")


async def events(*names: str, since: str | None = None) -> AsyncGenerator[Event, None]:
    """What happens to sessions (all, or those named), for ever: from now on, or after the cursor of an event."""
    from kildsvc.operations.events import events

    async with aclosing(events(list(names), since)) as stream:
        async for event in stream:
            yield event
