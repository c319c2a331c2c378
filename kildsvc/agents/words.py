"""An agent's own word: from its transcripts, where their format is known."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kildsvc.agents.transcript import Conversation, Search
    from kildsvc.model import Word

# Those with a module here that has find() and read().
FORMATS = ("claude", "codex", "opencode")


def _format(agent: str) -> Any:
    return import_module(f"kildsvc.agents.{agent}")


def find(agent: str, search: Search) -> Conversation | None:
    if agent not in FORMATS:
        return None
    found = _format(agent).find(search)
    if search.id:
        return max(found, key=lambda one: one.active, default=None)
    from kildsvc.agents.transcript import choose

    return choose(found, search)


def read(agent: str, search: Search) -> Word | None:
    conversation = find(agent, search)
    found: Word | None = _format(agent).read(conversation) if conversation else None
    return found
