"""Where we are: directories, versions, agents, terminal, settings."""

import codecs
import locale
import os
import re
import sys
from importlib import metadata

from kildsvc import config, paths, screen
from kildsvc.operations.agent import installed
from kildsvc.operations.checks.found import Found, fail, ok, warn
from kildsvc.shim.sizes import size

# Every session has a copy of the shim and its launch file there, some 300 KiB.
_ROOM, _LITTLE = 1 << 20, 16 << 20
_INODES = 200
_NEEDED = {"pystemd": (0, 11), "dbus-next": (0, 2, 3), "click": (8, 1)}
_PYTHON = (3, 11)


def room() -> Found:
    directory = paths.user_runtime_dir()
    stat = os.statvfs(directory)
    free = stat.f_bavail * stat.f_frsize
    remedy = (
        f"du -xa {directory} | sort -n | tail; as root, for more: RuntimeDirectorySize= in /etc/systemd/logind.conf"
    )
    text = f"{size(free)} free in '{directory}'"
    if free < _ROOM or (stat.f_files and stat.f_favail < _INODES):
        return fail(text, remedy)
    return warn(text, remedy) if free < _LITTLE else ok(text)


def versions() -> Found:
    found = {"Python": ".".join(map(str, sys.version_info[:3]))}
    old = [] if sys.version_info >= _PYTHON else ["Python"]
    for package, needed in _NEEDED.items():
        found[package] = _version(package)
        if tuple(map(int, re.findall(r"\d+", found[package])[:3])) < needed:
            old.append(package)
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    if old:
        return fail(text, f"upgrade {', '.join(old)}: pipx reinstall kildsvc, or from your distribution")
    return ok(text if screen.AVAILABLE else f"{text}; no pyavt, which restores screens best")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "0"


def agents() -> Found:
    """Raises UsageError for a mistake in the settings."""
    found = installed()
    here = [f"{one.name} {one.version or ''}".strip() for one in found if one.path]
    if here:
        return ok(", ".join(here))
    names = ", ".join(one.name for one in found)
    return warn(
        f"none of {names} is in your PATH", "install one; any command works too: kildsvc open NAME -- COMMAND"
    )


def settings() -> Found:
    """Raises UsageError, with file and line."""
    config.load(os.getcwd())
    return ok(f"'{paths.config_file()}' is fine" if paths.config_file().exists() else "none: defaults hold")


def terminal() -> Found:
    if not sys.stdin.isatty():
        return ok("this is none; nothing to check")
    name = os.environ.get("TERM", "")
    encoding = codecs.lookup(locale.getpreferredencoding(False)).name
    if name in ("", "dumb", "unknown"):
        return warn(f"TERM is '{name}': nothing can be drawn", "export TERM=xterm-256color, or what yours is")
    if encoding != "utf-8":
        return warn(f"its text is {encoding}, agents write UTF-8", "export LC_ALL=C.UTF-8")
    colours = os.environ.get("COLORTERM", "")
    return ok(f"{name}, UTF-8, {'millions of' if colours in ('truecolor', '24bit') else 'few'} colours")
