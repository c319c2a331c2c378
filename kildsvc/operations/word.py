"""Sessions with their agents' own word on the conversation."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kildsvc import paths, store
from kildsvc.agents import words

if TYPE_CHECKING:
    from kildsvc.agents.transcript import Search
    from kildsvc.model import Metadata, Session


def with_words(sessions: Iterable[Session]) -> Iterator[Session]:
    known: dict[str, Metadata] | None = None
    for session in sessions:
        if session.agent not in words.FORMATS:
            yield session
            continue
        known = store.load_all() if known is None else known
        yield replace(session, word=words.read(session.agent, _search(session, known)))


def conversation_of(session: Session) -> str | None:
    """The one its last run has begun, or gone on with."""
    found = words.find(session.agent, _search(session, store.load_all()))
    return found.id if found else None


def _search(session: Session, known: Mapping[str, Metadata]) -> Search:
    # Not above: most sessions that are asked for run something else.
    from kildsvc import runtime
    from kildsvc.agents.transcript import Search

    taken = {id for name, metadata in known.items() if name != session.name for id in metadata.conversations}
    # Those of earlier runs are remembered too: the command says which one this run was given.
    given = [id for id in session.conversations[-1:] if any(id in part for part in session.command)]
    env = runtime.launch_env(paths.runtime_dir(session.name), session.run) if session.unit else None
    return Search(
        cwd=session.cwd,
        env=env or os.environ,
        since=session.started or math.inf,
        until=session.ended or math.inf,
        id=given[0] if given else None,
        taken=frozenset(taken),
    )
