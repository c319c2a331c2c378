"""Pausing: the kernel freezes the agent and all it started. Its shim goes on, so that the session can be looked at,
stopped and, should the shim crash, recovered."""

import os

from kildsvc import activity, model, runtime
from kildsvc.errors import KildError, NotRunning, UsageError
from kildsvc.model import Session, unit_of
from kildsvc.operations import sessions
from kildsvc.operations.mark import tell
from kildsvc.systemd.manager import Manager, Refused


def pause_sessions(names: list[str]) -> list[Session]:
    """Returns when every process is frozen. One that is paused already is left so."""
    for name in names:
        _alive(name)  # a mistake is found before anything is done
    return [_pause(name) for name in names]


def unpause_sessions(names: list[str]) -> list[Session]:
    """One that is not paused is left as it is."""
    for name in names:
        _alive(name)
    return [_unpause(name) for name in names]


def _pause(name: str) -> Session:
    with runtime.locked(name), Manager() as manager:
        session = _alive(name)
        group = sessions.group_of(manager, name)
        if os.getpid() in group.pids:
            raise UsageError(f"this runs in session '{name}', and would be frozen before it is done")
        if session.state == model.PAUSED:
            return session
        if session.state != model.RUNNING:
            raise KildError(f"session '{name}' is {session.state}, and cannot be paused", "try again")
        try:
            done = group.freeze(activity.is_supporting)
        except OSError as error:
            group.thaw()
            hint = "it takes cgroup v2 and Linux 5.2"
            raise KildError(f"the kernel does not let '{name}' be paused: {error.strerror}", hint) from error
        if not done:
            group.thaw()
            raise KildError(f"a process of '{name}' does not let itself be frozen: the kernel holds it", "try again")
        tell("paused", "paused", name, session.run or "", session.agent)
    return sessions.status(name)


def _unpause(name: str) -> Session:
    with runtime.locked(name), Manager() as manager:
        session = _alive(name)
        if thaw(manager, name):
            tell("resumed", "goes on after a pause", name, session.run or "", session.agent)
    return sessions.status(name)


def _alive(name: str) -> Session:
    session = sessions.status(name)
    if not session.alive:
        raise NotRunning(f"session '{name}' is not running: {session.cause}", f"kildsvc open {name}")
    return session


def thaw(manager: Manager, name: str) -> bool:
    """Whether there was something to thaw; also what `systemctl freeze` froze."""
    group = sessions.group_of(manager, name)
    frozen = group.frozen
    if group.frozen_whole:
        try:
            manager.thaw(unit_of(name))
        except Refused:
            pass  # a unit that is not active: systemd refuses, the kernel does not
    group.thaw()
    return frozen
