"""Limits: never one that is accepted and does nothing."""

import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kildsvc import limits, runtime, store
from kildsvc.cgroup import Group
from kildsvc.config import Config
from kildsvc.errors import NoEffect, NotRunning, UsageError
from kildsvc.limits import TABLE, Values
from kildsvc.model import Metadata, Session, unit_of
from kildsvc.operations import sessions
from kildsvc.systemd.manager import Manager

SLICE = "kild.slice"


@dataclass(frozen=True)
class Changed:
    """A session with its new limits."""

    session: Session
    warnings: list[str]


def limit(name: str, asked: Mapping[str, str], best_effort: bool) -> Changed:
    """Changes the limits of a running session, and remembers them for when it is opened again."""
    values = read(asked)
    warnings: list[str] = []
    session = sessions.status(name)
    if not session.alive:
        raise NotRunning(f"session '{name}' is not running: {session.cause}", f"kildsvc open {name}")
    for limit in values:
        if not TABLE[limit].live:
            hint = f"kildsvc stop {name}, then kildsvc open {name} {TABLE[limit].flag} {asked[limit]}"
            raise UsageError(f"{TABLE[limit].flag} cannot be changed while '{name}' runs", hint)
    if not values:
        return Changed(session, warnings)
    refuse = refusing(best_effort, warnings)
    with runtime.locked(name), Manager() as manager:
        values = with_controllers(manager, values, refuse)
        _warn_of_use(session, values, warnings)
        manager.set_properties(unit_of(name), limits.properties(values))
        confirm(sessions.group_of(manager, name), values, refuse)
        if metadata := store.load(name):
            store.save(replace(metadata, limits={**metadata.limits, **asked}))
    return Changed(sessions.status(name), warnings)


def _warn_of_use(session: Session, values: Values, warnings: list[str]) -> None:
    for name, used in (("memory", session.memory), ("tasks", session.tasks)):
        value = values.get(name)
        if value is not None and used and value < used:
            then = {
                "memory": "the kernel takes memory back, and kills what it must",
                "tasks": "no process more can be started",
            }[name]
            warnings.append(f"{TABLE[name].flag}: it has more than that now; {then}")


# -- for open too ------------------------------------------------------------------------------------------


def read(asked: Mapping[str, str]) -> Values:
    """Raises UsageError."""
    return limits.read(asked, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def of_session(metadata: Metadata, settings: Config) -> dict[str, tuple[str, str]]:
    """What was asked for, and in which line of a file: for this session, else for its agent, else for all."""
    found = {}
    for key in (("limits",), ("agents", metadata.agent, "limits")):
        for name, text in settings.table(*key).items():
            found[name] = (text, settings.origin(*key, name))
    for name, text in metadata.limits.items():
        found[name] = (text, "")
    return found


Refuse = Callable[[str, str, str], None]  # a limit, why it has no effect, the remedy
DELEGATE = (
    "as root: cd /etc/systemd/system && mkdir -p user@.service.d &&"
    " printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' >user@.service.d/delegate.conf &&"
    " systemctl daemon-reload; then, as you: systemctl --user daemon-reexec"
)
# A manager learns of new controllers when it is executed anew; sessions go on meanwhile.
LEARN = "systemctl --user daemon-reexec, if the controller was delegated just now"
UNIFY = "it takes cgroup v2; in a container its host must hand the controller on"


def refusing(best_effort: bool, warnings: list[str], origins: Mapping[str, str] | None = None) -> Refuse:
    """Raises NoEffect, or warns where that is good enough."""

    def refuse(name: str, why: str, remedy: str) -> None:
        origin = (origins or {}).get(name)
        what = f"{origin}: the limit '{name}'" if origin else TABLE[name].flag
        if not best_effort:
            raise NoEffect(f"{what} would have no effect: {why}", f"{remedy}; or do without it: --best-effort")
        warnings.append(f"{what} has no effect: {why}")

    return refuse


def with_controllers(manager: Manager, values: Values, refuse: Refuse) -> Values:
    """Those that the kernel can keep here."""
    delegated = Group(manager.control_group).read("cgroup.controllers").split()
    there = Group("/").read("cgroup.controllers").split()
    kept = {}
    for name, value in values.items():
        controller = TABLE[name].controller
        if not controller or controller in delegated or value is None:
            kept[name] = value
        elif controller in there:
            refuse(name, f"the '{controller}' controller is not delegated to your systemd", DELEGATE)
        else:
            refuse(name, f"there is no '{controller}' controller here", UNIFY)
    return kept


def confirm(group: Group, values: Values, refuse: Refuse) -> None:
    """Asks the kernel whether it keeps them: a controller may be there without this very limit."""
    for name, value in values.items():
        file = TABLE[name].file
        if file and value is not None and group.populated and limits.told(group.read(file)) is None:
            refuse(name, f"the kernel has no {file} for it", LEARN)


def check_files(manager: Manager, values: Values) -> None:
    """Raises UsageError for more than the agent could be given."""
    wanted = values.get("nofile")
    own, managers = resource.getrlimit(resource.RLIMIT_NOFILE)[1], manager.most_files
    most = managers if own == resource.RLIM_INFINITY else min(own, managers)
    if wanted is not None and wanted > most:
        raise UsageError(f"--nofile {wanted} is above the hard limit of {most}", "see ulimit -Hn")


def limit_slice(manager: Manager, settings: Config, best_effort: bool, warnings: list[str]) -> None:
    """What the configuration says of all sessions together."""
    asked = settings.table("slice")
    if not asked:
        return
    origins = {name: settings.origin("slice", name) for name in asked}
    values = with_controllers(manager, read(asked), refusing(best_effort, warnings, origins))
    manager.set_properties(SLICE, limits.properties(values))
