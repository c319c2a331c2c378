"""doctor, gc, setup, notify: what makes and keeps a machine a home for sessions."""

import click

from kildsvc import quantity
from kildsvc.cli import looks, render
from kildsvc.cli.options import json_option
from kildsvc.errors import UsageError


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Do what can be done without root, and tell the rest.")
@json_option
def doctor_command(fix: bool, as_json: bool) -> int:
    """Check whether this machine is a home for sessions; with the remedy where it is not.

    Exit code 0 when nothing is worse than a warning, 1 when something fails, 6 when there is no user manager.
    """
    from kildsvc.operations import doctor

    findings = []
    for one in doctor.examine(fix):
        findings.append(one)
        if not as_json:
            looks.finding(one)
    if as_json:
        render.document({"severity": doctor.worst(findings), "checks": [one.to_json() for one in findings]})
    return doctor.exit_code(findings)


@click.command("gc")
@click.option("--ttl", metavar="DURATION|never", help="How long ago they must have ended.  [default: as set, or 30d]")
@click.option("--dry-run", is_flag=True, help="Only tell what would be forgotten.")
@json_option
def gc_command(ttl: str | None, dry_run: bool, as_json: bool) -> int:
    """Forget sessions that ended long ago, as `destroy` would.

    Never one that is alive, that would come back after a reboot, or whose worktree has work that is nowhere
    else. What they printed stays in the journal. `kildsvc setup` has it done daily.
    """
    from kildsvc.operations.gc import collect

    try:
        ttl_usec = None if ttl is None else quantity.ttl(ttl)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error
    judged = collect(dry_run, ttl_usec)
    if as_json:
        render.document([one.to_json() for one in judged])
        return 0
    for one in judged:
        word = "kept" if not one.forgotten else "would be forgotten" if dry_run else "forgotten"
        render.say(f"{one.name}: {word}: {one.reason}")
    if not judged:
        render.say("nothing to forget")
    return 0


@click.command("setup")
@click.option("--restore", is_flag=True, help="Also reopen after a reboot what was running.")
@click.option("--notify", is_flag=True, help="Also tell when a session ends, waits or rings.")
@click.option("--remove", is_flag=True, help="Take back what setup has done, and nothing else.")
def setup_command(restore: bool, notify: bool, remove: bool) -> int:
    """Install and enable what belongs to kildsvc in your systemd: old sessions are forgotten daily.

    Tells each thing it changes; a unit file that you changed stays as it is. Lets your sessions go on when you
    log out, where you may decide that yourself.
    """
    from kildsvc.operations import setup

    if remove and (restore or notify):
        raise UsageError("--remove takes back everything: give it alone")
    changed = False
    for line in setup.remove() if remove else setup.set_up(restore, notify):
        render.say(line)
        changed = True
    if not changed:
        render.say("nothing was set up" if remove else "everything is set up")
    return 0


@click.command("notify")
@click.option("--test", is_flag=True, help="Tell something once, to see whether it arrives.")
def notify_command(test: bool) -> int:
    """Tell when sessions end, wait or ring, until stopped; `kildsvc setup --notify` has it done for good.

    On the desktop, and by the command of your settings: it is given a line of text as its last argument, and
    KILD_NAME, KILD_EVENT (ended, waiting, bell), KILD_TEXT, KILD_AGENT, KILD_RUN, KILD_STATUS and KILD_EXIT_CODE
    in its environment. An end that somebody asked for is not told.
    """
    from kildsvc.operations import notify

    if not test:
        notify.follow(render.note)
        return 0
    problems = notify.tell_once("this is a test")
    for problem in problems:
        render.note(problem)
    return 1 if problems else 0
