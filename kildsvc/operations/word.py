"""Sessions with their agents' own word on the conversation."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kildsvc import paths, runtime, store
from kildsvc.agents import words
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


def _search(session: Session, known: Mapping[str, Metadata]) -> Search:
    ids = {name: getattr(metadata, "conversations", []) for name, metadata in known.items()}
    own = ids.get(session.name, [])
    env = runtime.launch_env(paths.runtime_dir(session.name), session.run) if session.unit else None
    return Search(
        cwd=session.cwd,
        env=env or os.environ,
        since=session.started or math.inf,
        until=session.ended or math.inf,
        id=own[-1] if own else None,
        taken=frozenset(id for name, others in ids.items() if name != session.name for id in others),
    )
