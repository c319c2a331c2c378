"""What people say about a session: its note, its labels, its name."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kildsvc import journal, model, paths, runtime, store
from kildsvc.errors import AlreadyRunning, JournalUnreadable, NameInUse, NoSuchSession
from kildsvc.model import Metadata, Session, unit_of
from kildsvc.operations import sessions
from kildsvc.operations.mark import tell
from kildsvc.operations.open import forget_unit
from kildsvc.systemd.manager import Manager


def _load(name: str) -> Metadata:
    found = store.load(model.check_name(name))
    if not found:
        raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
    return found


def note(name: str, text: str | None) -> str:
    metadata = _load(name)
    if text is not None:
        with runtime.locked(name):
            metadata = replace(_load(name), note=" ".join(text.split()))
            store.save(metadata)
    return metadata.note


def label(name: str, labels: Mapping[str, str], remove: Iterable[str]) -> dict[str, str]:
    metadata = _load(name)
    remove = set(remove)
    if labels or remove:
        with runtime.locked(name):
            metadata = _load(name)
            kept = {key: value for key, value in metadata.labels.items() if key not in remove}
            metadata = replace(metadata, labels={**kept, **labels})
            store.save(metadata)
    return metadata.labels


def rename(old: str, new: str) -> Session:
    """Of an ended session: its unit, which bears the old name, is let go; the journal keeps what it has."""
    _load(old)
    model.check_name(new)
    if old == new:
        raise NameInUse(f"'{old}' is its name already")
    with runtime.locked(old) as directory, runtime.locked(new), Manager() as manager:
        metadata = _load(old)
        session = sessions.status(old)
        if session.alive or session.state == model.ORPHANED:
            raise AlreadyRunning(
                f"session '{old}' is {session.state}: the name of its unit cannot change", f"kildsvc stop {old} first"
            )
        if paths.metadata_file(new).exists() or manager.get(unit_of(new), "LoadState")["LoadState"] == "loaded":
            raise NameInUse(f"there is a session '{new}' already", f"kildsvc destroy {new}, or another name")
        if session.unit and session.run:
            _await_record(old, session.run)
        store.rename(old, replace(metadata, name=new, former=[*metadata.former, (old, time.time())]))
        forget_unit(manager, old)
        runtime.clear(directory)
    tell("removed", f"renamed to '{new}'", old, session.run or "", session.agent)
    return sessions.status(new)


def _await_record(name: str, run: str) -> None:
    """What the journal takes in later would seem to be of a later session of that name."""
    try:
        journal.read_to_end(name, run)
    except JournalUnreadable:
        pass  # then nobody reads it under the old name either
