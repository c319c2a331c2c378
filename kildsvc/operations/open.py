"""Opening a session: nothing is said to run before it does, and nothing is left of one that does not."""

import os
import shlex
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from kildsvc import environment, journal, limits, model, paths, progress, runtime, sshagent, store
from kildsvc.errors import (
    AgentExitedEarly,
    AlreadyRunning,
    JournalUnreadable,
    KildError,
    StoppedWhileStarting,
)
from kildsvc.launch import Launch
from kildsvc.model import Metadata, Worktree, keeper_of, unit_of
from kildsvc.operations import limit, sessions
from kildsvc.operations.confine import SET_UP_FAILED, confine
from kildsvc.operations.resolve import Request, Resolved, resolve
from kildsvc.operations.sessions import read_end
from kildsvc.shim.text import Cleaner
from kildsvc.systemd import properties
from kildsvc.systemd.manager import Manager, Refused
from kildsvc.version import VERSION

# How long the start may take beyond the grace period before we say that it does not happen.
START_SEC = 40
STOP_SEC = 30
LAST_LINES = 20
DEFAULT_GRACE_USEC = 200_000
TITLE_MAX = 60


@dataclass(frozen=True)
class Opened:
    """A session whose agent is up."""

    name: str
    unit: str
    run: str
    pid: int | None
    warnings: list[str]


@dataclass(frozen=True)
class Within:
    """A worktree that was made for the session, by whoever holds the lock of the runtime directory already."""

    worktree: Worktree
    directory: Path


def open_session(request: Request, within: Within | None = None) -> Opened:
    model.check_name(request.name)
    warnings: list[str] = []
    remembered = store.load(request.name)
    worktree = within.worktree if within else remembered.worktree if remembered else None
    if within:
        request = replace(request, cwd=os.path.join(within.worktree.path, request.cwd or ""))
    elif worktree and remembered:  # also with another command
        request = replace(request, cwd=request.cwd or remembered.cwd)
    resolved = resolve(request, remembered, warnings)
    metadata, settings = replace(resolved.metadata, worktree=worktree), resolved.settings
    asked = limit.of_session(metadata, settings)
    values = limit.read({name: text for name, (text, _) in asked.items()})
    refuse = limit.refusing(request.best_effort, warnings, {name: origin for name, (_, origin) in asked.items()})
    lock = nullcontext(within.directory) if within else runtime.locked(request.name)
    with lock as directory, Manager() as manager:
        _refuse_running(manager, request.name)
        values = limit.with_controllers(manager, values, refuse)
        limit.check_files(manager, values)
        launch = _launch(request, resolved, values)
        launch, fence = confine(launch, metadata, settings, directory)
        launch, ssh_agent = _with_ssh_agent(launch, resolved, directory)
        limit.limit_slice(manager, settings, request.best_effort, warnings)
        _make_room(manager, request.name)
        _warn_of_logout(directory, warnings)
        runtime.write_launch(launch, directory)
        if ssh_agent:
            sshagent.point(directory, ssh_agent)
        store.save(metadata)
        store.make_output_dir(request.name)
        try:
            _start(manager, launch, directory, metadata, [*limits.properties(values), *fence])
            limit.confirm(sessions.group_of(manager, request.name), values, refuse)
        except BaseException:
            _undo(manager, request.name, directory, remembered)
            raise
        text = manager.get(launch.unit, "StatusText")["StatusText"]
    if resolved.paste:
        _paste(request.name, resolved.paste, warnings)
    pid = text.partition("agent pid ")[2].partition(",")[0]
    return Opened(request.name, launch.unit, launch.run, int(pid) if pid.isdigit() else None, warnings)


def _paste(name: str, prompt: str, warnings: list[str]) -> None:
    from kildsvc.operations.screen import paste_prompt

    try:
        with progress.waiting_for(f"'{name}' to take the prompt"):
            paste_prompt(name, prompt)
    except KildError as error:
        warnings.append(f"the prompt was not given: {error.message}; kildsvc send {name} --paste --enter")


def _launch(request: Request, resolved: Resolved, values: limits.Values) -> Launch:
    metadata = resolved.metadata
    grace = (metadata.grace_usec, resolved.settings.get("grace"), DEFAULT_GRACE_USEC)
    title = shlex.join(metadata.argv)
    own = environment.limits()
    if files := values.get("nofile"):
        own["RLIMIT_NOFILE"] = [files, files]
    return Launch(
        name=metadata.name,
        run=os.urandom(6).hex(),
        unit=unit_of(metadata.name),
        agent=metadata.agent,
        title=title if len(title) <= TITLE_MAX else title[: TITLE_MAX - 1] + "…",
        executable=metadata.executable,
        argv=metadata.argv,
        env=resolved.env,
        cwd=metadata.cwd,
        rows=request.rows,
        cols=request.cols,
        umask=environment.umask(),
        limits=own,
        last_output=str(paths.last_output_file(metadata.name)),
        version=VERSION,
        grace_usec=next(usec for usec in grace if usec is not None),
        takes_terminal=resolved.takes_terminal,
        runtime_usec=values.get("runtime") or 0,
        nice=values.get("nice"),
    )


