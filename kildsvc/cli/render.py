"""How results look: the only writer of stdout and stderr."""

import json
import os
import shlex
import sys
import time
from typing import Any

import click

from kildsvc import model
from kildsvc.errors import AgentExitedEarly, KildError
from kildsvc.model import Session

_COLOURS = {
    model.RUNNING: "green",
    model.STARTING: "cyan",
    model.STOPPING: "cyan",
    model.PAUSED: "yellow",
    model.KILLED: "red",
    model.OOM: "red",
    model.TIMEOUT: "red",
    model.ORPHANED: "red",
    model.UNOBSERVED: "yellow",
    model.LOST: "yellow",
}


def _colour(text: str, colour: str | None) -> str:
    return click.style(text, fg=colour) if colour and sys.stdout.isatty() and "NO_COLOR" not in os.environ else text


def say(message: str) -> None:
    click.echo(message)


def note(message: str) -> None:
    click.echo(f"kildsvc: {message}", err=True)


def document(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def error(problem: KildError, as_json: bool) -> None:
    if as_json:
        body: dict[str, Any] = {"code": problem.code, "message": problem.message, "hint": problem.hint}
        if isinstance(problem, AgentExitedEarly):
            body.update(exit_code=problem.agent_exit_code, output=problem.output)
        document({"error": body})
        return
    hint = f" ({problem.hint})" if problem.hint else ""
    note(problem.message + hint)
    if isinstance(problem, AgentExitedEarly) and problem.output:
        for line in problem.output.split("\n"):
            click.echo(f"  │ {line}", err=True)


def duration(seconds: float) -> str:
    seconds = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            rest = seconds % size
            smaller = {"d": ("h", 3600), "h": ("min", 60), "min": ("s", 1)}[unit]
            tail = f" {rest // smaller[1]} {smaller[0]}" if rest // smaller[1] else ""
            return f"{seconds // size} {unit}{tail}"
    return f"{seconds} s"


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024 or unit == "G":
            return f"{amount:.0f}{unit}" if amount >= 10 or unit == "B" else f"{amount:.1f}{unit}"
        amount /= 1024
    return ""


def home_short(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + "/") else path


def state(session: Session) -> str:
    """The state in words, with what it came from."""
    if session.state == model.EXITED:
        return f"exited ({session.exit_code})"
    if session.state == model.KILLED:
        return f"killed ({session.signal})"
    return session.state


def when(session: Session, now: float) -> str:
    if session.alive:
        return f"for {duration(now - session.started)}" if session.started else ""
    if session.ended:
        return f"{duration(now - session.ended)} ago" + (", before boot" if session.before_boot else "")
    return "before boot" if session.before_boot else ""


def table(sessions: list[Session]) -> None:
    now = time.time()
    head = ["NAME", "STATE", "WHEN", "PID", "MEMORY", "COMMAND", "DIRECTORY"]
    rows = [
        [
            session.name,
            state(session),
            when(session, now),
            str(session.pid or ""),
            size(session.memory) if session.memory else "",
            shlex.join(session.command),
            home_short(session.cwd) + (f"  # {session.note}" if session.note else ""),
        ]
        for session in sessions
    ]
    # Columns that nobody has anything for are left out.
    keep = [i for i in range(len(head)) if any(row[i] for row in rows)]
    widths = {i: max(len(line[i]) for line in [head, *rows]) for i in keep}
    width = _columns()
    if width and 5 in widths:
        spare = width - sum(widths[i] + 2 for i in keep if i != 5)
        widths[5] = min(widths[5], max(12, spare))
    say("  ".join(head[i].ljust(widths[i]) for i in keep).rstrip())
    for session, row in zip(sessions, rows, strict=True):
        cells = {i: _fit(row[i], widths[i]) for i in keep}
        cells[1] = _colour(cells[1], _COLOURS.get(session.state))
        say("  ".join(cells[i] for i in keep).rstrip())


def _columns() -> int:
    return os.get_terminal_size(1).columns if sys.stdout.isatty() else 0


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def details(session: Session) -> None:
    now = time.time()
    dot = _colour("●", _COLOURS.get(session.state))
    say(f"{dot} {session.name}: {_colour(state(session), _COLOURS.get(session.state))} {when(session, now)}".rstrip())
    lines = {
        "cause": session.cause if not session.alive and session.state != model.EXITED else "",
        "command": shlex.join(session.command),
        "cwd": home_short(session.cwd),
        "note": session.note,
        "unit": session.unit,
        "run": session.run,
        "pid": session.pid,
        "memory": size(session.memory) if session.memory else "",
        "cpu": f"{session.cpu_usec / 1e6:.2f} s" if session.cpu_usec is not None else "",
        "tasks": session.tasks,
    }
    for label, value in lines.items():
        if value:
            say(f"  {label + ':':<9}{value}")
