"""Sessions whose unit is gone: how their last run ended, from the journal."""

from dataclasses import replace
from pathlib import Path

from kildsvc import journal, model
from kildsvc.errors import JournalUnreadable
from kildsvc.model import Metadata, Session
from kildsvc.operations.sessions import about, span


def last_runs(unloaded: dict[str, Metadata]) -> list[Session]:
    """Sessions systemd knows nothing of (any more): their last run, from the journal."""
    last: dict[str, dict[str, journal.Entry]] = {}
    problem = ""
    owners: dict[str, list[Metadata]] = {}
    for metadata in unloaded.values():
        for name in metadata.names:
            owners.setdefault(name, []).append(metadata)
    matches = [*journal.of_event("opened", "ended"), *journal.of_session(*owners)]
    waiting = set(unloaded)
    try:
        for entry in journal.read(matches, "--reverse"):
            for metadata in owners[entry.name]:
                if metadata.name not in waiting or not metadata.owns(entry.name, entry.usec / 1e6):
                    continue
                seen = last.setdefault(metadata.name, {})
                if entry.event == "opened" or not seen:
                    seen[entry.event] = entry
                if entry.event == "opened":
                    waiting.discard(metadata.name)
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
        **about(metadata),
    )
    latest = ended or opened
    if latest:
        session = replace(session, before_boot=latest.text("_BOOT_ID") != _boot_id())
    if not ended:
        return session
    end = ended.ended()
    return replace(
        session,
        state=end.state(),
        exit_code=end.exit_code,
        signal=end.signal,
        cause=end.describe(),
        ended=ended.usec / 1e6,
        duration=span(session.started, ended.usec / 1e6),
    )


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
