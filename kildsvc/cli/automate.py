"""wait, events, run, mark: what scripts, hooks and other agents use."""

import os
import shlex
import sys
import time
from contextlib import aclosing
from typing import Any

import click

from kildsvc import model
from kildsvc.cli import looks, offers, render
from kildsvc.cli.opening import opening, session_options
from kildsvc.cli.options import DURATION, json_option, seconds
from kildsvc.errors import KildError, UsageError
from kildsvc.model import Waited

# How often a person watching is told how it is; nobody else is.
PROGRESS_SEC = 1.0


@click.command("wait")
@click.argument("names", shell_complete=offers.alive, nargs=-1, required=True, metavar="NAME…")
@click.option("--any", "one", is_flag=True, help="Until one of them is.")
@click.option("--all", "every", is_flag=True, help="Until all of them are.  [default]")
@click.option("--timeout", type=DURATION, help="Wait no longer than this, e.g. 10m.")
@click.option(
    "--for", "until", default="exit", show_default=True, metavar="CONDITION", help="exit|ready|idle=30s|output=REGEX"
)
@json_option
def wait_command(
    names: tuple[str, ...], one: bool, every: bool, timeout: int | None, until: str, as_json: bool
) -> int:
    """Wait until sessions have ended, or are ready, silent, or have printed a line.

    Ends with the agent's own exit code (128+n for a signal), of several the first that is not 0; with 0 when
    the time is over and they live, or the condition came true; with 124 when nothing lives and nobody knows
    how it ended, or when its own time was over and it obeyed with 0; with 125 when waiting failed, or the
    condition cannot come true any more. One line per session on stdout: KILD:WAIT name=… status=… exit_code=…
    reason=…
    """
    import asyncio

    from kildsvc import api
    from kildsvc.operations.wait import exit_code

    if one and every:
        raise UsageError("--any and --all exclude each other")
    condition = api.condition(until)

    async def collect() -> list[Waited]:
        progress = asyncio.create_task(_progress(names[0], len(names))) if sys.stderr.isatty() else None
        results: list[Waited] = []
        try:
            async with aclosing(api.waiting(names, condition, seconds(timeout), one)) as stream:
                async for result in stream:
                    hint = _wait_again(names, results, one, timeout, until) if result.reason == "timeout" else ""
                    looks.waited(result, hint, as_json)
                    if not as_json:
                        _tell_why(result)
                    results.append(result)
        finally:
            if progress:
                progress.cancel()
                render.progress("")
        return results

    results = asyncio.run(collect())
    left = [result.name for result in results if result.status == "alive" and result.reason == "timeout"]
    if left and not as_json:
        verb = "is" if len(left) == 1 else "are"
        render.note(
            f"{', '.join(left)} {verb} alive; to go on waiting: {_wait_again(names, results, one, timeout, until)}"
        )
    order = list(dict.fromkeys(names))
    return exit_code(sorted(results, key=lambda result: order.index(result.name)), condition)


def _wait_again(names: tuple[str, ...], results: list[Waited], one: bool, timeout: int | None, until: str) -> str:
    ended = {result.name for result in results if result.reason != "timeout"}
    command = ["kildsvc", "wait", *(name for name in dict.fromkeys(names) if name not in ended)]
    command += ["--any"] if one else []
    command += ["--timeout", f"{(timeout or 0) / 1e6:g}s"]
    return shlex.join(command + (["--for", until] if until != "exit" else []))


async def _progress(name: str, count: int) -> None:
    import asyncio

    from kildsvc.operations.sessions import status

    began = time.monotonic()
    others = f" and {count - 1} more" if count > 1 else ""
    while True:
        await asyncio.sleep(PROGRESS_SEC)
        try:
            render.progress(
                f"{render.duration(time.monotonic() - began)}: {looks.signs_of_life(status(name))}{others}"
            )
        except KildError:
            pass  # the wait itself tells


