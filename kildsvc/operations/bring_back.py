"""After a reboot: what was running, and was not stopped by anybody, runs again."""

from typing import Any

from kildsvc import config, environment, model, store
from kildsvc.errors import KildError
from kildsvc.model import Metadata, Session
from kildsvc.operations import agent, sessions
from kildsvc.operations.agent import Wish
from kildsvc.operations.open import open_session
from kildsvc.operations.resolve import Request


def bring_back(resume: bool) -> list[dict[str, Any]]:
    """One result per session; one that does not come back does not keep the others from it.

    Nobody's terminal is at hand: the environment is the login shell's.
    """
    metadata = store.load_all()
    wanted = [one.name for one in sessions.list_sessions() if not one.unit and comes_back(one, metadata[one.name])]
    caller = environment.of_login_shell() if wanted else {}
    results = []
    for name in wanted:
        result: dict[str, Any] = {"name": name, "run": None, "warnings": [], "error": None}
        try:
            opened = open_session(Request(name, wish=_wish(metadata[name], resume), caller=caller))
            result.update(run=opened.run, warnings=opened.warnings)
        except KildError as error:
            result.update(error=error.message)
        results.append(result)
    return results


def comes_back(session: Session, metadata: Metadata) -> bool:
    """Once its unit is gone: it did not end by itself, and nobody stopped it, the machine or manager went down."""
    return metadata.wanted and session.state in (model.LOST, model.STOPPED, model.UNOBSERVED)


def _wish(metadata: Metadata, resume: bool) -> Wish:
    """Its conversation goes on where there is one; what is not an agent just runs again."""
    if not resume or not metadata.known:
        return Wish()
    found = agent.find(metadata.agent, config.load(metadata.cwd))
    can = found.resume and agent.known_conversations(metadata, found)
    return Wish(resume="" if can else None)
