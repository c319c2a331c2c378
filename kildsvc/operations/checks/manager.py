"""The user's systemd: whether it is there, can be reached, and stays."""

import os
import re
import socket

from kildsvc import paths
from kildsvc.environment import lingers
from kildsvc.errors import KildError
from kildsvc.operations import linger as lingering
from kildsvc.operations.checks.found import Found, fail, ok, warn
from kildsvc.operations.setup import GC, set_up
from kildsvc.systemd.manager import Manager
from kildsvc.systemd.unit_files import UnitFiles

# Older ones may work; nobody has tried.
OLDEST = 252


def manager() -> Found:
    """Raises NoManager."""
    with Manager() as reached:
        version = reached.version
    if int(_numbers(version)[0]) < OLDEST:
        return warn(f"systemd {version}", f"upgrade: kildsvc is tested with systemd {OLDEST} and newer")
    return ok(f"systemd {version}")


def bus() -> Found:
    """We use systemd's own socket; the session bus is for desktop notifications, and for what agents want of it."""
    directory = paths.user_runtime_dir()
    if not _answers(f"{directory}/systemd/private"):
        return fail(f"nobody listens on '{directory}/systemd/private'", "log in anew, or see 'manager'")
    address = os.environ.get("DBUS_SESSION_BUS_ADDRESS", f"unix:path={directory}/bus")
    path = address.partition("unix:path=")[2].partition(",")[0]
    if path and not _answers(path):
        return warn("systemd's own socket works; there is no session bus", "sudo apt-get install dbus-user-session")
    return ok("systemd's own socket and the session bus")


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(path)
        except OSError:
            return False
    return True


def linger() -> Found:
    if not lingers():
        return warn("sessions end when you log out", lingering.remedy(), _linger)
    try:
        with Manager() as reached:
            version = reached.version
    except KildError:
        return ok("on")
    if kills_lingering(version):
        return warn(
            f"on, but the logind of systemd {version} may end your sessions at your last logout all the same",
            "upgrade to systemd 256.3 or newer (github.com/systemd/systemd/issues/43361); until then stay logged in",
        )
    return ok("on: sessions go on when you log out")


def _linger() -> None:
    if remedy := lingering.enable_linger():
        raise KildError("you may not decide that yourself", remedy)


def kills_lingering(version: str) -> bool:
    """255 takes a lingering user for one who is gone when his last session ends; mended in 256.3, not in 255."""
    major, minor = (*_numbers(version), 0)[:2]
    return major == 255 or (major == 256 and minor < 3)


def _numbers(version: str) -> tuple[int, ...]:
    """256.3-1ubuntu1 is (256, 3); 256~rc3 is (256,)."""
    found = re.match(r"\d+(?:\.\d+)?", version)
    return tuple(map(int, found[0].split("."))) if found else (0,)


def tidy() -> Found:
    with UnitFiles() as reached:
        if reached.is_enabled(GC) and reached.is_active(GC):
            return ok("old sessions are forgotten daily")
    return warn("nobody forgets old sessions", "kildsvc setup", lambda: list(set_up(False, False)))
