"""help."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from kildsvc.cli import render
from kildsvc.errors import UsageError


def _find(ctx: click.Context, words: tuple[str, ...]) -> click.Context:
    """The context of a command, as if it had been called. Raises UsageError."""
    found = ctx.find_root()
    for word in words:
        group = found.command
        command = group.get_command(found, word) if isinstance(group, click.Group) else None
        if not command:
            raise UsageError(f"there is no command '{' '.join(words)}'", f"{found.command_path} --help")
        found = click.Context(command, found, word)
    return found


def _commands(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    above = _find(ctx, ctx.params.get("command") or ())
    return [item for item in above.command.shell_complete(above, incomplete) if not item.value.startswith("-")]


@click.command("help")
@click.argument("command", nargs=-1, shell_complete=_commands, metavar="[COMMAND]")
@click.pass_context
def help_command(ctx: click.Context, command: tuple[str, ...]) -> int:
    """Explain COMMAND, as its --help does; without one, list the commands."""
    found = _find(ctx, command)
    render.say(found.command.get_help(found))
    return 0
