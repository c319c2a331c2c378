"""Joining a running session's terminal."""

import os

from kildsvc import model, paths, sshagent
from kildsvc.attach import Attachment, Disconnected, Outcome
from kildsvc.chord import Chord
from kildsvc.errors import KildError, NoManager, NotRunning, Paused
from kildsvc.model import unit_of
from kildsvc.operations import sessions
from kildsvc.systemd.manager import Manager


def attach(name: str, read_only: bool, chord: Chord, banner: str) -> Outcome:
    """Blocks until detached or the agent's end."""
    session = sessions.status(name, full=False)
    if session.state not in model.ALIVE:
        raise NotRunning(f"session '{name}' is not running: {session.cause}", f"kildsvc open {name}")
    if session.state == model.PAUSED:
        raise Paused(name)
    if session.sandbox == model.NO_SANDBOX and not read_only:
        sshagent.refresh(paths.runtime_dir(name), os.environ.get(sshagent.VARIABLE))
    try:
        return Attachment(paths.socket_path(name), read_only, chord, banner).run(lambda: _alive(name))
    except Disconnected as error:
        session = sessions.status(name)
        if session.alive:
            raise KildError(f"cannot reach the terminal of '{name}': its socket is gone") from error
        # Its farewell was missed; systemd knows.
        return Outcome(
            exit={
                "code": None if session.signal else session.exit_code,
                "signal": session.signal,
                "exit_code": session.exit_code,
                "stopped": session.state == model.STOPPED,
                "timed_out": session.state == model.TIMEOUT,
                "oom": session.cause.removeprefix("out of memory: ") if session.state == model.OOM else "",
            }
        )


def _alive(name: str) -> bool:
    try:
        with Manager() as manager:
            return manager.get(unit_of(name), "ActiveState")["ActiveState"] not in ("inactive", "failed")
    except NoManager:
        return True  # it is executed anew, and holds the socket; or it has gone, and so has the socket