@click.command("events")
@click.argument("names", shell_complete=offers.any_session, nargs=-1, metavar="[NAME…]")
@click.option("--since", metavar="CURSOR|TIME", help="Begin after this cursor, or at a time such as '10 min ago'.")
@click.option("--no-follow", is_flag=True, help="Only what has happened until now; needs --since.")
@json_option
def events_command(names: tuple[str, ...], since: str | None, no_follow: bool, as_json: bool) -> int:
    """Tell what happens to sessions.

    opened, ready, attached, detached, idle, bell, mark, paused, resumed, oom (a process was killed for want of
    memory), ended, recovered, removed.

    One line each, for ever. With --json every line has a cursor, from which --since goes on: nothing is lost
    or told twice.
    """
    from kildsvc.operations.events import past_events

    if no_follow:
        if not since:
            raise UsageError("--no-follow needs --since", "kildsvc events --no-follow --since today")
        for event in past_events(list(names), since):
            looks.event(event, as_json)
        return 0

    import asyncio

    from kildsvc import api

    async def follow() -> None:
        async with aclosing(api.events(*names, since=since)) as stream:
            async for event in stream:
                looks.event(event, as_json)

    asyncio.run(follow())
    return 0


@click.command("run", context_settings={"ignore_unknown_options": False})
@click.argument("name", shell_complete=offers.ended)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=offers.command)
@session_options
@click.option("--rm", "remove", is_flag=True, help="Forget the session when it has ended.")
@click.option("--detach-on-hup", is_flag=True, help="It goes on when this terminal is closed.")
@click.option("--raw", is_flag=True, help="The bytes of its terminal, also where ours is none.")
def run_command(
    name: str, command: tuple[str, ...], remove: bool, detach_on_hup: bool, raw: bool, **options: Any
) -> int:
    """Run COMMAND as session NAME in the foreground, and end with its exit code.

    What it prints is printed; it is not typed to (`kildsvc attach NAME` does that). Ctrl+C stops it, a second
    one kills it. Exit code 125: failures of our own.
    """
    from kildsvc import api
    from kildsvc.cli.output import Output
    from kildsvc.operations.run import Foreground
    from kildsvc.operations.wait import Condition, exit_code

    opened = api.open(name, command, grace=0, **opening(options))
    for warning in opened.warnings:
        render.note(warning)
    with Output(raw or os.isatty(1)) as output:
        foreground = Foreground(name, opened.run, output.write, render.note, detach_on_hup)
        ended = foreground.stream()
    if foreground.missing:
        render.note(f"{foreground.missing} bytes of its output are missing above")
    if not ended:
        return 129
    result = opened.wait()
    if remove:
        api.destroy(name)
    _tell_why(result)
    if result.exit_code is None:
        render.note(f"'{name}' has ended; nobody saw its exit code")
    return exit_code([result], Condition())


def _tell_why(result: Waited) -> None:
    """An exit code does not tell what was done to it."""
    if result.status in (model.OOM, model.TIMEOUT):
        render.note(f"{result.name}: {result.cause}")


@click.command("mark")
@click.argument("words", shell_complete=offers.marks, nargs=-1, metavar="[NAME] working|waiting|done [TEXT]")
@json_option
def mark_command(words: tuple[str, ...], as_json: bool) -> int:
    """Say what the agent of a session is doing; for the agent's own hooks.

    Shown by status, list and events. Inside a session NAME may be left out: KILD_SESSION has it.
    """
    from kildsvc import api
    from kildsvc.activity import MARKS

    own = os.environ.get("KILD_SESSION")
    if own and words and words[0] in MARKS and not (len(words) > 1 and words[1] in MARKS):
        words = (own, *words)
    if len(words) < 2:
        raise UsageError("say of which session, and what", "kildsvc mark NAME working|waiting|done [TEXT]")
    made = api.mark(words[0], words[1], " ".join(words[2:]))
    if as_json:
        render.document({"name": words[0], "state": made.state, "text": made.text, "at": made.at})
    return 0
