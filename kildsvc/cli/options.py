"""Option types that several commands share."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from kildsvc import quantity
from kildsvc.limits import TABLE


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """500ms, 2s, 10m, 1h; a bare number is seconds. Microseconds as int."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return quantity.duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION = Duration()


def seconds(usec: int | None) -> float | None:
    return None if usec is None else usec / 1e6


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
        best_effort_option,
        limit_options,
        click.option("--label", multiple=True, metavar="KEY=VALUE", help="For `list --label`; may be given often."),
        click.option("--note", help="A line about the session, shown by list and status."),
        click.option("--cols", type=click.IntRange(1, 9999), help="Width of the terminal until someone attaches."),
        click.option("--rows", type=click.IntRange(1, 9999), help="Height of the terminal until someone attaches."),
        click.option(
            "--env", multiple=True, metavar="NAME=VALUE", help="Set a variable for the agent; not remembered."
        ),
        click.option("--cwd", metavar="DIR", help="Directory to run in.  [default: the current one]"),
        click.option("--shell", is_flag=True, help="Run your login shell."),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included.")
