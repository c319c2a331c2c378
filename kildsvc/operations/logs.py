"""What a session printed, from the journal."""

import codecs
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from kildsvc import journal, model, store
from kildsvc.errors import JournalUnreadable, NoSuchSession, UsageError
from kildsvc.journal import Entry
from kildsvc.model import Metadata


@dataclass(frozen=True)
class Query:
    """Whose output, and how much of it."""

    name: str
    run: str = "last"
    lines: int | None = None
    follow: bool = False
    since: str | None = None


def text_lines(query: Query) -> Iterator[str]:
    """Readable lines, oldest first."""
    if query.lines is None or query.follow:
        for entry in _entries(query):
            yield from _lines(entry)
            if query.follow and query.run != "all" and entry.event == "ended":
                return
        return
    wanted: list[str] = []
    for entry in _entries(query, newest_first=True):
        wanted[:0] = _lines(entry)
        if len(wanted) >= query.lines:
            break
    yield from wanted[len(wanted) - min(query.lines, len(wanted)) :]


def raw_bytes(query: Query) -> Iterator[tuple[int, bytes]]:
    """The bytes of the terminal, each once, in order: (bytes missing before, data)."""
    at, run = 0, ""
    for entry in _entries(query):
        offset, data = entry.number("KILD_OFFSET"), entry.fields.get("KILD_DATA")
        if data is None or offset is None:
            if query.follow and query.run != "all" and entry.event == "ended":
                return
            continue
        if entry.run != run:
            at, run = 0, entry.run
        # After a crash of the shim a batch may have been sent twice.
        if offset + len(data) > at:
            yield max(0, offset - at), data[max(0, at - offset) :]
            at = offset + len(data)


def cast(query: Query) -> Iterator[str]:
    """One run as lines of asciicast v2, for asciinema and its players."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    start = 0
    for entry in _entries(query):
        size = entry.number("KILD_COLS") or 80, entry.number("KILD_ROWS") or 24
        if entry.event == "opened":
            start = entry.usec
            yield json.dumps({"version": 2, "width": size[0], "height": size[1], "timestamp": start // 1_000_000})
        elif entry.event == "resized" and start:
            yield json.dumps([(entry.usec - start) / 1e6, "r", "{}x{}".format(*size)])
        elif "KILD_DATA" in entry.fields and start:
            yield json.dumps([(entry.usec - start) / 1e6, "o", decode(entry.fields["KILD_DATA"])])


def saved_output(name: str) -> bytes | None:
    """The last output of an ended run, for when the journal cannot be read."""
    saved = store.last_output(name)
    return saved[2] if saved else None


def _lines(entry: Entry) -> list[str]:
    # 7: output. 4: something of it is missing.
    if entry.text("PRIORITY") not in ("7", "4") or "MESSAGE" not in entry.fields or entry.event:
        return []
    text = entry.text("MESSAGE")
    return [f"[{text}]"] if entry.text("PRIORITY") == "4" else text.split("\n")


def _entries(query: Query, newest_first: bool = False) -> Iterator[Entry]:
    model.check_name(query.name)
    options = []
    if query.since:
        options.append(f"--since={query.since}")
    if query.follow:
        options += ["--follow", "--no-tail" if query.lines is None else f"--lines={query.lines}"]
    elif newest_first:
        options.append("--reverse")
    metadata = store.load(query.name)
    matches = journal.of_session(*(metadata.names if metadata else [query.name]))
    run = query.run
    if run == "last":
        run = _last_run(query.name, matches, metadata)
    try:
        for entry in journal.read(matches if run == "all" else [*matches, f"KILD_RUN={run}"], *options):
            if not metadata or metadata.owns(entry.name, entry.usec / 1e6):
                yield entry
    except JournalUnreadable as error:
        if query.since and "parse" in error.message.lower():
            raise UsageError(
                f"--since '{query.since}' is not a time", "try '10 min ago' or '2026-01-31 14:00'"
            ) from error
        raise


def _last_run(name: str, matches: list[str], metadata: Metadata | None) -> str:
    with closing(journal.read([*matches, *journal.of_event("opened")], "--reverse")) as entries:
        for entry in entries:
            if not metadata or metadata.owns(entry.name, entry.usec / 1e6):
                return entry.run
    if metadata:
        raise JournalUnreadable(
            f"the journal has nothing of '{name}'", "it may have been rotated away, or be volatile"
        )
    raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
