"""stop, destroy."""

import click

from kildsvc.cli import offers, render
from kildsvc.cli.options import json_option
from kildsvc.errors import UsageError


@click.command("stop")
@click.argument("names", shell_complete=offers.alive, nargs=-1, metavar="NAME…")
@click.option("--all", "everything", is_flag=True, help="Every running session, but the one you are in.")
@json_option
def stop_command(names: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Stop sessions: SIGTERM, after 10 s SIGKILL, and every process of them is gone."""
    from kildsvc import api
    from kildsvc.operations.stop import everything_but_own

    if bool(names) == everything:
        raise UsageError("give the names of sessions, or --all")
    stopped = api.stop(*(everything_but_own() if everything else names))
    if as_json:
        render.document([{**one.session.to_json(), "was_running": one.was_running} for one in stopped])
        return 0
    if not stopped:
        render.say("no session is running")
    for one in stopped:
        word = "stopped" if one.was_running else "was not running"
        render.say(f"{one.session.name}: {word} ({one.session.cause})")
    return 0


@click.command("destroy")
@click.argument("name", shell_complete=offers.any_session)
@click.option("--force", is_flag=True, help="Stop it first when it is running; lose work that is nowhere else.")
@json_option
def destroy_command(name: str, force: bool, as_json: bool) -> int:
    """Forget session NAME, with the worktree and the branch that were made for it.

    Refused when uncommitted files or commits that are not in the base would be lost. What it printed stays in the
    journal.
    """
    from kildsvc import api

    api.destroy(name, force)
    if as_json:
        render.document({"name": name, "destroyed": True})
    else:
        render.say(f"{name}: forgotten")
    return 0
