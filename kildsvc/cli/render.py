"""The only writer of stdout and stderr, and what all that is written has in common."""

import json
import os
import sys
from typing import Any

import click

from kildsvc.errors import AgentExitedEarly, KildError


def colour(text: str, colour: str | None) -> str:
    return click.style(text, fg=colour) if colour and sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def say(message: str) -> None:
    click.echo(message)


def note(message: str) -> None:
    click.echo(f"kildsvc: {message}", err=True)


def document(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def line(value: Any) -> None:
    """One of a stream of JSON documents."""
    click.echo(json.dumps(value, ensure_ascii=False))


def progress(text: str) -> None:
    """A live line for a person, in the place of the last one."""
    if sys.stderr.isatty():
        width = os.get_terminal_size(2).columns
        click.echo(f"\r\x1b[K{fit(text, width - 1).rstrip()}", err=True, nl=False)


def clear_screen() -> None:
    if sys.stdout.isatty():
        click.echo("\x1b[H\x1b[2J", nl=False)


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
            click.echo(f"  │ {line}", err=True)


def duration(seconds: float) -> str:
    seconds = max(0, int(seconds))
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            rest = seconds % length
            smaller = {"d": ("h", 3600), "h": ("min", 60), "min": ("s", 1)}[unit]
            tail = f" {rest // smaller[1]} {smaller[0]}" if rest // smaller[1] else ""
            return f"{seconds // length} {unit}{tail}"
    return f"{seconds} s"


def home_short(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def columns(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def width() -> int:
    return os.get_terminal_size(1).columns if sys.stdout.isatty() else 0


def fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
