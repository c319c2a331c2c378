"""status, list, logs."""

import os
import sys
from typing import Any

import click

from kildsvc.cli import acts, offers, render
from kildsvc.cli.options import json_option
from kildsvc.errors import JournalUnreadable, UsageError
from kildsvc.model import STATES


@click.command("status")
@click.argument("name", shell_complete=offers.any_session)
@json_option
def status_command(name: str, as_json: bool) -> int:
    """Show how session NAME is now, as systemd and the kernel tell it.

    Exit code 0 when it is alive, 3 when it has ended, 4 when there is none.
    """
    return acts.status(name, as_json)


@click.command("list")
@click.option("--state", multiple=True, type=click.Choice(["alive", *STATES]), help="Only these; may be given often.")
@click.option("--label", multiple=True, metavar="KEY=VALUE", help="Only those that have it.")
@click.option("--cwd", shell_complete=offers.directory, metavar="DIR", help="Only those in this directory or below.")
@click.option("--agent", shell_complete=offers.agents, help="Only those that run this.")
@click.option("--wide", is_flag=True, help="Also what the agents themselves tell: model, tokens, last message.")
@click.option("--watch", is_flag=True, help="Again whenever something changes; with --json one document per line.")
@json_option
def list_command(
    state: tuple[str, ...],
    label: tuple[str, ...],
    cwd: str | None,
    agent: str | None,
    wide: bool,
    watch: bool,
    as_json: bool,
) -> int:
    """List all sessions, running and ended. Also `ls`."""
    from kildsvc.model import parse_labels

    asked = {
        "states": state,
        "labels": parse_labels(label),
        "cwd": os.path.abspath(cwd) if cwd else "",
        "agent": agent,
    }
    which = {key: value for key, value in asked.items() if value}
    if watch:
        _watch(which, wide, as_json)
        return 0
    return acts.list_sessions(as_json, wide, **which)


def _watch(which: dict[str, Any], wide: bool, as_json: bool) -> None:
    import asyncio
    from contextlib import aclosing

    from kildsvc import api
    from kildsvc.cli import looks
    from kildsvc.operations.events import changes

    async def follow() -> None:
        async with aclosing(changes()) as stream:
            async for _ in stream:
                sessions = api.sessions(**which, words=wide or as_json, _full=as_json)
                if as_json:
                    render.line([session.to_json() for session in sessions])
                else:
                    render.clear_screen()
                    looks.table(sessions, wide)

    asyncio.run(follow())


@click.command("logs")
@click.argument("name", shell_complete=offers.any_session)
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last so many lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", default="last", show_default=True, metavar="last|all|ID", help="Which run.")
@click.option("--raw", is_flag=True, help="The bytes of the terminal, exactly.")
@click.option("--since", metavar="TIME", help="Only what is newer, e.g. '10 min ago'.")
@click.option(
    "--cast",
    shell_complete=offers.file,
    metavar="FILE",
    help="Write the run to FILE as asciicast v2, for asciinema; - for stdout.",
)
def logs_command(
    name: str, lines: int | None, follow: bool, run: str, raw: bool, since: str | None, cast: str | None
) -> int:
    """Print what session NAME printed, from the journal; running or ended."""
    from kildsvc.operations import logs

    if raw and lines is not None:
        raise UsageError("--raw and --lines exclude each other")
    query = logs.Query(name, run, lines, follow, since)
    if cast is not None:
        if raw or follow or since or lines is not None or run == "all":
            raise UsageError("--cast goes with --run ID only")
        with click.open_file(cast, "w", encoding="utf-8", atomic=True) as file:
            file.writelines(f"{line}\n" for line in logs.cast(query))
        return 0
    try:
        if raw:
            for missing, data in logs.raw_bytes(query):
                if missing:
                    render.note(f"{missing} bytes are missing here")
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        else:
            for line in logs.text_lines(query):
                render.say(line)
    except JournalUnreadable as error:
        output = logs.saved_output(name)
        if output is None:
            raise
        render.note(f"{error.message}; this is the end of its last run ({error.hint})")
        sys.stdout.buffer.write(output)
    return 0
