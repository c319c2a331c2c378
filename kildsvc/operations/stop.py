"""Ending a session: whole, and not before every process of it is gone."""

import signal
from dataclasses import dataclass, replace
from pathlib import Path

from kildsvc import model, runtime, store
from kildsvc.errors import AlreadyRunning, KildError, NoSuchSession
from kildsvc.model import Session, unit_of
from kildsvc.operations import sessions
from kildsvc.operations.mark import tell
from kildsvc.operations.open import forget_unit
from kildsvc.operations.pause import thaw
from kildsvc.operations.worktree import refuse_in_use, refuse_loss, remove
from kildsvc.systemd.manager import Manager

# More than the unit's own TimeoutStopUSec: systemd has killed everything by then.
STOP_SEC = 60
KILL_SEC = 10


@dataclass(frozen=True)
class Stopped:
    """A session that does not run."""

    session: Session
    was_running: bool


def stop_sessions(names: list[str]) -> list[Stopped]:
    """Stops all of them side by side. A session that has ended already is left as it is."""
    for name in names:
        model.check_name(name)
    with Manager() as manager:
        running = {}
        for name in names:
            found = manager.get(unit_of(name), "LoadState", "ActiveState")
            if found["LoadState"] != "loaded" and not store.load(name):
                raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
            running[name] = found["LoadState"] == "loaded" and found["ActiveState"] not in ("inactive", "failed")
        for name in names:
            _unwant(name)
        jobs = {}
        for name in names:
            manager.listen(unit_of(name))
            thaw(manager, name)
            # Also for one that has ended: a restart may be on its way.
            jobs[name] = manager.stop(unit_of(name)) if running[name] else None
        for name in names:
            _wait_gone(manager, name, jobs[name])
    return [Stopped(sessions.status(name), running[name]) for name in names]


def _unwant(name: str) -> None:
    """It does not come back after a reboot: somebody has stopped it."""
    metadata = store.load(name)
    if metadata and metadata.wanted:
        store.save(replace(metadata, wanted=False))


def _wait_gone(manager: Manager, name: str, job: str | None) -> None:
    if job and manager.wait_job(job, STOP_SEC) is None:
        raise KildError(
            f"session '{name}' has not stopped in {STOP_SEC} s", f"systemctl --user status {unit_of(name)}"
        )
    group = sessions.group_of(manager, name)
    if not group.populated:
        return
    # A crash of the shim in the very moment of the stop leaves its agent behind.
    manager.kill(unit_of(name), signal.SIGKILL)
    if not group.wait_empty(KILL_SEC):
        raise KildError(
            f"processes of '{name}' do not end, even by SIGKILL: the kernel holds them",
            f"systemd-cgls --user-unit {unit_of(name)}",
        )


def everything_but_own() -> list[str]:
    """Every running session, but the one this process is part of: it could not finish its work."""
    own = sessions.own_session()
    return [name for name in sessions.running_names() if name != own]


def destroy(name: str, force: bool) -> None:
    """Forgets a session: unit, runtime files, metadata, worktree. Its lines stay in the journal.

    Raises WouldLose for work that is only there, unless forced; and InUse, always, for a stranger in the worktree.
    """
    try:
        session = sessions.status(name)
    except NoSuchSession:
        _sweep(name)
        raise
    if session.alive:
        if not force:
            raise _lives(session)
        if session.worktree:
            with Manager() as manager:
                refuse_in_use(session.worktree, {*sessions.group_of(manager, name).pids})
        stop_sessions([name])
    with runtime.locked(name) as directory, Manager() as manager:
        session = sessions.status(name)
        if session.alive:  # opened until we had the lock
            raise _lives(session)
        _wait_gone(manager, name, None)
        if session.worktree:
            refuse_in_use(session.worktree, set())
            if not force:
                refuse_loss(name, session.worktree)
        forget(manager, session, directory)


def _lives(session: Session) -> AlreadyRunning:
    name = session.name
    return AlreadyRunning(
        f"session '{name}' is {session.state}", f"kildsvc stop {name} first, or kildsvc destroy --force {name}"
    )


def forget(manager: Manager, session: Session, directory: Path) -> None:
    """All there is of an ended session, its worktree included. Whoever calls it has its lock, and looked before."""
    if session.worktree:
        remove(session.worktree)
    forget_unit(manager, session.name)
    runtime.clear(directory)
    store.forget(session.name)
    tell("removed", "forgotten", session.name, session.run or "", session.agent)


def _sweep(name: str) -> None:
    """What an open that was killed has left of a session that never was."""
    if runtime.left_over(name):
        with runtime.locked(name) as directory, Manager() as manager:
            forget_unit(manager, name)
            runtime.clear(directory)
