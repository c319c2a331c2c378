"""What sessions there are and how they are: systemd and the kernel for now, the journal for what was."""

import os
import re
import resource
import time
from dataclasses import dataclass, replace
from typing import Any

from kildsvc import activity, limits, model, paths, store
from kildsvc.cgroup import Group
from kildsvc.errors import NoSuchSession
from kildsvc.model import Ended, Metadata, Session, name_of, unit_of
from kildsvc.systemd.manager import Manager

_ALIVE_STATES = {
    "activating": model.STARTING,
    "active": model.RUNNING,
    "reloading": model.RUNNING,
    "deactivating": model.STOPPING,
}
_ENDED_PROPERTIES = ("StatusText", "Result", "ExecMainCode", "ExecMainStatus", "ExecMainExitTimestamp")
# What the shim says of a living agent.
_RUNNING_TEXT = re.compile(r"running, agent pid (\d+)(?:, (\d+) attached)?")
_CLD_KILLED = 2
_SIGTERM = 15


def status(name: str, full: bool = True) -> Session:
    model.check_name(name)
    metadata = store.load(name)
    with Manager() as manager:
        found = manager.get(unit_of(name), "LoadState", "ActiveState")
        if found["LoadState"] == "loaded":
            return _loaded(manager, name, found["ActiveState"], metadata, full)
    if not metadata:
        raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
    return _of_old({name: metadata})[0]


@dataclass(frozen=True)
class Filter:
    """Which sessions; what is empty asks for nothing. Several states are alternatives, several labels all hold."""

    states: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    cwd: str = ""  # this directory or one inside it
    agent: str = ""

    def fits(self, session: Session) -> bool:
        return (
            (not self.states or session.state in self.states or ("alive" in self.states and session.alive))
            and all(session.labels.get(key) == value for key, value in self.labels)
            and (not self.cwd or session.cwd == self.cwd or session.cwd.startswith(self.cwd.rstrip("/") + "/"))
            and (not self.agent or session.agent == self.agent)
        )


def list_sessions(wanted: Filter | None = None, full: bool = True) -> list[Session]:
    """Those that fit; unless in full, of living ones only what a table shows: it takes half the time."""
    with Manager() as manager:
        # After the connection, so that a session forgotten meanwhile is not taken for one cut off.
        known = store.load_all()
        loaded = [
            _loaded(manager, name_of(unit), active, known.get(name_of(unit)), full)
            for unit, load, active in manager.units("kild-*.service")
            if load == "loaded"
        ]
    names = {session.name for session in loaded}
    unloaded = {name: metadata for name, metadata in known.items() if name not in names}
    found = sorted([*loaded, *_of_old(unloaded)], key=lambda session: session.started or 0)
    return [session for session in found if wanted is None or wanted.fits(session)]


def running_names() -> list[str]:
    with Manager() as manager:
        return [name_of(unit) for unit, _, active in manager.units("kild-*.service") if active in _ALIVE_STATES]


def group_of(manager: Manager, name: str) -> Group:
    return Group(f"{manager.control_group}/kild.slice/{unit_of(name)}")


def is_frozen_whole(name: str) -> bool:
    with Manager() as manager:
        return group_of(manager, name).frozen_whole


def _loaded(manager: Manager, name: str, active: str, metadata: Metadata | None, full: bool = True) -> Session:
    directory = paths.runtime_dir(name)
    run, started = activity.read_run(directory)
    session = Session(
        name=name,
        state=_ALIVE_STATES.get(active, ""),
        unit=unit_of(name),
        run=run,
        started=started,
        **about(metadata),
    )
    signs = activity.read(directory)
    session = replace(
        session,
        last_output=signs.last_output,
        last_input=signs.last_input,
        last_bell=signs.last_bell,
        mark=signs.mark,
    )
    if active in _ALIVE_STATES:
        return _alive(manager, session, signs, full)
    properties = manager.get(unit_of(name), *_ENDED_PROPERTIES)
    populated = group_of(manager, name).populated
    now = manager.get(unit_of(name), "ActiveState")["ActiveState"]
    if now != active:  # started again while it was asked: these are of two runs
        return _loaded(manager, name, now, metadata, full)
    if metadata and not populated and _never_ran(properties):
        return replace(_of_old({name: metadata})[0], unit=unit_of(name))
    ended = read_end(properties)
    state = end_state(ended, properties)
    at = properties["ExecMainExitTimestamp"] / 1e6 or None
    if populated:
        state = model.ORPHANED
    return replace(
        session,
        state=state,
        exit_code=ended.exit_code,
        signal=ended.signal,
        cause=ended.describe(),
        ended=at,
        duration=span(session.started, at),
    )


def _never_ran(properties: dict[str, object]) -> bool:
    """As far as systemd knows: in a reload it can lose what it knew, and load the unit's file anew."""
    return (properties["Result"], properties["StatusText"], properties["ExecMainExitTimestamp"]) == ("success", "", 0)


