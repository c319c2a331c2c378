"""What a shim says in JSON: to its clients, and in the file it leaves at the end.

An agent may take its shim's place at the socket, and write that file: each word is looked at before it is used.
"""

import json
from functools import cache
from typing import Any, get_args, get_origin

from kildsvc.errors import KildError

_KINDS: dict[str, Any] = {
    "run": str,
    "offset": int,
    "end": int,
    "rows": int,
    "cols": int,
    "sizes": list[tuple[int, int, int]],
    "modes": dict,
    "silent_sec": float,
    "pinned": int,
    "message": str,
    "code": int | None,
    "signal": str | None,
    "exit_code": int | None,
    "stopped": bool,
    "timed_out": bool,
    "oom": str,
}
_MODES: dict[str, Any] = {
    "private": list[int],
    "alternate": int,
    "keypad": bool,
    "kitty": tuple[list[int], list[int]],
    "other_keys": int,
    "cursor_style": int,
    "region": str,
    "title": str,
    "titles": list[str],
}
EXIT = ("code", "signal", "exit_code", "stopped")


def read(data: bytes, *needed: str) -> dict[str, Any]:
    """An object with these fields, and with each field of its type."""
    try:
        about = json.loads(data)
        json.dumps(about, ensure_ascii=False).encode()  # half a surrogate pair cannot be written anywhere
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or not about.keys() >= set(needed) or not _fit(about, _KINDS):
        raise foreign()
    # Words of ours are printable; a title, which is the agent's, may hold anything.
    if not _fit(about.get("modes", {}), _MODES) or not all(str(value).isprintable() for value in about.values()):
        raise foreign()
    return about


def refusal(data: bytes) -> KildError:
    return KildError(read(data, "message")["message"])


def foreign() -> KildError:
    return KildError("what answers at this session's socket is not a shim of kildsvc")


def fits(value: object, kind: Any) -> bool:
    """Whether what was read from JSON is of a field's type."""
    origin, inner = _made_of(kind)
    if origin is list:
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1]) for item in value.values())
    if inner:
        return any(fits(value, one) for one in inner)
    return isinstance(value, int | float if kind is float else kind)


@cache
def _made_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


def _fit(values: dict[str, Any], kinds: dict[str, Any]) -> bool:
    return all(fits(value, kinds[key]) for key, value in values.items() if key in kinds)
