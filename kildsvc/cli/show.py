"""status, list, logs."""

import sys

import click

from kildsvc.cli import render
from kildsvc.cli.options import json_option
from kildsvc.errors import JournalUnreadable, UsageError


@click.command("status")
@click.argument("name")
@json_option
def status_command(name: str, as_json: bool) -> int:
    """Show how session NAME is now, as systemd and the kernel tell it.

    Exit code 0 when it is alive, 3 when it has ended, 4 when there is none.
    """
    from kildsvc.operations.sessions import status

    session = status(name)
    if as_json:
        render.document(session.to_json())
    else:
        render.details(session)
    return 0 if session.alive else 3


@click.command("list")
@json_option
def list_command(as_json: bool) -> int:
    """List all sessions, running and ended. Also `ls`."""
    from kildsvc.operations.sessions import list_sessions

    sessions = list_sessions()
    if as_json:
        render.document([session.to_json() for session in sessions])
    elif sessions:
        render.table(sessions)
    else:
        render.note("no sessions; 'kildsvc open NAME -- COMMAND' makes one")
    return 0


@click.command("logs")
@click.argument("name")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last so many lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--run", default="last", show_default=True, metavar="last|all|ID", help="Which run.")
@click.option("--raw", is_flag=True, help="The bytes of the terminal, exactly.")
@click.option("--since", metavar="TIME", help="Only what is newer, e.g. '10 min ago'.")
@click.option("--cast", metavar="FILE", help="Write the run to FILE as asciicast v2, for asciinema; - for stdout.")
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
                click.echo(line)
    except JournalUnreadable as error:
        output = logs.saved_output(name)
        if output is None:
            raise
        render.note(f"{error.message}; this is the end of its last run ({error.hint})")
        sys.stdout.buffer.write(output)
    return 0
