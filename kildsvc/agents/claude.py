"""Claude Code: $CLAUDE_CONFIG_DIR/projects/<directory>/<conversation>.jsonl, one record a line."""

import os
import re
from collections.abc import Iterator
from typing import Any

from kildsvc.agents import transcript
from kildsvc.agents.transcript import Conversation, Search, count, dig
from kildsvc.model import Word

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Longer names are cut here, and a hash follows.
_NAME_MAX = 200
# A directory and a time are told by the first of them, or by one soon after.
_FIRST_LINES = 50


def find(search: Search) -> Iterator[Conversation]:
    for directory in _directories(search):
        if search.id:
            paths = [f"{directory}/{search.id}.jsonl"] if _ID.fullmatch(search.id) else []
        else:
            paths = [path for path in transcript.listing(directory) if _id_of(path)]
        for active, path in transcript.last_written(paths, 0.0 if search.id else search.since):
            begun, cwd = _beginning(path)
            # Two directories may have one name here: /a-b and /a/b.
            if search.id or cwd is None or search.is_cwd(cwd):
                yield Conversation(_id_of(path), path, active, begun)


def _id_of(path: str) -> str:
    name, _, suffix = os.path.basename(path).partition(".")
    return name if suffix == "jsonl" and _ID.fullmatch(name) else ""


def _directories(search: Search) -> list[str]:
    projects = str(search.path("CLAUDE_CONFIG_DIR", ".claude") / "projects")
    name = encoded(os.path.realpath(search.cwd))
    if len(name) <= _NAME_MAX:
        return [f"{projects}/{name}"]
    start = f"{projects}/{name[:_NAME_MAX]}-"
    return [path for path in transcript.listing(projects) if path.startswith(start)]


def encoded(cwd: str) -> str:
    # As JavaScript counts: a character beyond 16 bits is two.
    return re.sub(r"[^A-Za-z0-9]", lambda char: "-" if char[0] < "\U00010000" else "--", cwd)


def _beginning(path: str) -> tuple[float | None, str | None]:
    begun: float | None = None
    for record in transcript.records(transcript.head(path).split(b"\n", _FIRST_LINES)[:_FIRST_LINES]):
        begun = begun or transcript.stamp(record.get("timestamp"))
        if isinstance(cwd := record.get("cwd"), str):
            return begun, cwd
    return begun, None


def read(conversation: Conversation) -> Word:
    lines, whole = transcript.tail(conversation.file)
    model, said, activity = None, None, None
    typed = 0
    replies: dict[str, dict[str, Any]] = {}  # a reply is written once per block, its numbers growing
    for record in transcript.records(lines):
        activity = transcript.stamp(record.get("timestamp")) or activity
        if record.get("isSidechain") or record.get("isMeta"):
            continue
        message = record.get("message")
        if record.get("type") == "user":
            typed += bool(transcript.texts(dig(message, "content")))
        elif record.get("type") == "assistant":
            replies[str(dig(message, "id") or record.get("uuid"))] = record
            if dig(message, "model") != "<synthetic>":  # its own words on an error
                model = transcript.word(dig(message, "model")) or model
            said = transcript.texts(dig(message, "content")).strip() or said
    usages = [dig(reply, "message", "usage") for reply in replies.values()]
    costs = [transcript.amount(reply.get("costUSD")) for reply in replies.values()]  # of versions before 1.0
    cached = sum(count(dig(usage, "cache_read_input_tokens")) for usage in usages)
    fresh = (count(dig(usage, "input_tokens")) + count(dig(usage, "cache_creation_input_tokens")) for usage in usages)
    return Word(
        conversation=conversation.id,
        file=conversation.file,
        model=model,
        messages=typed + len(replies),
        input_tokens=cached + sum(fresh),
        cached_tokens=cached,
        output_tokens=sum(count(dig(usage, "output_tokens")) for usage in usages),
        cost=None if not costs or None in costs else sum(cost or 0 for cost in costs),
        last_activity=activity or conversation.active,
        last_message=transcript.one_line(said) if said else None,
        partial=not whole,
    )
