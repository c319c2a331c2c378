"""Codex: $CODEX_HOME/sessions/YYYY/MM/DD/rollout-<time>-<conversation>.jsonl, one record a line."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from kildsvc.agents import transcript
from kildsvc.agents.transcript import Conversation, Search, dig
from kildsvc.model import Word

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The first record holds the instructions of the agent, some 20 KiB.
_FIRST_MAX = 256 * 1024
_DAYS_MAX = 366


def find(search: Search) -> Iterator[Conversation]:
    rollouts = _rollouts(search.path("CODEX_HOME", ".codex") / "sessions")
    if search.id:
        # One that was resumed may go on in a file of its own, named after both.
        rollouts = [path for path in rollouts if search.id in path]
    for active, path in transcript.last_written(rollouts, 0.0 if search.id else search.since):
        line = transcript.parse(transcript.head(path, _FIRST_MAX).partition(b"\n")[0])
        about: Any = line.get("payload")
        id = dig(about, "id")
        if line.get("type") != "session_meta" or not isinstance(id, str) or not _ID.fullmatch(id):
            continue
        helper = isinstance(dig(about, "source"), dict) or dig(about, "thread_source") == "subagent"
        if id == search.id if search.id else search.is_cwd(dig(about, "cwd")) and not helper:
            begun = transcript.stamp(dig(about, "timestamp")) or transcript.stamp(line.get("timestamp"))
            yield Conversation(id, path, active, begun)


def _rollouts(sessions: Path) -> list[str]:
    """The newest days first, until there are enough."""
    found: list[str] = []
    for day in islice(_days(sessions), _DAYS_MAX):
        found += [path for path in transcript.listing(day) if "/rollout-" in path and path.endswith(".jsonl")]
        if len(found) >= transcript.ENTRIES_MAX:
            break
    return found


def _days(sessions: Path) -> Iterator[str]:
    for year in sorted(transcript.listing(sessions), reverse=True):
        for month in sorted(transcript.listing(year), reverse=True):
            yield from sorted(transcript.listing(month), reverse=True)


def read(conversation: Conversation) -> Word:
    lines, whole = transcript.tail(conversation.file)
    model, said, activity, usage = None, None, None, None
    messages = 0
    for record in transcript.records(lines):
        activity = transcript.stamp(record.get("timestamp")) or activity
        payload = record.get("payload")
        kind = (record.get("type"), dig(payload, "type"))
        if kind[0] == "turn_context":
            model = transcript.word(dig(payload, "model")) or model
        elif kind == ("event_msg", "token_count"):
            usage = dig(payload, "info", "total_token_usage") or usage  # of the whole conversation
        elif kind == ("event_msg", "user_message"):
            messages += 1
        elif kind == ("response_item", "message") and dig(payload, "role") == "assistant":
            messages += 1
            said = transcript.texts(dig(payload, "content")).strip() or said

    def total(name: str) -> int | None:
        return transcript.count(dig(usage, name)) if usage else None

    return Word(
        conversation=conversation.id,
        file=conversation.file,
        model=model,
        messages=messages,
        input_tokens=total("input_tokens"),
        cached_tokens=total("cached_input_tokens"),
        output_tokens=total("output_tokens"),
        last_activity=activity or conversation.active,
        last_message=transcript.one_line(said) if said else None,
        partial=not whole,
    )