def read_end(properties: dict[str, object]) -> Ended:
    """How a loaded unit's run ended. The shim's word on its agent stands above the shim's own exit."""
    ended = model.parse_status_text(str(properties["StatusText"])) or Ended()
    stopped = properties["Result"] == "success" and _was_stopped(properties)
    return replace(ended, stopped=ended.stopped or stopped)


def _was_stopped(properties: dict[str, object]) -> bool:
    # The shim dies of SIGTERM when, and only when, it was told to stop.
    return (properties["ExecMainCode"], properties["ExecMainStatus"]) == (_CLD_KILLED, _SIGTERM)


def end_state(ended: Ended, properties: dict[str, object]) -> str:
    """The unit's result says why, where nobody saw the end or systemd brought it about; else the shim's word does."""
    unseen = ended.code is None and ended.signal is None
    if properties["Result"] == "oom-kill" and (unseen or ended.signal == "KILL" or _was_stopped(properties)):
        return model.OOM
    if properties["Result"] == "timeout" and (unseen or _was_stopped(properties)):
        return model.TIMEOUT
    return ended.state()


def _alive(manager: Manager, session: Session, signs: activity.Signs, full: bool) -> Session:
    said = _RUNNING_TEXT.match(manager.get(session.unit, "StatusText")["StatusText"])
    state = session.state
    # A shim that was killed says nothing while it is started again.
    up = _comes_back(manager, session) if state != model.RUNNING or not said else None
    if up:
        state = model.RUNNING
    pid = int(said[1]) if said else up
    group = group_of(manager, session.name)
    frozen = state == model.RUNNING and group.frozen
    now = time.time()
    session = replace(
        session,
        state=model.PAUSED if frozen else state,
        pid=pid,
        duration=span(session.started, now),
        idle=span(session.last_output or session.started, now),
        clients=int(said[2] or 0) if said else None,
        memory=group.number("memory.current"),
        limits={"memory": limits.told(group.read(limits.TABLE["memory"].file))},
    )
    return _in_full(manager, session, group, signs) if full else session


def _in_full(manager: Manager, session: Session, group: Group, signs: activity.Signs) -> Session:
    pid, runtime_usec = session.pid, manager.get(session.unit, "RuntimeMaxUSec")["RuntimeMaxUSec"]
    used, used_at_output = group.number("cpu.stat", "usage_usec"), signs.cpu_at_output_usec
    return replace(
        session,
        memory_peak=group.number("memory.peak"),
        oom_kills=group.number("memory.events", "oom_kill"),
        tasks=group.number("pids.current"),
        limits=_limits(group, runtime_usec, pid),
        cpu=used / 1e6 if used is not None else None,
        cpu_since_output=max(0, used - used_at_output) / 1e6 if used and used_at_output else None,
        took_terminal=activity.took_terminal(pid) if pid else None,
        children=activity.processes(group.pids, pid),
    )


def _limits(group: Group, runtime_usec: int, pid: int | None) -> dict[str, float | None]:
    """Those in effect, as the kernel tells them; None: no limit."""
    found: dict[str, float | None] = dict.fromkeys(limits.TABLE)
    for name, limit in limits.TABLE.items():
        if limit.file:
            found[name] = limits.told(group.read(limit.file))
    if runtime_usec != limits.NONE:
        found["runtime"] = runtime_usec / 1e6
    try:
        if pid:
            found["nice"] = os.getpriority(os.PRIO_PROCESS, pid)
            found["nofile"] = resource.prlimit(pid, resource.RLIMIT_NOFILE)[0]
    except (ProcessLookupError, PermissionError):
        pass  # it has just ended, or is somebody else's by now
    return found


def _comes_back(manager: Manager, session: Session) -> int | None:
    """The agent's pid when its shim was killed: systemd stops and starts the unit then, and the agent goes on."""
    found = manager.get(session.unit, "SubState", "Result")
    killed = found["SubState"] == "stop-post" and found["Result"] in ("signal", "core-dump")
    back = found["SubState"] in ("auto-restart", "start", "running")  # since its state was asked
    if killed or back or session.state != model.STOPPING:
        return activity.read_ready(paths.runtime_dir(session.name))
    return None


def _of_old(unloaded: dict[str, Metadata]) -> list[Session]:
    if not unloaded:
        return []
    from kildsvc.operations.history import last_runs  # not above: the journal is not asked about what lives

    return last_runs(unloaded)


def span(start: float | None, end: float | None) -> float | None:
    return max(0.0, end - start) if start and end else None


def run_of(name: str) -> str | None:
    return activity.read_run(paths.runtime_dir(name))[0]


def about(metadata: Metadata | None) -> dict[str, Any]:
    if not metadata:
        return {}
    return {
        "agent": metadata.agent,
        "command": metadata.argv,
        "cwd": metadata.cwd,
        "note": metadata.note,
        "labels": metadata.labels,
        "conversations": metadata.conversations,
        "sandbox": metadata.sandbox,
        "worktree": metadata.worktree,
    }


def own_session() -> str | None:
    """The session this process runs in, if any."""
    return os.environ.get("KILD_SESSION")
