"""Lingering: whether the user's manager, and with it every session, outlives the last logout."""

import os
import subprocess

from kildsvc.environment import lingers

ANSWER_SEC = 10


def enable_linger() -> str:
    """Empty when it is done; else the command that root must give: polkit decides who may do it for himself."""
    _loginctl("enable-linger")  # which may say that it failed when only what comes after has
    return "" if lingers() else remedy()


def remedy() -> str:
    return f"sudo loginctl enable-linger {os.getuid()}"


def disable_linger() -> None:
    _loginctl("disable-linger")


def _loginctl(verb: str) -> None:
    try:
        subprocess.run(
            ["loginctl", "--no-ask-password", verb],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_SEC,
        )
    except (OSError, subprocess.TimeoutExpired):
        pass
