"""opencode: $XDG_DATA_HOME/opencode/opencode.db; before 1.2 many small JSON files under storage/."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kildsvc.agents import transcript
from kildsvc.agents.transcript import Conversation, Search, count, dig
from kildsvc.model import Word

_ID = re.compile(r"ses_[A-Za-z0-9]{1,64}")
_DATABASE = "opencode.db"
# A database that is busy, or slow to answer, has told us nothing.
_QUERY_SEC = 0.03
_MESSAGES_MAX = 300
_FILE_MAX = 64 * 1024

Row = tuple[Any, ...]


def find(search: Search) -> Iterator[Conversation]:
    if search.id and not _ID.fullmatch(search.id):
        return
    base = search.path("XDG_DATA_HOME", ".local/share") / "opencode"
    found = list(_in_database(base / _DATABASE, search))
    # What the database has came from the files, once.
    yield from found or _in_files(base / "storage", search)


def read(conversation: Conversation) -> Word:
    path = Path(conversation.file)
    if path.name != _DATABASE:
        return _word(conversation, *_from_files(path.parents[2], conversation.id))
    if _tables(path) >= {"session_v2", "session_message"} and (row := _totals(path, conversation.id)):
        return _word_of_2(conversation, row)
    rows = _query(
        path,
        "SELECT id, data FROM message WHERE session_id = ? AND length(data) < ? ORDER BY time_created DESC LIMIT ?",
        (conversation.id, _FILE_MAX, _MESSAGES_MAX),
    )
    messages = [(str(id), transcript.parse(data)) for id, data in rows if isinstance(data, str)]
    parts: list[Row] = []
    for id in _replies(messages):
        parts = _query(
            path, "SELECT data FROM part WHERE message_id = ? AND length(data) < ? LIMIT 50", (id, _FILE_MAX)
        )
        if said := _said([transcript.parse(data) for (data,) in parts if isinstance(data, str)]):
            return _word(conversation, messages, said)
    return _word(conversation, messages, "")


def _word(conversation: Conversation, messages: list[tuple[str, dict[str, Any]]], said: str) -> Word:
    """From messages, newest first."""
    replies = [message for _, message in messages if message.get("role") == "assistant"]
    tokens = [message.get("tokens") for message in replies]
    cached = sum(count(dig(one, "cache", "read")) for one in tokens)
    costs = [cost for message in replies if (cost := transcript.amount(message.get("cost"))) is not None]
    models = [model for message in replies if (model := transcript.word(message.get("modelID")))]
    times = [
        at
        for _, message in messages
        for key in ("created", "completed")
        if (at := transcript.seconds(dig(message, "time", key)))
    ]
    return Word(
        conversation=conversation.id,
        file=conversation.file,
        model=models[0] if models else None,
        messages=sum(message.get("role") in ("user", "assistant") for _, message in messages),
        input_tokens=cached + sum(count(dig(one, "input")) + count(dig(one, "cache", "write")) for one in tokens),
        cached_tokens=cached,
        output_tokens=sum(count(dig(one, "output")) + count(dig(one, "reasoning")) for one in tokens),
        cost=sum(costs) if costs else None,
        last_activity=max(times, default=conversation.active),
        last_message=transcript.one_line(said) if said else None,
        partial=len(messages) >= _MESSAGES_MAX,
    )


def _replies(messages: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [id for id, message in messages if message.get("role") == "assistant"][:5]


def _said(parts: list[dict[str, Any]]) -> str:
    shown = [part for part in parts if part.get("type") == "text" and not part.get("synthetic")]
    return transcript.texts(shown).strip()


# -- the database --------------------------------------------------------------------------------------------


def _query(path: Path, text: str, values: Row = ()) -> list[Row]:
    """What it answers, or nothing: where there is no database, no such table, or no time."""
    if not transcript.written(str(path)):
        return []
    deadline = time.monotonic() + _QUERY_SEC
    try:
        connection = sqlite3.connect(f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, timeout=_QUERY_SEC)
        with closing(connection):
            connection.text_factory = lambda data: data.decode(errors="replace")
            connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
            return connection.execute(text, values).fetchall()
    except sqlite3.Error:
        return []


def _tables(path: Path) -> set[str]:
    return {str(name) for (name,) in _query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def _in_database(path: Path, search: Search) -> Iterator[Conversation]:
    # A session with a parent is a helper's.
    where = "id = ?" if search.id else "directory IN (?, ?) AND parent_id IS NULL"
    values = (search.id,) if search.id else search.directories
    for table in ("session_v2", "session"):
        rows = _query(
            path,
            f"SELECT id, time_created, time_updated FROM {table} WHERE {where} ORDER BY time_updated DESC LIMIT ?",
            (*values, transcript.CANDIDATES_MAX),
        )
        for id, created, updated in rows:
            if isinstance(id, str) and _ID.fullmatch(id):
                yield Conversation(id, str(path), transcript.seconds(updated) or 0.0, transcript.seconds(created))
        if rows:
            return


def _totals(path: Path, id: str) -> Row | None:
    names = "model, cost, tokens_input, tokens_output, tokens_reasoning, tokens_cache_read, tokens_cache_write"
    counted = "SELECT count(*) FROM session_message WHERE session_id = s.id AND type IN ('user', 'assistant')"
    said = "SELECT data FROM session_message WHERE session_id = s.id AND type = 'assistant' ORDER BY seq DESC LIMIT 1"
    rows = _query(path, f"SELECT {names}, ({counted}), ({said}) FROM session_v2 AS s WHERE id = ?", (id,))
    return rows[0] if rows else None


def _word_of_2(conversation: Conversation, row: Row) -> Word:
    """opencode 2 keeps the totals."""
    model, cost, fresh, output, reasoning, cached, stored, messages, data = row
    content = dig(transcript.parse(data or ""), "content")
    said = _said([part for part in content if isinstance(part, dict)]) if isinstance(content, list) else ""
    return Word(
        conversation=conversation.id,
        file=conversation.file,
        model=transcript.word(dig(transcript.parse(model or ""), "id")),
        messages=count(messages),
        input_tokens=count(fresh) + count(cached) + count(stored),
        cached_tokens=count(cached),
        output_tokens=count(output) + count(reasoning),
        cost=transcript.amount(cost),
        last_activity=conversation.active,
        last_message=transcript.one_line(said) if said else None,
    )


# -- the files -----------------------------------------------------------------------------------------------


def _in_files(storage: Path, search: Search) -> Iterator[Conversation]:
    projects = transcript.listing(storage / "session")
    if search.id:
        paths = [f"{project}/{search.id}.json" for project in projects]
    else:
        paths = [path for project in projects for path in transcript.listing(project)]
    paths = paths[: transcript.ENTRIES_MAX]
    for written, path in transcript.last_written(paths, 0.0 if search.id else search.since):
        about = transcript.parse(transcript.head(path, _FILE_MAX))
        id, times = about.get("id"), about.get("time")
        ours = search.id or (search.is_cwd(about.get("directory")) and not about.get("parentID"))
        if ours and isinstance(id, str) and _ID.fullmatch(id):
            updated = transcript.seconds(dig(times, "updated")) or written
            yield Conversation(id, path, updated, transcript.seconds(dig(times, "created")))


def _from_files(storage: Path, id: str) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    # Their names are in the order of time.
    paths = sorted(transcript.listing(storage / "message" / id), reverse=True)[:_MESSAGES_MAX]
    messages = [(Path(path).stem, transcript.parse(transcript.head(path, _FILE_MAX))) for path in paths]
    for reply in _replies(messages):
        parts = sorted(transcript.listing(storage / "part" / reply))[:50]
        if said := _said([transcript.parse(transcript.head(path, _FILE_MAX)) for path in parts]):
            return messages, said
    return messages, ""
