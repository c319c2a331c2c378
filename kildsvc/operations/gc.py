"""Forgetting sessions that ended long ago: never one that lives, comes back, or has work in its worktree."""

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from kildsvc import config, model, quantity, runtime, store
from kildsvc.errors import Busy, KildError, NoSuchSession
from kildsvc.model import Metadata, Session
from kildsvc.operations import sessions
from kildsvc.operations.bring_back import comes_back
from kildsvc.operations.stop import forget
from kildsvc.operations.worktree import refuse_in_use, refuse_loss
from kildsvc.systemd.manager import Manager

DEFAULT_TTL = "30d"
_BY_ITSELF = (model.EXITED, model.KILLED, model.OOM, model.TIMEOUT)
# Not "all but the living": an orphan is kept, and so is whatever state there may be some day.
_OVER = (*_BY_ITSELF, model.STOPPED, model.UNOBSERVED, model.LOST)


@dataclass(frozen=True)
class Judged:
    """An ended session: forgotten, or why not."""

    name: str
    forgotten: bool
    reason: str  # how long ago it ended, or why it is kept

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def why_kept(session: Session, metadata: Metadata | None, now: float, ttl_sec: float) -> str:
    """Empty for one whose time is over. Pure; what is in its worktree, and who holds its lock, is asked elsewhere."""
    if session.state not in _OVER:
        return f"is {session.state}"
    if metadata and comes_back(session, metadata):
        return "comes back with 'kildsvc open --all'"
    times = [one for one in (session.ended, session.started, session.last_output, session.last_input) if one]
    if not times:
        return "nobody knows when it ended"
    if not now - max(times) > ttl_sec:
        return "has not ended long ago"
    return ""


def collect(dry_run: bool = False, ttl_usec: float | None = None) -> list[Judged]:
    """Forgets what is over for longer than the settings say, and tells what it kept of that. Raises UsageError."""
    if ttl_usec is None:
        ttl_usec = config.load().get("ttl")
    ttl_sec = (quantity.ttl(DEFAULT_TTL) if ttl_usec is None else ttl_usec) / 1e6
    judged = []
    for session in sessions.list_sessions():
        try:
            if not dry_run:
                _unwant(session)
            if not why_kept(session, None, time.time(), ttl_sec):
                judged.append(_try(session, ttl_sec) if dry_run else _forget(session.name, ttl_sec))
        except NoSuchSession:
            continue  # forgotten meanwhile
        except KildError as error:  # work in its worktree, somebody in it, or just being opened
            judged.append(Judged(session.name, False, error.message))
    return judged


def _forget(name: str, ttl_sec: float) -> Judged:
    with runtime.locked(name) as directory, Manager() as manager:
        session = sessions.status(name)  # it may have been opened until we had its lock
        verdict = _decide(session, ttl_sec)
        if verdict.forgotten:
            forget(manager, session, directory)
        return verdict


def _try(session: Session, ttl_sec: float) -> Judged:
    if runtime.is_locked(session.name):
        raise Busy(f"session '{session.name}' is being opened or changed by another command")
    return _decide(session, ttl_sec)


def _decide(session: Session, ttl_sec: float) -> Judged:
    """Raises KildError for what its worktree has."""
    now = time.time()
    if reason := why_kept(session, store.load(session.name), now, ttl_sec):
        return Judged(session.name, False, reason)
    if session.worktree:
        refuse_in_use(session.worktree, set())
        refuse_loss(session.name, session.worktree)
    days = (now - (session.ended or session.started or now)) / 86400
    return Judged(session.name, True, f"ended {quantity.counted(math.floor(days), 'day')} ago")


def _unwant(session: Session) -> None:
    """It has ended by itself. The journal, which knows that, may forget it before anybody opens what was running."""
    metadata = store.load(session.name)
    if not metadata or not metadata.wanted or session.state not in _BY_ITSELF:
        return
    with runtime.locked(session.name):
        metadata = store.load(session.name)
        if metadata and sessions.status(session.name).state in _BY_ITSELF:
            store.save(replace(metadata, wanted=False))
