"""The options of commands that begin a session. Apart: every command would pay for the table of limits."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from kildsvc import terminal
from kildsvc.cli import offers
from kildsvc.errors import UsageError
from kildsvc.limits import TABLE


def limit_options(command: Callable[..., int]) -> Callable[..., int]:
    """An option for each limit; those given reach the command as one argument, `limits`."""

    @wraps(command)
    def collected(**arguments: Any) -> int:
        values = {name: arguments.pop(name) for name in TABLE}
        return command(limits={name: text for name, text in values.items() if text is not None}, **arguments)

    options = collected
    for limit in reversed(TABLE.values()):
        options = click.option(limit.flag, limit.name, metavar=limit.metavar, help=limit.help)(options)
    return options


best_effort_option = click.option(
    "--best-effort", is_flag=True, help="Do without limits that would have no effect here, with a warning."
)


def session_options(command: Callable[..., int]) -> Callable[..., int]:
    """What `open` and `run` have in common."""
    for option in (
        click.option(
            "--write",
            shell_complete=offers.directory,
            multiple=True,
            metavar="DIR",
            help="The sandbox lets it write there too.",
        ),
        click.option(
            "--sandbox",
            shell_complete=offers.sandboxes,
            metavar="PROFILE",
            help="workspace|strict|off, or one of your settings.  [default: off]",
        ),
        click.option(
            "--notify/--no-notify", default=None, help="Tell when it ends, waits or rings.  [default: as set]"
        ),
        best_effort_option,
        limit_options,
        click.option(
            "--label", "labels", multiple=True, metavar="KEY=VALUE", help="For `list --label`; may be given often."
        ),
        click.option("--note", help="A line about the session, shown by list and status."),
        click.option("--cols", type=click.IntRange(1, 9999), help="Width of the terminal until someone attaches."),
        click.option("--rows", type=click.IntRange(1, 9999), help="Height of the terminal until someone attaches."),
        click.option(
            "--env", multiple=True, metavar="NAME=VALUE", help="Set a variable for the agent; not remembered."
        ),
        click.option(
            "--cwd",
            shell_complete=offers.directory,
            metavar="DIR",
            help="Directory to run in.  [default: the current one]",
        ),
        click.option("--shell", is_flag=True, help="Run your login shell."),
    ):
        command = option(command)
    return command


def agent_options(command: Callable[..., int]) -> Callable[..., int]:
    """Which agent, and how."""
    for option in (
        click.option(
            "--resume",
            is_flag=False,
            flag_value="",
            metavar="[ID]",
            help="Go on with its last conversation, or with the one of that id.",
        ),
        click.option("--model", metavar="MODEL", help="The model the agent should use."),
        click.option("--yolo/--no-yolo", default=None, help="The agent acts without asking. Think of --sandbox."),
        click.option("--prompt", metavar="TEXT|-|@FILE", help="What the agent is to do; - is standard input."),
        click.option(
            "--profile",
            shell_complete=offers.profiles,
            metavar="PROFILE",
            help="Agent, model, sandbox and limits, as in your settings.",
        ),
        click.option(
            "--agent",
            shell_complete=offers.agents,
            metavar="AGENT",
            help="`kildsvc agents` lists them; COMMAND is then more arguments.",
        ),
    ):
        command = option(command)
    return command


def opening(options: dict[str, Any]) -> dict[str, Any]:
    """What the options above say, as the keywords of `api.open`. Raises UsageError."""
    from kildsvc.environment import parse_assignments
    from kildsvc.model import parse_labels

    rows, cols = terminal.size_or_usual(1)
    return {
        **options,
        "rows": options["rows"] or rows,
        "cols": options["cols"] or cols,
        "env": parse_assignments(options["env"]),
        "labels": parse_labels(options["labels"]),
        "prompt": _read_prompt(options.get("prompt")),
    }


def _read_prompt(given: str | None) -> str:
    if given is None:
        return ""
    try:
        if given == "-":
            data = sys.stdin.buffer.read()
        elif given.startswith("@"):
            with open(os.path.expanduser(given[1:]), "rb") as file:
                data = file.read()
        else:
            return given
    except OSError as error:
        raise UsageError(f"--prompt '{given}': {error.strerror}") from error
    text = data.decode(errors="surrogateescape")
    if not text.strip():
        raise UsageError(f"--prompt '{given}' is empty")
    return text
