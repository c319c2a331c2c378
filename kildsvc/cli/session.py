"""open."""

from typing import TYPE_CHECKING, Any

import click

from kildsvc.cli import acts, offers, render
from kildsvc.cli.opening import agent_options, opening, session_options
from kildsvc.cli.options import DURATION, json_option, seconds
from kildsvc.errors import UsageError

if TYPE_CHECKING:
    from kildsvc.operations.worktree import Plan


@click.command("open", context_settings={"ignore_unknown_options": False})
@click.argument("name", shell_complete=offers.ended, required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, shell_complete=offers.command)
@agent_options
@session_options
@click.option("--all", "everything", is_flag=True, help="Bring back what was running before a reboot.")
@click.option("--grace", type=DURATION, help="How long the agent must live to count as up.  [default: 200ms]")
@click.option("--attach", is_flag=True, help="Attach when it is up, or when it is running already.")
@json_option
def open_command(
    name: str | None,
    command: tuple[str, ...],
    everything: bool,
    grace: int | None,
    attach: bool,
    as_json: bool,
    plan: "Plan | None" = None,
    **options: Any,
) -> int:
    """Open session NAME running COMMAND or an agent, as unit kild-NAME.service.

    Returns when the agent is up, or fails with its exit code and last lines if it ended before. Without
    COMMAND and --agent an ended session is run again; a new one runs your default agent. Write -- before a
    COMMAND that has options.

    In the sandbox 'workspace' it can write to its work tree, its own state, caches and a /tmp of its own; in
    'strict' it also has no network and sees no home directory. Neither reaches systemd, D-Bus or other
    sessions. Not kept in: what it leaves in the work tree and you run, and on kernels before 6.12 signals.
    """
    if attach and as_json:
        raise UsageError("--attach and --json exclude each other")
    if everything:
        return _open_all(name, options["resume"], as_json)
    if not name:
        raise UsageError("which session?", "kildsvc open NAME …")
    return acts.open(name, list(command), as_json, attach, plan, grace=seconds(grace), **opening(options))


def _open_all(name: str | None, resume: str | None, as_json: bool) -> int:
    from kildsvc.operations.bring_back import bring_back

    if name or resume:
        raise UsageError("--all is for every session that was running: give no NAME and no conversation")
    results = bring_back(resume is not None)
    if as_json:
        render.document(results)
        return 1 if any(one["error"] for one in results) else 0
    for one in results:
        for warning in one["warnings"]:
            render.note(f"{one['name']}: {warning}")
        render.say(f"{one['name']}: {one['error'] or 'running again'}")
    if not results:
        render.say("nothing was running")
    return 1 if any(one["error"] for one in results) else 0
