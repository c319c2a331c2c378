"""The commands that are called most, in their plain forms, understood without click, which takes 25 ms to load.

Everything else is click's: other options, help, and whatever may be a mistake. What is understood here means the same
there.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kildsvc import quantity
from kildsvc.cli import acts


def _seconds(text: str) -> float:
    return quantity.duration(text) / 1e6


# Command → its options here: the keyword that each sets, and what reads its value, if it takes one.
_Form = dict[str, tuple[str, Callable[[str], Any] | None]]
_JSON: _Form = {"--json": ("as_json", None)}
FORMS: dict[str, _Form] = {
    "--version": {},
    "list": _JSON,
    "ls": _JSON,
    "status": _JSON,
    "attach": {},
    "open": {
        **_JSON,
        "--attach": ("attach_then", None),
        "--grace": ("grace", _seconds),
        **{f"--{name}": (name, str) for name in ("agent", "cwd", "model", "note", "profile", "sandbox")},
    },
}


def find(arguments: list[str]) -> Callable[[], int] | None:
    """What is to be done; None: click may know."""
    command = arguments[0] if arguments else ""
    try:
        words, options = _read(iter(arguments[1:]), FORMS[command])
    except (KeyError, ValueError):
        return None
    match command, words:
        case "--version", []:
            return acts.version
        case "list" | "ls", []:
            return partial(acts.list_sessions, **options)
        case "status", [name]:
            return partial(acts.status, name, **options)
        case "attach", [name]:
            return partial(acts.attach, name)
        case "open", [name, *agent] if not {"as_json", "attach_then"} <= options.keys():
            return partial(acts.open, name, agent, **options)
    return None


def _read(arguments: Iterator[str], form: _Form) -> tuple[list[str], dict[str, Any]]:
    """Plain words, and the options among them. Raises KeyError or ValueError for what is not understood."""
    words: list[str] = []
    options: dict[str, Any] = {}
    for word in arguments:
        if word == "--":
            words += arguments
        elif not word.startswith("-"):
            words.append(word)
        else:
            key, read = form[word]
            options[key] = read(_value(next(arguments, "-"))) if read else True
    return words, options


def _value(text: str) -> str:
    if text.startswith("-"):
        raise ValueError("another option, or nothing")
    return text
