"""The settings: the user's own file, then the project's. What is wrong in them is told with file and line.

A project's file comes with whatever was cloned: it may not set what protects the user from it.
"""

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kildsvc import chord, limits, model, paths, quantity
from kildsvc.agents import table
from kildsvc.errors import UsageError

Key = tuple[str, ...]
PROJECT_FILE = ".kildsvc.toml"
# A file that long was not written by a person, and is read before every open.
SIZE_MAX = 256 * 1024


@dataclass(frozen=True)
class Setting:
    """A value, and where it was set."""

    value: Any
    origin: str  # file:line
    written: Any  # the value as it stands there


@dataclass(frozen=True)
class Config:
    """All that is set."""

    settings: Mapping[Key, Setting] = field(default_factory=dict)

    def get(self, *key: str) -> Any:
        """The value, or None where nobody has set it."""
        found = self.settings.get(key)
        return found.value if found else None

    def table(self, *key: str) -> dict[str, Any]:
        """The values right below a key."""
        return {path[-1]: setting.value for path, setting in self.settings.items() if path[:-1] == key}

    def names(self, key: str) -> list[str]:
        """The names of tables under a key, such as the agents'."""
        return sorted({path[1] for path in self.settings if path[0] == key and len(path) > 2})

    def agents(self) -> list[str]:
        """The names of those that are known, and of the user's own."""
        own = [name for name in self.names("agents") if self.get("agents", name, "command")]
        return list(dict.fromkeys([*table.KNOWN, *own]))

    def origin(self, *key: str) -> str:
        return self.settings[key].origin


# -- what there is to set ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """A kind of value: what it is called, which TOML types it may be, how it is read (raises ValueError)."""

    called: str
    types: tuple[type, ...]
    read: Callable[[Any], Any] = lambda value: value


def _chord(value: str) -> str:
    chord.parse(value)
    return value


def _news(value: list[str]) -> list[str]:
    for item in value:
        if item not in model.NEWS:
            raise ValueError(f"'{item}' is none of {', '.join(model.NEWS)}")
    return value


_TEXT = _Kind("a string", (str,))
_FLAG = _Kind("true or false", (bool,))
_LIST = _Kind("a list of strings", (list,))
_DURATION = _Kind("a duration such as 200ms or 5s", (str, int, float), lambda value: quantity.duration(str(value)))
_TTL = _Kind("a duration such as 30d, or 'never'", (str, int, float), lambda value: quantity.ttl(str(value)))
_CHORD = _Kind("keys such as 'ctrl-space ctrl-q'", (str,), _chord)
_NEWS = _Kind(f"a list of {', '.join(model.NEWS)}", (list,), _news)
_LIMITS = {
    name: _Kind("a string or a number", (str, int, float), limit.check) for name, limit in limits.TABLE.items()
}
_SANDBOX = {"base": _TEXT, "network": _FLAG, "read": _LIST, "write": _LIST, "hide": _LIST}
_AGENT = {**dict.fromkeys(table.SETTINGS, _LIST), "takes_terminal": _FLAG}
_PROFILE = {"agent": _TEXT, "model": _TEXT, "yolo": _FLAG, "sandbox": _TEXT, "arguments": _LIST, "limits": _LIMITS}
# '*' stands for any name.
_SCHEMA: dict[str, Any] = {
    "grace": _DURATION,
    "detach_keys": _CHORD,
    "ttl": _TTL,
    "sandbox": _TEXT,
    "limits": _LIMITS,
    "slice": {name: kind for name, kind in _LIMITS.items() if limits.TABLE[name].controller},
    "agent": _TEXT,
    "agents": {"*": {**_AGENT, "sandbox": _TEXT, "limits": _LIMITS}},
    "profiles": {"*": _PROFILE},
    "env": {"pass": _LIST, "strip": _LIST, "set": {"*": _TEXT}},
    "sandboxes": {"*": _SANDBOX},
    "notify": {"on": _NEWS, "desktop": _FLAG, "command": _LIST, "all": _FLAG},
}
_FROM_A_PROJECT = {"grace", "agent"}


