"""attach, screen, send."""

import sys

import click

from kildsvc.chord import DEFAULT
from kildsvc.cli import acts, offers, render
from kildsvc.cli.options import DURATION, json_option
from kildsvc.errors import UsageError


@click.command("attach")
@click.argument("name", shell_complete=offers.alive, required=False)
@click.option("--read-only", is_flag=True, help="Watch without typing or resizing.")
@click.option("--detach-keys", metavar="KEYS", help=f"Keys that detach.  [default: {DEFAULT}]")
def attach_command(name: str | None, read_only: bool, detach_keys: str | None) -> int:
    """Join the terminal of session NAME.

    Without NAME, of the only one that is running, or of the one you choose from a list. The SSH agent that the
    session was opened with becomes the one you have now.

    Ends with the agent's own exit code (128+n for a signal), with 0 when detached, with 125 when attaching
    failed.
    """
    if name is None:
        from kildsvc.cli.choose import choose

        name = choose()
    return acts.attach(name, read_only, detach_keys)


@click.command("screen")
@click.argument("name", shell_complete=offers.any_session)
@click.option("--ansi", is_flag=True, help="With colours, as escape sequences.")
@click.option(
    "--history", type=click.IntRange(0, 100_000), default=0, help="Also so many lines from above the screen."
)
@json_option
def screen_command(name: str, ansi: bool, history: int, as_json: bool) -> int:
    """Print the screen of session NAME as text; of an ended one, its last."""
    from dataclasses import asdict

    from kildsvc.operations.screen import show

    shown = show(name, history)
    if as_json:
        body = asdict(shown)
        if not ansi:
            del body["ansi"]
        render.document({"name": name, **body})
    elif ansi:
        # Not through click, which takes escape sequences out where there is no terminal.
        sys.stdout.write("\x1b[2J\x1b[H" * sys.stdout.isatty() + shown.ansi + "\n")
    else:
        lines = [*shown.history, *shown.lines]
        while lines and not lines[-1]:
            lines.pop()
        for line in lines:
            render.say(line)
    return 0


@click.command("send")
@click.argument("name", shell_complete=offers.alive)
@click.argument("text", required=False)
@click.option("--enter", is_flag=True, help="Press Enter after it.")
@click.option("--keys", default="", help="Keys to press after the text, e.g. 'C-c Up Enter F1 M-x'.")
@click.option("--paste", is_flag=True, help="As a paste: bracketed when the agent has asked for that.")
@click.option("--wait-output", metavar="REGEX", help="Return when the agent has printed a match.")
@click.option("--timeout", type=DURATION, default="30s", show_default=True, help="For --wait-output.")
def send_command(
    name: str, text: str | None, enter: bool, keys: str, paste: bool, wait_output: str | None, timeout: int
) -> int:
    """Type TEXT into session NAME; without TEXT and --keys, what stands on standard input."""
    from kildsvc.operations.screen import Typing, send

    if text is None and not keys and not enter:
        if sys.stdin.isatty():
            raise UsageError("what should be sent?", "give TEXT, --keys or --enter, or pipe it in")
        text = sys.stdin.buffer.read().decode(errors="surrogateescape")
    send(name, Typing(text or "", keys, enter, paste, wait_output, timeout / 1e6))
    return 0
