"""Lingering: whether the user's manager, and with it every session, outlives the last logout."""

import os
import subprocess

from kildsvc.environment import lingers

ANSWER_SEC = 10


def enable_linger() -> str:
    """Empty when it is done; else the command that root must give: polkit decides who may do it for himself."""
    if _loginctl("enable-linger") and lingers():
        return ""
    return remedy()


def remedy() -> str:
    return f"sudo loginctl enable-linger {os.getuid()}"


def disable_linger() -> bool:
    return _loginctl("disable-linger")


def _loginctl(verb: str) -> bool:
    try:
        done = subprocess.run(
            ["loginctl", "--no-ask-password", verb],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_SEC,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
