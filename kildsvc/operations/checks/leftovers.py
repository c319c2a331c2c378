"""What is there and belongs to no session: after a crash, a killed command, a removed directory."""

import fcntl
import os
from pathlib import Path

from kildsvc import paths, runtime, store
from kildsvc.errors import Busy, UsageError
from kildsvc.model import check_name, name_of, unit_of
from kildsvc.operations import sessions
from kildsvc.operations.checks.found import Found, ok, warn
from kildsvc.operations.open import forget_unit
from kildsvc.quantity import counted
from kildsvc.systemd.manager import Manager

_SHOWN = 5
_OVER = ("inactive", "failed")


def units_and_files() -> Found:
    with Manager() as manager:
        found = _find(manager)
    if not found:
        return ok("nothing")
    return warn(
        f"{_few([f'{what} of {name}' for name, what in found])}", "kildsvc doctor --fix", lambda: _remove(found)
    )


def _find(manager: Manager) -> list[tuple[str, str]]:
    """Names of sessions that are none, each with what there is of it."""
    known = {path.stem for path in (paths.state_dir() / "sessions").glob("[!.]*.json")}
    loaded = {name_of(unit): active for unit, load, active in manager.units("kild-*.service") if load == "loaded"}
    over = {name for name, active in loaded.items() if active in _OVER}
    found = [(name, "the unit") for name in over - known]
    keepers = {unit[9:-6].replace("\\x2d", "-") for unit, *_ in manager.units("kildkeep-*.slice")}
    found += [(name, "the keeper") for name in keepers - loaded.keys()]
    place = paths.user_runtime_dir() / "kildsvc"
    found += [(name, "the socket") for name in _directories(place) - loaded.keys()]
    locks = {path.name[1:-5] for path in place.glob(".*.lock")}
    found += [(name, "the lock") for name in locks]
    found += [
        (name, "the last output") for name in _directories(paths.state_dir() / "output") - known - loaded.keys()
    ]
    return [(name, what) for name, what in sorted(found) if _is_name(name) and not _is_held(name)]


def _directories(place: Path) -> set[str]:
    return {path.name for path in place.glob("[!.]*") if path.is_dir()}


def _is_name(name: str) -> bool:
    try:
        return check_name(name) == name
    except UsageError:
        return False


def _is_held(name: str) -> bool:
    """Somebody is just making or forgetting it."""
    try:
        with open(runtime.lock_file(name), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _remove(found: list[tuple[str, str]]) -> None:
    with Manager() as manager:
        for name in dict(found):
            try:
                with runtime.locked(name) as directory:
                    now = manager.get(unit_of(name), "LoadState", "ActiveState")  # somebody may have opened it since
                    if now["ActiveState"] not in _OVER or sessions.group_of(manager, name).populated:
                        continue
                    known = paths.metadata_file(name).exists()
                    if now["LoadState"] != "loaded" or not known:
                        forget_unit(manager, name)
                        runtime.clear(directory)
                    if not known:
                        store.forget(name)
            except Busy:
                continue


def metadata() -> Found:
    bad = [path for path in (paths.state_dir() / "sessions").glob("[!.]*.json") if not store.load(path.stem)]
    if bad:
        return warn(f"cannot be read: {_few([str(path) for path in bad])}", f"rm {' '.join(map(str, bad))}")
    return ok("all can be read")


def worktrees() -> Found:
    """Told, never removed: there may be work in them."""
    known = {name: one.worktree.path for name, one in store.load_all().items() if one.worktree}
    place = paths.worktree_dir("", "")
    owned = set(known.values())
    strays = [str(path) for path in place.glob("*/*") if path.is_dir() and os.path.realpath(path) not in owned]
    gone = [name for name, path in known.items() if not os.path.isdir(path)]
    if strays:
        return warn(
            f"{counted(len(strays), 'worktree')} of no session: {_few(strays)}",
            " && ".join(f"git -C '{path}' worktree remove '{path}'" for path in strays[:_SHOWN]),
        )
    if gone:
        return warn(
            f"the worktrees of {_few(gone)} are gone", " && ".join(f"kildsvc destroy {name}" for name in gone)
        )
    return ok("each has its session")


def _few(items: list[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else "")
