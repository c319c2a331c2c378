"""limit, pause, unpause."""

from collections.abc import Callable

import click

from kildsvc.cli import looks, offers, render
from kildsvc.cli.opening import best_effort_option, limit_options
from kildsvc.cli.options import json_option
from kildsvc.model import Session


@click.command("limit")
@click.argument("name", shell_complete=offers.alive)
@limit_options
@best_effort_option
@json_option
def limit_command(name: str, limits: dict[str, str], best_effort: bool, as_json: bool) -> int:
    """Change limits of session NAME while it runs, or show them with what it uses.

    The word infinity takes a limit away. What is changed is remembered for when the session is opened again.
    """
    from kildsvc import api

    changed = api.limit(name, limits, best_effort)
    for warning in changed.warnings:
        render.note(warning)
    if as_json:
        render.document(changed.session.to_json())
    else:
        looks.limits(changed.session)
    return 0


@click.command("pause")
@click.argument("names", shell_complete=offers.alive, nargs=-1, required=True, metavar="NAME…")
@json_option
def pause_command(names: tuple[str, ...], as_json: bool) -> int:
    """Freeze sessions: they use no CPU until `unpause`, and do not notice."""
    from kildsvc import api

    return _each(api.pause, names, as_json)


@click.command("unpause")
@click.argument("names", shell_complete=offers.alive, nargs=-1, required=True, metavar="NAME…")
@json_option
def unpause_command(names: tuple[str, ...], as_json: bool) -> int:
    """Let paused sessions go on."""
    from kildsvc import api

    return _each(api.unpause, names, as_json)


def _each(change: Callable[..., list[Session]], names: tuple[str, ...], as_json: bool) -> int:
    changed = change(*names)
    if as_json:
        render.document([session.to_json() for session in changed])
        return 0
    for session in changed:
        render.say(f"{session.name}: {looks.state(session)}")
    return 0
