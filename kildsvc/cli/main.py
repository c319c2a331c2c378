"""The command line. Commands are loaded when they are called; errors are caught here, once."""

import os
import sys
from importlib import import_module

import click

from kildsvc.cli import render
from kildsvc.errors import KildError, UsageError
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
# Commands that pass on the agent's exit code mark failures of our own with this, as `docker run` does.
_OWN_FAILURE = 125
_PASS_EXIT_CODE = ("attach", "wait", "run")


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


def run(arguments: list[str]) -> int:
    """Runs one command; returns its exit code. Nothing but one line reaches the user when it fails."""
    if arguments[:1] == ["__complete"]:
        from kildsvc.cli.completion import answer

        answer(kildsvc, arguments[1:])
        return 0
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in ours
    own_failure = _OWN_FAILURE if ours[:1] and ours[0] in _PASS_EXIT_CODE else None
    try:
        result = kildsvc.main(arguments or ["--help"], prog_name="kildsvc", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        hint = "kildsvc --help"
        if isinstance(error, click.UsageError) and error.ctx:
            hint = f"{error.ctx.command_path} --help"
        render.error(UsageError(error.format_message().rstrip("."), hint), as_json)
        return own_failure or 2
    except KildError as error:
        render.error(error, as_json)
        return own_failure or error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader has gone; at exit Python would try to flush, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        render.error(KildError(f"{error.strerror}: '{error.filename}'" if error.filename else str(error)), as_json)
        return own_failure or 1
