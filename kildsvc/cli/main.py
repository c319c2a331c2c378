"""The command line, as click knows it. Commands are loaded when they are called."""

from importlib import import_module

import click

from kildsvc.errors import UsageError
from kildsvc.version import VERSION

# Command → the module of kildsvc.cli it lives in, in the order of --help.
_COMMANDS = {
    "open": "session",
    "create": "worktree",
    "run": "automate",
    "attach": "terminal",
    "limit": "control",
    "pause": "control",
    "unpause": "control",
    "stop": "ending",
    "destroy": "ending",
    "status": "show",
    "list": "show",
    "logs": "show",
    "screen": "terminal",
    "send": "terminal",
    "wait": "automate",
    "events": "automate",
    "mark": "automate",
    "agents": "agents",
    "note": "about",
    "label": "about",
    "rename": "about",
    "config": "config",
    "cd": "worktree",
    "diff": "worktree",
    "commits": "worktree",
    "stats": "worktree",
    "overlaps": "worktree",
    "sync": "worktree",
    "land": "worktree",
    "doctor": "home",
    "gc": "home",
    "setup": "home",
    "notify": "home",
    "completion": "completion",
    "help": "help",
}
_ALIASES = {"ls": "list", "rebase": "sync"}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = _ALIASES.get(name, name)
        if name not in _COMMANDS:
            return None
        module = import_module(f"kildsvc.cli.{_COMMANDS[name]}")
        command = getattr(module, f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and not self.get_command(ctx, args[0]):
            from difflib import get_close_matches

            near = get_close_matches(args[0], [*_COMMANDS, *_ALIASES], 1)
            ctx.fail(f"there is no command '{args[0]}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="kildsvc", message="%(prog)s %(version)s")
def kildsvc() -> None:
    """AI coding agents as systemd user services.

    Each session is a unit kild-NAME.service: `systemctl --user status kild-NAME` and
    `journalctl --user -u kild-NAME` work on it.
    """


def parse_and_run(arguments: list[str]) -> int:
    """Returns the command's exit code. Raises KildError, also for what click finds wrong."""
    if arguments[:1] == ["__complete"]:
        from kildsvc.cli.completion import answer

        answer(kildsvc, arguments[1:])
        return 0
    try:
        # Not kildsvc.main(): that takes a reader who has gone for a failure.
        with kildsvc.make_context("kildsvc", list(arguments) or ["--help"]) as ctx:
            result = kildsvc.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    except (click.Abort, EOFError) as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        where = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"{where.command_path} --help" if where else "kildsvc --help"
        raise UsageError(error.format_message().rstrip("."), hint) from error
    return result if isinstance(result, int) else 0
