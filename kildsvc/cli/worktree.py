"""create, cd, diff, commits, stats, overlaps, sync, land."""

import signal
from collections.abc import Callable
from typing import Any

import click

from kildsvc.cli import offers, render
from kildsvc.cli.options import json_option
from kildsvc.cli.session import open_command
from kildsvc.errors import KildError, UsageError
from kildsvc.quantity import counted

# Options that we do not know are git's.
_FOR_GIT = {"ignore_unknown_options": True}


@click.command("create")
@click.argument("name")
@click.option(
    "--repo",
    shell_complete=offers.directory,
    metavar="DIR",
    help="The git repository.  [default: the one you are in]",
)
@click.option(
    "--base",
    shell_complete=offers.branches,
    metavar="BRANCH",
    help="Branch to start from and to land on.  [default: the one checked out]",
)
@click.option(
    "--branch",
    shell_complete=offers.branches,
    metavar="B",
    help="Branch to work on, new or existing.  [default: a new kild/NAME]",
)
@click.option(
    "--copy", multiple=True, metavar="GLOB", help="Untracked files to copy; '' for none.  [default: .env, .env.*]"
)
@click.option("--setup", metavar="COMMAND", help="Run by a shell in the worktree before the session is opened.")
def create_command(
    name: str,
    repo: str | None,
    base: str | None,
    branch: str | None,
    copy: tuple[str, ...],
    setup: str | None,
    **options: Any,
) -> int:
    """Open session NAME running COMMAND in a git worktree of its own.

    If anything fails, nothing of it is left. A --cwd is one inside the worktree. Untracked files are copied from
    the work tree you are in: a GLOB without a slash fits names in every directory that is not itself ignored.
    """
    from kildsvc.operations.worktree import DEFAULT_COPY, Plan, of

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # undone as by Ctrl+C
            signal.signal(number, signal.default_int_handler)
    opening: Callable[..., int] = open_command.callback  # type: ignore[assignment]
    code = opening(name=name, everything=False, **options, plan=Plan(repo, base, branch, copy or DEFAULT_COPY, setup))
    if not options["as_json"] and not options["attach"]:
        worktree = of(name)
        render.say(f"  {render.home_short(worktree.path)} on {worktree.branch}, from {worktree.base}")
    return code


# All that open takes for one session, create takes.
create_command.params += [param for param in open_command.params if param.name not in ("name", "everything")]


@click.command("cd")
@click.argument("name", shell_complete=offers.with_worktree)
def cd_command(name: str) -> int:
    """Print the directory of session NAME, for cd "$(kildsvc cd NAME)"."""
    from kildsvc.operations.changes import where

    render.say(where(name))
    return 0


@click.command("diff", context_settings=_FOR_GIT)
@click.argument("name", shell_complete=offers.with_worktree)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[GIT ARGUMENTS]…")
def diff_command(name: str, arguments: tuple[str, ...]) -> int:
    """Show what session NAME has changed since it left its base, committed or not."""
    from kildsvc.operations.changes import diff

    return diff(name, arguments)


@click.command("commits", context_settings=_FOR_GIT)
@click.argument("name", shell_complete=offers.with_worktree)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[GIT ARGUMENTS]…")
def commits_command(name: str, arguments: tuple[str, ...]) -> int:
    """Show the commits of session NAME that its base has not."""
    from kildsvc.operations.changes import commits

    return commits(name, arguments)


@click.command("stats")
@click.argument("names", shell_complete=offers.with_worktree, nargs=-1, metavar="[NAME]…")
@json_option
def stats_command(names: tuple[str, ...], as_json: bool) -> int:
    """Show how far the branches of sessions are from their bases."""
    from kildsvc.operations.changes import stats

    found = stats(names)
    if as_json:
        render.document([one.to_json() for one in found])
        return 0
    rows = []
    for one in found:
        numbers = [str(number) for number in (one.ahead, one.behind, one.dirty, one.files)]
        if not one.problem:
            rows.append([one.name, one.branch or "(none)", one.base, *numbers, f"+{one.added} -{one.deleted}"])
    if rows:
        render.columns(
            ["NAME", "BRANCH", "BASE", "AHEAD", "BEHIND", "DIRTY", "FILES", "LINES"], rows, ["BRANCH", "BASE"]
        )
    elif not found:
        render.note("no session has a worktree; 'kildsvc create NAME -- COMMAND' makes one")
    for one in found:
        if one.problem:
            render.note(f"{one.name}: {one.problem}")
    return 0


@click.command("overlaps")
@json_option
def overlaps_command(as_json: bool) -> int:
    """List files that several sessions of one repository have changed, committed or not."""
    from kildsvc.operations.changes import overlaps

    found, problems = overlaps()
    for problem in problems:
        render.note(problem)
    if as_json:
        render.document([one.to_json() for one in found])
    elif found:
        rows = [[one.file, ", ".join(one.sessions), render.home_short(one.repo)] for one in found]
        render.columns(["FILE", "SESSIONS", "REPOSITORY"], rows, ["FILE", "SESSIONS", "REPOSITORY"])
    else:
        render.note("no file was changed by two sessions")
    return 0


@click.command("sync")
@click.argument("name", shell_complete=offers.with_worktree, required=False)
@click.option("--all", "everything", is_flag=True, help="Every session that has a worktree.")
@click.option("--force", is_flag=True, help="Also while the agent is running.")
@json_option
def sync_command(name: str | None, everything: bool, force: bool, as_json: bool) -> int:
    """Rebase the branch of session NAME onto its base. Also `rebase`.

    Onto the base as it is in this repository: nothing is fetched. With conflicts it is left as it was, and the exit
    code is 1.
    """
    from kildsvc.operations.changes import names
    from kildsvc.operations.land import sync

    if bool(name) == everything:
        raise UsageError("give the name of a session, or --all")
    done: list[dict[str, Any]] = []
    failed = False
    for one in names() if everything else [name or ""]:
        try:
            result = sync(one, force)
        except KildError as error:
            if not everything:
                raise
            failed = True
            done.append({"name": one, **render.error_body(error)})
            if not as_json:
                render.error(error, False)
            continue
        done.append(result.to_json())
        if not as_json:
            taken = f"rebased onto {counted(result.taken, 'new commit')} of" if result.taken else "has all of"
            render.say(f"{one}: {taken} {result.base}")
    if as_json:
        render.document(done)
    return 1 if failed else 0


@click.command("land")
@click.argument("name", shell_complete=offers.with_worktree)
@click.option("--execute", is_flag=True, help="Do it, instead of telling what would be done.")
@json_option
def land_command(name: str, execute: bool, as_json: bool) -> int:
    """Merge the branch of session NAME into its base; without --execute, tell what that would bring.

    Exit code 1 when they conflict.
    """
    from kildsvc.operations.land import land

    result = land(name, execute)
    if as_json:
        render.document(result.to_json())
    elif not result.commits:
        render.say(f"{name}: {result.base} has all of {result.branch}")
    else:
        word = "landed" if result.landed else "would land"
        amount = f"{counted(len(result.commits), 'commit')}, {counted(len(result.files), 'file')}"
        render.say(f"{name}: {word} {amount} on {result.base}")
        for line in result.commits:
            render.say(f"  {line}")
        for file in result.files:
            render.say(f"  {'conflict: ' if file in result.conflicts else ''}{file}")
        if not execute:
            hint = "it conflicts; try: kildsvc sync" if result.conflicts else "to do it: kildsvc land --execute"
            render.note(f"{hint} {name}")
    return 1 if result.conflicts else 0
