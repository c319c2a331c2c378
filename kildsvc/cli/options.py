"""Option types that several commands share."""

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


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included.")
