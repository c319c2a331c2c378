"""Where things are kept."""

import os
from pathlib import Path

from kildsvc.errors import KildError, NoManager

# sun_path holds 107 bytes and a NUL.
SOCKET_PATH_MAX = 107


def user_runtime_dir() -> Path:
    """XDG_RUNTIME_DIR, found also where nobody set it (cron, sudo -u). Raises NoManager."""
    path = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    if not path.is_dir():
        raise NoManager(
            f"no systemd user manager: '{path}' does not exist",
            f"log in properly, or as root: loginctl enable-linger {os.getuid()}",
        )
    return path


def runtime_dir(name: str) -> Path:
    path = user_runtime_dir() / "kildsvc" / name
    if len(os.fsencode(path / "sock")) > SOCKET_PATH_MAX:
        raise KildError(f"the path of the runtime directory is too long for a socket: '{path}'")
    return path


def socket_path(name: str) -> Path:
    return runtime_dir(name) / "sock"


def state_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "kildsvc"


def worktree_dir(repo: str, name: str) -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(base) / "kildsvc" / "worktrees" / repo / name


def config_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "kildsvc" / "config.toml"


def metadata_file(name: str) -> Path:
    return state_dir() / "sessions" / f"{name}.json"


def last_output_file(name: str) -> Path:
    # In a directory of its own: a sandboxed session may write there, and to nothing else of ours.
    return state_dir() / "output" / name / "last"