# -- reading -----------------------------------------------------------------------------------------------


def load(cwd: str | None = None) -> Config:
    """The user's settings, and those of the project that `cwd` lies in. Raises UsageError."""
    settings = dict(_read(paths.config_file(), trusted=True))
    project = find_project_file(cwd) if cwd else None
    if project:
        settings.update(_read(project, trusted=False))
    return Config(settings)


def find_project_file(cwd: str) -> Path | None:
    """The nearest one at or above `cwd`, not above the repository or the home directory."""
    return next((path for path in project_places(cwd) if path.is_file()), None)


def project_places(cwd: str) -> Iterator[Path]:
    for directory in (Path(cwd), *Path(cwd).parents):
        yield directory / PROJECT_FILE
        if (directory / ".git").exists() or directory == Path.home():
            break


def _read(path: Path, trusted: bool) -> Iterator[tuple[Key, Setting]]:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {os.strerror(error.errno or 0)}") from error
    if len(data) > SIZE_MAX:
        raise UsageError(f"'{path}' is larger than {SIZE_MAX // 1024} KiB")
    import tomllib  # 8 ms, which nobody pays who has no such file

    try:
        text = data.decode()
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}:{data[: error.start].count(10) + 1}: not UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        at = re.search(r"line (\d+)", str(error))
        raise UsageError(f"{path}:{at[1] if at else text.count(chr(10)) + 1}: not TOML: {error}") from error
    lines = _Lines(text)
    for key, kind, value in _walk(document, _SCHEMA, (), lambda key: f"{path}:{lines.of(key)}"):
        origin = f"{path}:{lines.of(key)}"
        dotted = ".".join(key)
        if not trusted and key[0] not in _FROM_A_PROJECT:
            raise UsageError(
                f"{origin}: a project may not set '{dotted}'", f"if you want it, set it in {paths.config_file()}"
            )
        yield key, Setting(_value(dotted, kind, value, origin), origin, value)


def _walk(
    table: dict[str, Any], schema: dict[str, Any], above: Key, where: Callable[[Key], str]
) -> Iterator[tuple[Key, _Kind, Any]]:
    for name, value in table.items():
        key = (*above, name)
        expected = schema.get(name, schema.get("*"))
        if expected is None:
            near = difflib.get_close_matches(name, schema, 1)
            known = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(schema)}"
            raise UsageError(f"{where(key)}: unknown setting '{'.'.join(key)}'", known)
        if isinstance(expected, _Kind):
            yield key, expected, value
        elif isinstance(value, dict):
            yield from _walk(value, expected, key, where)
        else:
            raise UsageError(f"{where(key)}: '{'.'.join(key)}' is a table", f"[{'.'.join(key)}]")


def _value(dotted: str, kind: _Kind, value: Any, origin: str) -> Any:
    # bool is an int to Python, not to a reader of the file.
    fits = type(value) in kind.types and (not isinstance(value, list) or all(isinstance(item, str) for item in value))
    if not fits:
        raise UsageError(f"{origin}: '{dotted}' should be {kind.called}")
    try:
        return kind.read(value)
    except ValueError as error:
        raise UsageError(f"{origin}: {dotted}: {error}") from error


class _Lines:
    """On which line a key stands, which tomllib does not tell: it is given each line's key by itself to read."""

    def __init__(self, text: str) -> None:
        self._found: dict[Key, int] = {}
        table: Key = ()
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if line.startswith("["):
                table = _key(line) or table
                self._found.setdefault(table, number)
            elif "=" in line and (key := _key(line.partition("=")[0] + "= 0")):
                self._found.setdefault((*table, *key), number)

    def of(self, key: Key) -> int:
        while key and key not in self._found:
            key = key[:-1]
        return self._found.get(key, 1)


def _key(line: str) -> Key:
    import tomllib

    try:
        found: Any = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return ()
    key = []
    while isinstance(found, (dict, list)) and found:
        if isinstance(found, list):
            found = found[0]
            continue
        name, found = next(iter(found.items()))
        key.append(name)
    return tuple(key)
