"""Which of the running sessions somebody means who gave no name."""

import os
import sys

from kildsvc.cli import looks, render
from kildsvc.errors import NotRunning, UsageError
from kildsvc.model import Session


def choose() -> str:
    """The only one there is, or the one a person at the terminal picks. Raises KildError."""
    from kildsvc import api

    own = os.environ.get("KILD_SESSION")
    found = [session for session in api.sessions(states=["alive"], _full=False) if session.name != own]
    if not found:
        raise NotRunning("no session is running", "kildsvc open NAME -- COMMAND")
    if len(found) == 1:
        return found[0].name
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("which session?", f"{', '.join(session.name for session in found)} are running")
    looks.table(found, numbered=True)
    while not (name := _meant(render.ask(f"attach to which (1-{len(found)}, or a name)? "), found)):
        pass
    return name


def _meant(answer: str, found: list[Session]) -> str:
    """'' for what is nobody's number or name; the beginning of only one name will do."""
    names = [session.name for session in found]
    if answer in names:
        return answer
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    fits = [name for name in names if answer and name.startswith(answer)]
    return fits[0] if len(fits) == 1 else ""