def _with_ssh_agent(launch: Launch, resolved: Resolved, directory: Path) -> tuple[Launch, str]:
    """The launch with the name that stays, and what that stands for now; "" where the agent is not to be had, or is
    chosen by other means. A sandbox lets through the socket itself: no other could be put in its place."""
    chosen = {*resolved.metadata.env_names, *resolved.settings.table("env", "set")}
    now = launch.env.get(sshagent.VARIABLE, "")
    if not now or launch.sandbox or sshagent.VARIABLE in chosen:
        return launch, ""
    return replace(launch, env={**launch.env, sshagent.VARIABLE: str(sshagent.link_in(directory))}), now


def _refuse_running(manager: Manager, name: str) -> None:
    found = manager.get(unit_of(name), "LoadState", "ActiveState")
    if found["LoadState"] == "loaded" and found["ActiveState"] not in ("inactive", "failed"):
        raise AlreadyRunning(
            f"session '{name}' is running already", f"kildsvc attach {name}, or kildsvc stop {name} first"
        )


def _make_room(manager: Manager, name: str) -> None:
    """Lets go of the unit of a session that has ended."""
    if manager.get(unit_of(name), "LoadState")["LoadState"] == "loaded":
        manager.kill(unit_of(name), 9)  # what a crash may have left
    forget_unit(manager, name)  # an open that was killed may have left the keeper alone


def forget_unit(manager: Manager, name: str) -> None:
    """Lets systemd unload an ended unit."""
    manager.listen(keeper_of(name))
    if job := manager.stop(keeper_of(name)):
        manager.wait_job(job, STOP_SEC)
    manager.reset_failed(unit_of(name))


def _warn_of_logout(directory: Path, warnings: list[str]) -> None:
    mark = directory.with_name(".linger-warned")
    if environment.lingers() or mark.exists():
        return
    mark.touch()
    warnings.append("sessions end when you log out; to keep them: loginctl enable-linger")


def _start(
    manager: Manager, launch: Launch, directory: Path, metadata: Metadata, more: list[properties.Property]
) -> None:
    where = (
        metadata.cwd.replace(str(Path.home()), "~", 1) if metadata.cwd.startswith(str(Path.home())) else metadata.cwd
    )
    description = f"{launch.name}: {metadata.agent} in {where}"
    manager.listen(launch.unit)
    try:
        manager.start_transient(keeper_of(launch.name), properties.keeper(launch.name))
        job = manager.start_transient(
            launch.unit, properties.service(launch, directory, runtime.interpreter(), description, more)
        )
    except Refused as error:
        raise KildError(f"cannot start '{launch.name}': {error.message}") from error
    timeout_sec = launch.grace_usec / 1e6 + START_SEC
    with progress.waiting_for(f"'{launch.agent}' to {'take the terminal' if launch.takes_terminal else 'be up'}"):
        result = manager.wait_job(job, timeout_sec)
        # A shim that crashed while starting is being restarted: the job has failed, the unit has not.
        state = manager.wait_state(launch.unit, ("active", "inactive", "failed"), timeout_sec)
    # Without a grace period executed is up, and one that has ended since was so.
    was_up = result == "done" and launch.grace_usec == 0
    if state != "active" and not was_up:
        raise _failure(manager, launch, result)


def _failure(manager: Manager, launch: Launch, result: str | None) -> KildError:
    found = manager.get(
        launch.unit, "StatusText", "Result", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestamp"
    )
    ended = read_end(found)
    if ended.stopped:
        return StoppedWhileStarting(f"session '{launch.name}' was stopped while it was starting")
    if launch.sandbox and found["ExecMainStatus"] in SET_UP_FAILED:
        return KildError(
            f"session '{launch.name}' was not started: systemd could not make its sandbox",
            f"journalctl --user -u {launch.unit}",
        )
    if ended.code is None and ended.signal is None:
        return KildError(
            f"session '{launch.name}' did not start: its shim ended with {found['Result']}"
            f" (status {found['ExecMainStatus']}{'' if result else ', no answer in time'})",
            f"journalctl --user -u {launch.unit}",
        )
    output, lived = _last_output(launch)
    if ended.error:
        message = f"'{launch.argv[0]}' {ended.describe()}"
    else:
        after = f" after {lived * 1000:.0f} ms" if lived is not None else ""
        message = f"'{launch.agent}' ended at once{after}: {ended.describe()}"
    hint = "" if output else "it printed nothing"
    return AgentExitedEarly(message, hint, output, ended.exit_code)


def _last_output(launch: Launch) -> tuple[str, float | None]:
    """The last lines the agent printed and how long it lived: from the journal, or from the file kept beside it."""
    try:
        entries = journal.read_to_end(launch.name, launch.run)
    except JournalUnreadable:
        entries = []
    if entries and (end := entries[-1]).event == "ended":
        data = b"".join(entry.fields.get("KILD_DATA", b"") for entry in entries)
        return last_lines(data), (end.number("KILD_LIVED_USEC") or 0) / 1e6
    saved = store.last_output(launch.name)
    return last_lines(saved[2]) if saved else "", None


def last_lines(data: bytes) -> str:
    lines = Cleaner().feed(data, final=True).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return "\n".join(lines[-LAST_LINES:])


def _undo(manager: Manager, name: str, directory: Path, remembered: Metadata | None) -> None:
    """Removes all that a failed or interrupted open has made."""
    try:
        manager.listen(unit_of(name))
        if job := manager.stop(unit_of(name)):
            manager.wait_job(job, STOP_SEC)
        manager.kill(unit_of(name), 9)
        forget_unit(manager, name)
    finally:
        runtime.clear(directory)
        if remembered:
            store.save(remembered)
        else:
            store.forget(name)
