"""Option types that several commands share."""

from collections.abc import Callable

import click

from kildsvc import quantity


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


def session_options(command: Callable[..., int]) -> Callable[..., int]:
    """What `open` and `run` have in common."""
    for option in (
        click.option("--write", multiple=True, metavar="DIR", help="The sandbox lets it write there too."),
        click.option(
            "--sandbox", metavar="PROFILE", help="workspace|strict|off, or one of your settings.  [default: off]"
        ),
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
