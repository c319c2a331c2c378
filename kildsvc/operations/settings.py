"""The settings as they are found, and the user's file in an editor."""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kildsvc import chord, config, paths, store
from kildsvc.errors import KildError
from kildsvc.operations.gc import DEFAULT_TTL
from kildsvc.operations.open import DEFAULT_GRACE_USEC

# Every line that is not prose can be taken as it is.
TEMPLATE = """\
# Settings of kildsvc. `kildsvc config show` tells which hold, and from where.
# A project may have a file .kildsvc.toml of its own, with `grace` and `agent`.

# The agent to open, where none is named.
#agent = "claude"

# How long an agent must live to count as up.
#grace = "200ms"

# The keys that detach.
#detach_keys = "ctrl-space ctrl-q"

# How long `kildsvc gc` keeps what is known of an ended session; or "never", to keep it for good.
#ttl = "30d"

# What agents may reach: off, workspace, strict, or one of your own.
#sandbox = "lab"
#[sandboxes.lab]
#base = "strict"
#write = ["~/data"]

# What each session may use, and what all of them may use together.
#[limits]
#memory = "4G"
#tasks = 500
#[slice]
#memory = "16G"

# For one agent; and one of your own, which has a command.
#[agents.codex]
#sandbox = "off"
#limits.memory = "8G"
#[agents.mine]
#command = ["my-agent", "--chat"]

# What `open --profile review` stands for.
#[profiles.review]
#agent = "claude"
#sandbox = "strict"

# Who is told when a session ends, waits for you or rings; `kildsvc setup --notify` has it done.
#[notify]
#on = ["ended", "waiting"]
#desktop = false
#command = ["~/bin/tell-me"]
#all = false

# What of your environment agents get.
#[env]
#strip = ["AWS_*"]
#set.EDITOR = "true"
"""


@dataclass(frozen=True)
class Effective:
    """A setting that holds."""

    key: str  # as TOML has it
    value: Any  # as it stands there
    origin: str


def effective(cwd: str) -> list[Effective]:
    """What holds in a directory: what is set, and what is so where nobody has set it."""
    found = config.load(cwd).settings
    values = {_dotted(key): Effective(_dotted(key), one.written, one.origin) for key, one in found.items()}
    defaults = {"grace": f"{DEFAULT_GRACE_USEC // 1000}ms", "detach_keys": chord.DEFAULT, "ttl": DEFAULT_TTL}
    built_in = {key: Effective(key, value, "default") for key, value in defaults.items()}
    return sorted({**built_in, **values}.values(), key=lambda one: one.key)


def _dotted(key: config.Key) -> str:
    return ".".join(name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name) for name in key)


def files(cwd: str) -> list[tuple[Path, bool]]:
    """Where settings are looked for, and whether there are any."""
    looked = [paths.config_file()]
    for path in config.project_places(cwd):
        looked.append(path)
        if path.is_file():
            break
    return [(path, path.is_file()) for path in looked]


def edit() -> Path:
    """Blocks until the editor ends. Raises UsageError for a mistake in the file, which stays as it was left."""
    path = paths.config_file()
    command = _editor()
    if not path.exists():
        store.write_atomically(path, TEMPLATE)
    try:
        code = subprocess.run([*command, str(path)], check=False).returncode
    except OSError as error:
        raise KildError(f"cannot run the editor '{command[0]}': {error.strerror}", "set VISUAL or EDITOR") from error
    if code:
        raise KildError(f"the editor '{command[0]}' ended with {code}; '{path}' was not checked")
    config.load()
    return path


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        try:
            if command := shlex.split(os.environ.get(variable, "")):
                return command
        except ValueError as error:
            raise KildError(f"{variable} is no command: {error}") from error
    for name in ("editor", "nano", "vi"):
        if found := shutil.which(name):
            return [found]
    raise KildError("no editor was found", "set VISUAL or EDITOR")
