"""The user's SSH agent, for a session, under a name that stays.

Every login has an agent's socket of its own, which goes with that login. A session outlives it: it is given a link,
which whoever attaches points at the agent he has then.
"""

import errno
import os
import socket
from pathlib import Path

VARIABLE = "SSH_AUTH_SOCK"
_NAME = "ssh-agent.sock"


def link_in(directory: Path) -> Path:
    return directory / _NAME


def point(directory: Path, target: str) -> None:
    """There is a link at every moment."""
    new = directory / f".{_NAME}.{os.getpid()}"
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link_in(directory))


def refresh(directory: Path, target: str | None) -> None:
    """Points a session's link at this agent, where the session has a link and the agent is alive."""
    # The socket itself: in another session this is that one's link, and links must not go round in a circle.
    target = os.path.realpath(target) if target else ""
    if link_in(directory).is_symlink() and _is_alive(target):
        point(directory, target)


def _is_alive(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        try:
            return sock.connect_ex(path) in (0, errno.EAGAIN)  # EAGAIN: very busy
        except OSError:  # too long a path
            return False
