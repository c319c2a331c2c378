"""config: show, path, edit."""

import json
import os

import click

from kildsvc.cli import render
from kildsvc.cli.options import json_option
from kildsvc.errors import UsageError


@click.group("config", invoke_without_command=True)
@click.pass_context
def config_command(ctx: click.Context) -> None:
    """Show, find or edit the settings."""
    if ctx.invoked_subcommand is None:
        raise UsageError("what about the settings?", "kildsvc config show, config path or config edit")


@config_command.command("show")
@json_option
def show_command(as_json: bool) -> int:
    """Print the settings that hold in this directory, each with the file and line it comes from."""
    from dataclasses import asdict

    from kildsvc.operations.settings import effective, files

    looked, settings = files(os.getcwd()), effective(os.getcwd())
    if as_json:
        found = [{"path": str(path), "found": there} for path, there in looked]
        render.document({"files": found, "settings": [asdict(one) for one in settings]})
        return 0
    for path, there in looked:
        render.say(f"# {render.home_short(str(path))}{'' if there else ': not there'}")
    lines = [f"{one.key} = {json.dumps(one.value, ensure_ascii=False)}" for one in settings]
    width = min(50, max(map(len, lines)))
    for line, one in zip(lines, settings, strict=True):
        render.say(f"{line:<{width}}  # {render.home_short(one.origin)}")
    return 0


@config_command.command("path")
def path_command() -> int:
    """Print where your settings are kept."""
    from kildsvc import paths

    render.say(str(paths.config_file()))
    return 0


@config_command.command("edit")
def edit_command() -> int:
    """Edit your settings with $VISUAL or $EDITOR, and check them after it."""
    from kildsvc.operations.settings import edit

    render.say(f"{edit()}: in order")
    return 0
