"""What the commands that are called most do, once their words are understood."""

import sys
from typing import TYPE_CHECKING, Any

from kildsvc.cli import render
from kildsvc.errors import AlreadyRunning, UsageError
from kildsvc.version import VERSION

if TYPE_CHECKING:
    from kildsvc.operations.worktree import Plan


def version() -> int:
    render.say(f"kildsvc {VERSION}")
    return 0


def status(name: str, as_json: bool = False) -> int:
    from kildsvc import api

    session = api.status(name)
    if as_json:
        render.document(session.to_json())
    else:
        from kildsvc.cli import looks

        looks.details(session)
    return 0 if session.alive else 3


def list_sessions(as_json: bool = False, wide: bool = False, **which: Any) -> int:
    """`which` are keywords of `api.sessions`."""
    from kildsvc import api

    sessions = api.sessions(**which, words=wide or as_json, _full=as_json)
    if as_json:
        render.document([session.to_json() for session in sessions])
    elif sessions:
        from kildsvc.cli import looks

        looks.table(sessions, wide)
    elif which:
        render.note("no session is so")
    else:
        render.note("no sessions; 'kildsvc open NAME -- COMMAND' makes one")
    return 0


def open(
    name: str,
    command: list[str],
    as_json: bool = False,
    attach_then: bool = False,
    plan: "Plan | None" = None,
    **options: Any,
) -> int:
    """`options` are keywords of `api.open`."""
    from kildsvc import api, terminal

    if sys.stderr.isatty():
        from kildsvc.cli import spinner

        spinner.install()
    rows, cols = terminal.size_or_usual(1)
    try:
        opened = api.open(name, command, **{"rows": rows, "cols": cols, **options}, _plan=plan)
    except AlreadyRunning:
        if not attach_then:
            raise
        return attach(name)
    for warning in opened.warnings:
        render.note(warning)
    if as_json:
        render.document(vars(opened))
        return 0
    if attach_then:
        return attach(name)
    render.say(f"{name}: running as {opened.unit}, pid {opened.pid}")
    return 0


def attach(name: str, read_only: bool = False, detach_keys: str | None = None) -> int:
    from kildsvc.chord import DEFAULT, Chord
    from kildsvc.operations.attach import attach

    if detach_keys is None:
        detach_keys = _keys_set() or DEFAULT
    try:
        chord = Chord(detach_keys)
    except ValueError as error:
        raise UsageError(f"--detach-keys: {error}") from error
    outcome = attach(name, read_only, chord, f"kildsvc: attached to '{name}'; {detach_keys} detaches")
    if outcome.exit is None:
        render.note(f"detached from '{name}', which goes on")
        return 128 + outcome.signal if outcome.signal else 0
    code = outcome.exit["exit_code"]
    if code is None:
        render.note(f"'{name}' has ended; nobody saw its exit code")
        return 125
    late, oom = outcome.exit.get("timed_out"), outcome.exit.get("oom")  # not told by the shim of an older version
    how = f"killed by SIG{outcome.exit['signal']}" if outcome.exit["signal"] else f"exit code {code}"
    word = "was stopped" if outcome.exit["stopped"] else "has had its time" if late else "has ended"
    render.note(f"'{name}' {word}: {f'out of memory: {oom}' if oom else how}")
    if code or not late:
        return int(code)
    # Not before: it brings asyncio along, half of the time to the first screen.
    from kildsvc.operations.wait import NO_RESULT

    return NO_RESULT


def _keys_set() -> str | None:
    from kildsvc import paths

    if not paths.config_file().exists():
        return None
    from kildsvc import config  # 10 ms, which nobody pays who has no settings

    found: str | None = config.load().get("detach_keys")
    return found
