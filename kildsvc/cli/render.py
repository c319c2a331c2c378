"""The only writer of stdout and stderr, and what all that is written has in common."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kildsvc.errors import AgentExitedEarly, KildError

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
# Where the locale has no such characters.
_PLAIN = str.maketrans("●│…·→", "*|~.>")
_CONTROLS = dict.fromkeys([*range(32), *range(127, 160), 0x2028, 0x2029], " ")


def colour(text: str, colour: str | None) -> str:
    if not colour or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _write(text: str, err: bool = False, nl: bool = True) -> None:
    """What the terminal's encoding has not, and bytes of file names that are no text, become a question mark."""
    file = sys.stderr if err else sys.stdout
    if not text.isascii():
        encoding = file.encoding
        text = text if encoding == "utf-8" else text.translate(_PLAIN)
        text = text.encode(encoding, "replace").decode(encoding)
    file.write(text + "\n" * nl)
    file.flush()


def say(message: str) -> None:
    _write(message)


def note(message: str) -> None:
    _write(f"kildsvc: {message}", err=True)


def document(value: Any) -> None:
    _write(_json(value, indent=2))


def line(value: Any) -> None:
    """One of a stream of JSON documents."""
    _write(_json(value))


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=sys.stdout.encoding != "utf-8")


def progress(text: str) -> None:
    """A live line for a person, in the place of the last one."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(2).columns
        _write(f"\r\x1b[K{fit(text, width - 1).rstrip()}", err=True, nl=False)


def ask(question: str) -> str:
    """What a person at the terminal answers. Raises KeyboardInterrupt when nothing comes."""
    _write(question, nl=False)
    if not (answer := sys.stdin.readline()):
        say("")
        raise KeyboardInterrupt
    return answer.strip()


def clear_screen() -> None:
    if sys.stdout.isatty():
        _write("\x1b[H\x1b[2J", nl=False)


def error_body(problem: KildError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": problem.code, "message": problem.message, "hint": problem.hint}
    if isinstance(problem, AgentExitedEarly):
        body.update(exit_code=problem.agent_exit_code, output=problem.output)
    return {"error": body}


def error(problem: KildError, as_json: bool) -> None:
    if as_json:
        document(error_body(problem))
        return
    hint = f" ({problem.hint})" if problem.hint else ""
    note(problem.message + hint)
    if isinstance(problem, AgentExitedEarly) and problem.output:
        for line in problem.output.split("\n"):
            _write(f"  │ {line}", err=True)


def duration(seconds: float) -> str:
    seconds = max(0, int(seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            rest = seconds % length
            smaller = {"d": ("h", 3600), "h": ("min", 60), "min": ("s", 1)}[unit]
            tail = f" {rest // smaller[1]} {smaller[0]}" if rest // smaller[1] else ""
            return f"{seconds // length} {unit}{tail}"
    return f"{seconds} s"


def brief(seconds: float) -> str:
    """For tables: one unit, up to twice the next one."""
    seconds = max(0, int(seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def home_short(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


# What a column that gives way keeps.
_LEAST = 12


def one_line(text: str) -> str:
    """What agents, their processes and prompts are called may hold newlines, and sequences for the terminal."""
    return text.translate(_CONTROLS)


def columns(
    head: list[str],
    rows: list[list[str]],
    give_way: Sequence[str] = (),
    drop: Sequence[str] = (),
    colours: Mapping[str, Sequence[str | None]] = MappingProxyType({}),
) -> None:
    """A table. Columns with nothing in them are left out; so are those to drop, one by one, on a terminal that is too
    narrow even when those that give way have given way."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = {
        title: max(_cells(row[i]) for row in [head, *rows])
        for i, title in enumerate(head)
        if any(row[i] for row in rows)
    }
    if room := width():
        widths = _fitted(widths, room + 2, give_way, drop)
    for number, row in enumerate([head, *rows]):
        cells = []
        for title, wide in widths.items():
            # Of a path the end tells most.
            cell = fit(row[head.index(title)], wide, from_left=title in ("DIRECTORY", "REPOSITORY"))
            cells.append(colour(cell, colours[title][number - 1]) if number and title in colours else cell)
        say("  ".join(cells).rstrip())


def _fitted(widths: dict[str, int], room: int, give_way: Sequence[str], drop: Sequence[str]) -> dict[str, int]:
    least = {title: min(wide, _LEAST) if title in give_way else wide for title, wide in widths.items()}
    for title in drop:
        if sum(least.values()) + 2 * len(least) <= room:
            break
        least.pop(title, None)
    widths = {title: wide for title, wide in widths.items() if title in least}
    while sum(widths.values()) + 2 * len(widths) > room and widths != least:
        # The widest gives way first.
        title = max((title for title in widths if widths[title] > least[title]), key=lambda title: widths[title])
        widths[title] -= 1
    return widths


def width() -> int:
    return os.get_terminal_size(1).columns if sys.stdout.isatty() else 0


def _cells(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def fit(text: str, width: int, from_left: bool = False) -> str:
    """Exactly so wide."""
    if _cells(text) > width:
        while _cells(text) > width - 1:
            text = text[1:] if from_left else text[:-1]
        text = f"…{text}" if from_left else f"{text}…"
    return text + " " * (width - _cells(text))
