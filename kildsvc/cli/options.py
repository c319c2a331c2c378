"""Option types that several commands share."""

import re

import click

_UNITS = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000}


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """500ms, 2s, 10m, 1h; a bare number is seconds. Microseconds as int."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h)?", str(value))
        if not match:
            self.fail(f"'{value}' is not a duration such as 500ms, 2s or 10m", param, ctx)
        return int(float(match[1]) * _UNITS[match[2] or "s"])


DURATION = Duration()

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, errors included.")
