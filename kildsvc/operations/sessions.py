"""What sessions there are and how they are: systemd and the kernel for now, the journal for what was."""

import os
from pathlib import Path
from typing import Any

from kildsvc import journal, model, paths, store
from kildsvc.cgroup import Group
from kildsvc.errors import JournalUnreadable, NoSuchSession
from kildsvc.model import Ended, Metadata, Session, name_of, unit_of
from kildsvc.systemd.manager import Manager

_ALIVE_STATES = {
    "activating": model.STARTING,
    "active": model.RUNNING,
    "reloading": model.RUNNING,
    "deactivating": model.STOPPING,
}
_ENDED_PROPERTIES = ("StatusText", "Result", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestamp")
_CLD_KILLED = 2
_SIGTERM = 15


def status(name: str) -> Session:
    model.check_name(name)
    metadata = store.load(name)
    with Manager() as manager:
        found = manager.get(unit_of(name), "LoadState", "ActiveState")
        if found["LoadState"] == "loaded":
            return _loaded(manager, name, found["ActiveState"], metadata)
    if not metadata:
        raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
    return _history({name: metadata})[0]


def list_sessions() -> list[Session]:
    with Manager() as manager:
        # After the connection, so that a session forgotten meanwhile is not taken for one cut off.
        known = store.load_all()
        loaded = [
            _loaded(manager, name_of(unit), active, known.get(name_of(unit)))
            for unit, load, active in manager.units("kild-*.service")
            if load == "loaded"
        ]
    names = {session.name for session in loaded}
    unloaded = {name: metadata for name, metadata in known.items() if name not in names}
    return sorted([*loaded, *_history(unloaded)], key=lambda session: session.started or 0)


def running_names() -> list[str]:
    with Manager() as manager:
        return [name_of(unit) for unit, _, active in manager.units("kild-*.service") if active in _ALIVE_STATES]


def group_of(manager: Manager, name: str) -> Group:
    return Group(f"{manager.control_group}/kild.slice/{unit_of(name)}")


def _loaded(manager: Manager, name: str, active: str, metadata: Metadata | None) -> Session:
    run, started = _run_file(name)
    session = Session(
        name=name,
        state=_ALIVE_STATES.get(active, ""),
        unit=unit_of(name),
        run=run,
        started=started,
        **_about(metadata),
    )
    if active in _ALIVE_STATES:
        return _alive(manager, session)
    properties = manager.get(unit_of(name), *_ENDED_PROPERTIES)
    ended = read_end(properties)
    state = _end_state(ended, properties["Result"])
    if group_of(manager, name).populated:
        state = model.ORPHANED
    return _with(
        session,
        state=state,
        exit_code=ended.exit_code,
        signal=ended.signal,
        cause=ended.describe(),
        ended=properties["ExecMainExitTimestamp"] / 1e6 or None,
    )


def read_end(properties: dict[str, object]) -> Ended:
    """How a loaded unit's run ended. The shim's word on its agent stands above the shim's own exit."""
    ended = model.parse_status_text(str(properties["StatusText"])) or Ended()
    by_sigterm = (properties["ExecMainCode"], properties["ExecMainStatus"]) == (_CLD_KILLED, _SIGTERM)
    # The shim dies of SIGTERM when, and only when, a stop was asked for.
    stopped = properties["Result"] == "success" and by_sigterm
    return Ended(ended.code, ended.signal, ended.error, stopped)


def _end_state(ended: Ended, result: str) -> str:
    return {"oom-kill": model.OOM, "timeout": model.TIMEOUT}.get(result, ended.state())


def _alive(manager: Manager, session: Session) -> Session:
    text = manager.get(session.unit, "StatusText")["StatusText"]
    group = group_of(manager, session.name)
    pid = text.partition("agent pid ")[2].partition(",")[0]
    frozen = session.state == model.RUNNING and group.frozen
    return _with(
        session,
        state=model.PAUSED if frozen else session.state,
        pid=int(pid) if pid.isdigit() else None,
        memory=group.number("memory.current"),
        tasks=group.number("pids.current"),
        cpu_usec=group.cpu_usec,
    )


def _run_file(name: str) -> tuple[str | None, float | None]:
    """Run id and start: the shim writes this file when a run begins and never again."""
    path: Path = paths.runtime_dir(name) / "run"
    try:
        return path.read_text(), path.stat().st_mtime
    except OSError:
        return None, None


def _history(unloaded: dict[str, Metadata]) -> list[Session]:
    """Sessions systemd knows nothing of (any more): their last run, from the journal."""
    last: dict[str, dict[str, journal.Entry]] = {}
    problem = ""
    matches = [*journal.of_event("opened", "ended"), *(f"KILD_SESSION={name}" for name in unloaded)]
    waiting = set(unloaded)
    try:
        for entry in journal.read(matches, "--reverse") if unloaded else ():
            name = entry.text("KILD_SESSION")
            seen = last.setdefault(name, {})
            if name in waiting and (entry.event == "opened" or not seen):
                seen[entry.event] = entry
            if entry.event == "opened":
                waiting.discard(name)
            if not waiting:
                break
    except JournalUnreadable as error:
        problem = error.message
    return [_past(metadata, last.get(name, {}), problem) for name, metadata in unloaded.items()]


def _past(metadata: Metadata, records: dict[str, journal.Entry], problem: str) -> Session:
    opened, ended = records.get("opened"), records.get("ended")
    session = Session(
        name=metadata.name,
        state=model.LOST,
        cause=problem or "cut off: its end was not recorded",
        run=(ended or opened).run if ended or opened else None,  # type: ignore[union-attr]
        started=opened.usec / 1e6 if opened else metadata.created,
        **_about(metadata),
    )
    latest = ended or opened
    if latest:
        session = _with(session, before_boot=latest.text("_BOOT_ID") != _boot_id())
    if not ended:
        return session
    end = ended.ended()
    return _with(
        session,
        state=end.state(),
        exit_code=end.exit_code,
        signal=end.signal,
        cause=end.describe(),
        ended=ended.usec / 1e6,
    )


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")


def _about(metadata: Metadata | None) -> dict[str, Any]:
    if not metadata:
        return {}
    return {"agent": metadata.agent, "command": metadata.argv, "cwd": metadata.cwd, "note": metadata.note}


def _with(session: Session, **changes: object) -> Session:
    from dataclasses import replace

    return replace(session, **changes)  # type: ignore[arg-type]


def own_session() -> str | None:
    """The session this process runs in, if any."""
    return os.environ.get("KILD_SESSION")
