"""What of the caller reaches the agent: environment, umask, limits, command, directory."""

import os
import pwd
import resource
import shutil
import subprocess
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType

from kildsvc.errors import UsageError

# Between systemd and the caller, not for the agent: with these it could speak for a unit.
_UNIT_PRIVATE = {
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PIDFDID",
    "FDSTORE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MAINPID",
    "MANAGERPID",
    "MANAGERPIDFDID",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "CREDENTIALS_DIRECTORY",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "SERVICE_RESULT",
    "EXIT_CODE",
    "EXIT_STATUS",
}
# Marks of what the caller itself runs in; an agent that sees them believes it is nested, or draws for
# another terminal's size.
_NESTING = {
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "ZELLIJ",
    "ZELLIJ_SESSION_NAME",
    "ZELLIJ_PANE_ID",
    "COLUMNS",
    "LINES",
    "SHLVL",
    "OLDPWD",
    "_",
}
# A git hook sets these for its children: git would work on that repository wherever the agent stands.
GIT_LOCAL = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_QUARANTINE_PATH",
    "GIT_NAMESPACE",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REFLOG_ACTION",
}
DEFAULT_TERM = "xterm-256color"
# A login shell that asks something, or waits for a network, is not waited for.
LOGIN_SEC = 10.0


def for_agent(
    caller: Mapping[str, str],
    name: str,
    cwd: str,
    extra: Mapping[str, str],
    rules: Mapping[str, list[str]] = MappingProxyType({}),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """`rules` are patterns of names: 'strip' takes more away, 'pass' keeps what would be left out as nesting."""

    def passes(key: str) -> bool:
        if key in _UNIT_PRIVATE or key.startswith("KILD_"):
            return False
        if any(fnmatchcase(key, pattern) for pattern in rules.get("pass", ())):
            return True
        return key not in _NESTING | GIT_LOCAL and not any(
            fnmatchcase(key, pattern) for pattern in rules.get("strip", ())
        )

    env = {key: value for key, value in caller.items() if passes(key)}
    if env.get("TERM", "dumb") in ("", "dumb", "unknown"):
        env["TERM"] = DEFAULT_TERM
    return {**env, "PWD": cwd, **settings, **extra, "KILD_SESSION": name}


def of_login_shell() -> dict[str, str]:
    """What the user's login shell would have given: for sessions that nobody's terminal opens."""
    shell = login_shell({"PATH": os.defpath})
    base = {
        key: os.environ[key] for key in ("HOME", "USER", "LOGNAME", "LANG", "XDG_RUNTIME_DIR") if key in os.environ
    }
    try:
        done = subprocess.run(
            [shell, "-l", "-c", "env -0"],
            env={**base, "SHELL": shell, "PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LOGIN_SEC,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return dict(os.environ)
    found = dict(
        item.split("=", 1) for item in done.stdout.decode(errors="surrogateescape").split("\0") if "=" in item
    )
    return found or dict(os.environ)


def parse_assignments(items: tuple[str, ...]) -> dict[str, str]:
    extra = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise UsageError(f"--env '{item}' is not of the form NAME=VALUE")
        extra[key] = value
    return extra


def find_cwd(given: str | None) -> str:
    """An absolute directory that can be entered. Raises UsageError."""
    try:
        path = os.path.abspath(os.path.expanduser(given)) if given else os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists", "cd somewhere else, or give --cwd DIR") from None
    if not os.path.isdir(path):
        problem = "is not a directory" if os.path.exists(path) else "does not exist"
        raise UsageError(f"--cwd '{path}' {problem}")
    if not os.access(path, os.X_OK):
        raise UsageError(f"--cwd '{path}' cannot be entered: permission denied")
    return path


def find_executable(command: str, cwd: str, env: Mapping[str, str]) -> str:
    """The file that will be executed, found as a shell in cwd would. Raises UsageError."""
    if "/" in command:
        path = os.path.join(cwd, os.path.expanduser(command))
        if not os.path.exists(path):
            raise UsageError(f"command '{command}' does not exist")
        if os.path.isdir(path):
            raise UsageError(f"command '{command}' is a directory")
        if not os.access(path, os.X_OK):
            raise UsageError(f"command '{command}' is not executable", f"chmod +x '{path}'")
        return path
    path = os.pathsep.join(os.path.join(cwd, entry) for entry in env.get("PATH", os.defpath).split(os.pathsep))
    found = shutil.which(command, path=path)
    if not found:
        raise UsageError(f"command '{command}' was not found in your PATH", "install it, or give its full path")
    return found


def login_shell(env: Mapping[str, str]) -> str:
    shell = env.get("SHELL") or pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    return find_executable(shell, "/", env)


def umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def limits() -> dict[str, list[int]]:
    """The caller's resource limits, by the names of the resource module."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: list(resource.getrlimit(getattr(resource, name))) for name in names}


def lingers() -> bool:
    """Whether the user's manager outlives the last logout."""
    try:
        return Path("/var/lib/systemd/linger", pwd.getpwuid(os.getuid()).pw_name).exists()
    except KeyError:
        return True  # no name, no logins
