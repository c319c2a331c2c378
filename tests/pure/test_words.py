"""The agents' own word: their transcripts, as they are found on people's disks, and as nobody should write them."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kildsvc.agents import claude, transcript, words
from kildsvc.agents.transcript import Search
from kildsvc.model import Word

NOW = 1_790_000_000.0
ID = "0a6afc57-2f31-4cb4-8ff0-01247f50c64c"
OTHER = "8a6dc86d-84bb-4278-98ef-9065d9332d1b"
SES, OTHER_SES = "ses_469cf929cffeBICghRNeI7BWy6", "ses_111cf929cffeBICghRNeI7BWy7"


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def put(path: Path, text: str | bytes, at: float = NOW) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (at, at))
    return path


class Home:
    """A home directory with a project in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cwd = path / "my_app.v2"
        self.cwd.mkdir()

    def search(self, since: float = NOW - 60, **more: Any) -> Search:
        return Search(str(self.cwd), {"HOME": str(self.path)}, since, **more)

    # -- each as its agent writes it -----------------------------------------------------------------------

    def claude(
        self, id: str = ID, begun: float = NOW - 30, active: float = NOW, cwd: str = "", text: str = ""
    ) -> Path:
        common = {"sessionId": id, "cwd": cwd or str(self.cwd), "isSidechain": False, "version": "2.1.37"}
        usage = {"input_tokens": 2, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000}
        reply = {"id": "msg_1", "model": "claude-opus-4-7", "role": "assistant"}
        return put(
            self.claude_dir / f"{id}.jsonl",
            lines(
                {"type": "file-history-snapshot", "messageId": "x"},
                {**common, "type": "user", "message": {"content": "hello"}, "timestamp": iso(begun)},
                {
                    **common,
                    "type": "assistant",
                    "timestamp": iso(begun + 1),
                    "message": {**reply, "usage": {**usage, "output_tokens": 1}, "content": [{"type": "thinking"}]},
                },
                {
                    **common,
                    "type": "assistant",
                    "timestamp": iso(begun + 2),
                    "message": {
                        **reply,
                        "usage": {**usage, "output_tokens": 90},
                        "content": [{"type": "text", "text": "I will\nread \x1b[31mit\x1b[0m"}, {"type": "tool_use"}],
                    },
                },
                {
                    **common,
                    "type": "user",
                    "timestamp": iso(begun + 3),
                    "message": {"content": [{"type": "tool_result", "content": "data"}]},
                },
                {
                    **common,
                    "isSidechain": True,
                    "type": "assistant",
                    "timestamp": iso(begun + 4),
                    "message": {
                        "id": "msg_s",
                        "model": "claude-haiku",
                        "usage": {"output_tokens": 5000},
                        "content": [{"type": "text", "text": "a helper"}],
                    },
                },
                {
                    **common,
                    "type": "assistant",
                    "timestamp": iso(active),
                    "message": {
                        "id": "msg_2",
                        "model": "claude-opus-4-7",
                        "usage": {**usage, "output_tokens": 10},
                        "content": [{"type": "text", "text": text or "All  done."}],
                    },
                },
            ),
            active,
        )

    @property
    def claude_dir(self) -> Path:
        return self.path / ".claude/projects" / claude.encoded(os.path.realpath(self.cwd))

    def codex(self, id: str = ID, begun: float = NOW - 30, active: float = NOW, cwd: str = "", **more: Any) -> Path:
        day = datetime.fromtimestamp(begun).strftime("%Y/%m/%d")
        about = {"id": id, "timestamp": iso(begun), "cwd": cwd or str(self.cwd), "base_instructions": "x" * 20_000}
        usage = {"input_tokens": 5000, "cached_input_tokens": 4000, "output_tokens": 70, "total_tokens": 5070}
        records = [
            ("session_meta", {**about, **more}),
            ("response_item", {"type": "message", "role": "user", "content": [{"text": "<environment_context>"}]}),
            ("event_msg", {"type": "user_message", "message": "hello"}),
            (
                "response_item",
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            ),
            ("turn_context", {"cwd": "/", "model": "gpt-5.2-codex"}),
            ("event_msg", {"type": "token_count", "info": None}),
            ("event_msg", {"type": "token_count", "info": {"total_token_usage": {**usage, "output_tokens": 9}}}),
            ("event_msg", {"type": "agent_message", "message": "All done."}),
            (
                "response_item",
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "All done."}]},
            ),
            ("event_msg", {"type": "token_count", "info": {"total_token_usage": usage}}),
        ]
        text = lines(*({"timestamp": iso(active), "type": kind, "payload": payload} for kind, payload in records))
        return put(self.path / f".codex/sessions/{day}/rollout-2026-09-21T10-00-00-{id}.jsonl", text, active)

    def opencode(self, id: str = SES, begun: float = NOW - 30, active: float = NOW, cwd: str = "") -> Path:
        storage = self.path / ".local/share/opencode/storage"
        times = {"created": begun * 1000, "updated": active * 1000}
        for name, message in opencode_messages(begun, active).items():
            put(storage / f"message/{id}/{name}.json", json.dumps({"id": name, "sessionID": id, **message}))
        for at, part in enumerate(OPENCODE_PARTS):
            put(storage / f"part/msg_3/prt_{at}.json", json.dumps(part))
        about = {"id": id, "directory": cwd or str(self.cwd), "title": "t", "time": times}
        return put(storage / f"session/global/{id}.json", json.dumps(about), active)

    def opencode_db(self, id: str = SES, begun: float = NOW - 30, active: float = NOW, cwd: str = "") -> Path:
        path = self.path / ".local/share/opencode/opencode.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.executescript(
                """PRAGMA journal_mode=WAL;
                CREATE TABLE IF NOT EXISTS session (id text PRIMARY KEY, project_id text, parent_id text,
                    directory text NOT NULL, title text, time_created integer, time_updated integer);
                CREATE TABLE IF NOT EXISTS message (id text, session_id text, time_created integer, data text);
                CREATE TABLE IF NOT EXISTS part (id text, message_id text, session_id text, data text);
                CREATE TABLE IF NOT EXISTS session_message (id text, session_id text, type text, seq integer,
                    data text);"""
            )
            times = (int(begun * 1000), int(active * 1000))
            db.execute("INSERT INTO session VALUES (?, 'p', NULL, ?, 't', ?, ?)", (id, cwd or str(self.cwd), *times))
            for at, (name, message) in enumerate(opencode_messages(begun, active).items()):
                db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (name, id, at, json.dumps(message)))
            for at, part in enumerate(OPENCODE_PARTS):
                db.execute("INSERT INTO part VALUES (?, 'msg_3', ?, ?)", (f"prt_{at}", id, json.dumps(part)))
            db.commit()
        return path

    def opencode_2(self, id: str = SES, begun: float = NOW - 30, active: float = NOW, cwd: str = "") -> Path:
        path = self.path / ".local/share/opencode/opencode.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.executescript(
                """PRAGMA journal_mode=WAL;
                CREATE TABLE IF NOT EXISTS session_v2 (id text PRIMARY KEY, parent_id text, directory text NOT NULL,
                    model text, cost real DEFAULT 0, tokens_input integer DEFAULT 0, tokens_output integer DEFAULT 0,
                    tokens_reasoning integer DEFAULT 0, tokens_cache_read integer DEFAULT 0,
                    tokens_cache_write integer DEFAULT 0, time_created integer, time_updated integer);
                CREATE TABLE IF NOT EXISTS session_message (id text, session_id text, type text, seq integer,
                    data text);"""
            )
            db.execute(
                "INSERT INTO session_v2 VALUES (?, NULL, ?, ?, 0.5, 10, 60, 10, 4000, 990, ?, ?)",
                (id, cwd or str(self.cwd), '{"id": "gpt-6", "providerID": "x"}', begun * 1000, active * 1000),
            )
            said = json.dumps(
                {"content": [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "All done."}]}
            )
            for seq, kind in enumerate(["system", "user", "model-switched", "assistant"]):
                data = said if kind == "assistant" else "{}"
                db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?)", (f"m{seq}", id, kind, seq, data))
            db.commit()
        return path


def opencode_messages(begun: float, active: float) -> dict[str, dict[str, Any]]:
    tokens = {"input": 10, "output": 30, "reasoning": 5, "cache": {"read": 2000, "write": 490}}
    reply = {"role": "assistant", "modelID": "gpt-6", "cost": 0.25, "tokens": tokens}
    return {
        "msg_1": {"role": "user", "time": {"created": begun * 1000}},
        "msg_2": {**reply, "modelID": "gpt-5", "time": {"created": begun * 1000}},
        "msg_3": {**reply, "time": {"created": active * 1000 - 1, "completed": active * 1000}},
    }


OPENCODE_PARTS = [
    {"type": "step-start"},
    {"type": "reasoning", "text": "hm"},
    {"type": "text", "text": "All done."},
    {"type": "tool", "tool": "bash"},
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def read(agent: str, search: Search) -> Word:
    word = words.read(agent, search)
    assert word
    return word


# -- what they say -----------------------------------------------------------------------------------------


def test_claude(home: Home) -> None:
    file = home.claude()
    assert read("claude", home.search()) == Word(
        conversation=ID,
        file=str(file),
        last_activity=NOW,
        model="claude-opus-4-7",
        messages=3,  # one was typed; a reply in two blocks is one; a tool's answer and a helper's words are none
        input_tokens=2 * 1102,
        cached_tokens=2000,
        output_tokens=100,
        cost=None,
        last_message="All done.",
    )


def test_claude_told_the_cost_once(home: Home) -> None:
    reply = {"type": "assistant", "costUSD": 0.25, "message": {"id": "m1"}}
    put(home.claude_dir / f"{ID}.jsonl", lines(reply, reply, {**reply, "message": {"id": "m2"}}))
    assert read("claude", home.search()).cost == 0.5
    put(home.claude_dir / f"{ID}.jsonl", lines(reply, {"type": "assistant", "message": {"id": "m2"}}))
    assert read("claude", home.search()).cost is None, "half of the cost is not the cost"


def test_codex(home: Home) -> None:
    file = home.codex()
    assert read("codex", home.search()) == Word(
        conversation=ID,
        file=str(file),
        last_activity=NOW,
        model="gpt-5.2-codex",
        messages=2,
        input_tokens=5000,
        cached_tokens=4000,
        output_tokens=70,
        last_message="All done.",
    )


@pytest.mark.parametrize("make", [Home.opencode, Home.opencode_db, Home.opencode_2])
def test_opencode(home: Home, make: Callable[[Home], Path]) -> None:
    file = make(home)
    assert read("opencode", home.search()) == Word(
        conversation=SES,
        file=str(file),
        last_activity=NOW,
        model="gpt-6",
        messages=2 if make is Home.opencode_2 else 3,
        input_tokens=5000,
        cached_tokens=4000,
        output_tokens=70,
        cost=0.5,
        last_message="All done.",
    )


def test_an_opencode_that_was_upgraded_has_two_generations_of_tables(home: Home) -> None:
    home.opencode(active=NOW - 3)
    home.opencode_db(active=NOW - 2)
    with closing(sqlite3.connect(home.opencode_2(OTHER_SES))) as db:
        assert db.execute("SELECT count(*) FROM session").fetchall() == [(1,)]
    assert read("opencode", home.search()).conversation == OTHER_SES
    assert read("opencode", home.search(id=SES)).messages == 3


def test_opencode_writing_does_not_keep_us_waiting(home: Home) -> None:
    with closing(sqlite3.connect(home.opencode_db(), isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("BEGIN EXCLUSIVE")
        before = time.monotonic()
        assert words.read("opencode", home.search()) is None
        assert time.monotonic() - before < 1
        db.execute("ROLLBACK")
    assert words.read("opencode", home.search())


def test_an_agent_we_know_nothing_of(home: Home) -> None:
    assert words.read("bash", home.search()) is None
    assert words.read("os.path", home.search()) is None


# -- whose they are ----------------------------------------------------------------------------------------

MAKERS = {"claude": Home.claude, "codex": Home.codex, "opencode": Home.opencode, "opencode.db": Home.opencode_db}
each_maker = pytest.mark.parametrize("kind", MAKERS)


def make(home: Home, kind: str, number: int, **more: Any) -> str:
    id = (SES, OTHER_SES)[number] if kind.startswith("opencode") else (ID, OTHER)[number]
    MAKERS[kind](home, id, **more)
    return id


def found(home: Home, kind: str, since: float = NOW - 60, **more: Any) -> str | None:
    one = words.find(kind.partition(".")[0], home.search(since, **more))
    return one.id if one else None


@each_maker
def test_the_conversation_active_last_of_those_begun_since(home: Home, kind: str) -> None:
    assert found(home, kind) is None
    older = make(home, kind, 0, begun=NOW - 50, active=NOW - 40)
    assert found(home, kind) == older
    newer = make(home, kind, 1, begun=NOW - 20, active=NOW - 10)
    assert found(home, kind) == newer
    assert found(home, kind, until=NOW - 30) == older, "the session had ended when the other was begun"
    assert found(home, kind, taken=frozenset([newer])) == older
    assert found(home, kind, id=older) == older
    assert found(home, kind, NOW) is None


@each_maker
def test_one_begun_here_is_preferred_to_one_continued(home: Home, kind: str) -> None:
    continued = make(home, kind, 0, begun=NOW - 5000, active=NOW)
    assert found(home, kind) == continued
    begun = make(home, kind, 1, begun=NOW - 50, active=NOW - 40)
    assert found(home, kind) == begun


@each_maker
def test_other_directories_have_other_conversations(home: Home, kind: str) -> None:
    # One that claude writes with the same name.
    make(home, kind, 0, cwd=str(home.path / "my/app.v2"))
    assert found(home, kind) is None


@each_maker
def test_a_link_leads_to_the_same_directory(home: Home, kind: str) -> None:
    id = make(home, kind, 0)
    (home.path / "link").symlink_to(home.cwd)
    home.cwd = home.path / "link"
    assert found(home, kind) == id


def test_where_the_environment_says(home: Home) -> None:
    home.claude()
    home.codex()
    home.opencode_db()
    env = {
        "HOME": "/nowhere",
        "CLAUDE_CONFIG_DIR": str(home.path / ".claude"),
        "CODEX_HOME": str(home.path / ".codex"),
        "XDG_DATA_HOME": str(home.path / ".local/share"),
    }
    for agent, id in {"claude": ID, "codex": ID, "opencode": SES}.items():
        there = words.find(agent, Search(str(home.cwd), env, NOW - 60))
        assert there and there.id == id
        assert words.find(agent, Search(str(home.cwd), {"HOME": "/nowhere"}, NOW - 60)) is None


def test_claudes_names_for_directories(home: Home) -> None:
    assert claude.encoded("/home/me/my_app.v2 (ü)") == "-home-me-my-app-v2----"
    assert claude.encoded("/a/🙂") == "-a---"
    home.cwd = home.path / ("long" * 40)
    home.cwd.mkdir()
    name = claude.encoded(os.path.realpath(home.cwd))
    assert len(name) > 200
    home.claude().parent.rename(home.claude_dir.with_name(f"{name[:200]}-1x5hk2"))
    assert found(home, "claude") == ID


def test_helpers_of_an_agent_are_not_the_agent(home: Home) -> None:
    home.codex(OTHER, active=NOW, source={"subagent": "review"})
    home.codex(ID, active=NOW - 10, source="cli")
    assert found(home, "codex") == ID
    put(home.claude_dir / "agent-a748733.jsonl", home.claude(active=NOW - 10).read_bytes())
    assert found(home, "claude") == ID
    path = home.opencode_db(SES, active=NOW - 10)
    home.opencode_db(OTHER_SES)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE session SET parent_id = ? WHERE id = ?", (SES, OTHER_SES))
        db.commit()
    assert found(home, "opencode") == SES


def test_codex_goes_on_in_another_file_when_resumed(home: Home) -> None:
    first = home.codex(active=NOW - 20)
    again = first.with_name(f"rollout-2026-09-21T11-00-00-{ID}_{OTHER}.jsonl")
    put(again, first.read_bytes(), NOW)
    assert read("codex", home.search(id=ID)).file == str(again)


@pytest.mark.parametrize("id", ["../x", "", "-x", "a/b", "\0"])
def test_an_id_leads_nowhere_else(home: Home, id: str) -> None:
    for agent in words.FORMATS:
        home.claude_dir.mkdir(parents=True, exist_ok=True)
        put(home.claude_dir.parent / "x.jsonl", home.claude().read_bytes())
        assert not id or words.find(agent, home.search(id=id)) is None


# -- and what nobody should write --------------------------------------------------------------------------


def test_a_line_that_is_being_written(home: Home) -> None:
    for agent, file in {"claude": home.claude(), "codex": home.codex()}.items():
        before = read(agent, home.search())
        data = file.read_bytes()
        put(file, data + data.splitlines()[-1][:-30])
        assert read(agent, home.search()) == before
        put(file, b"\xff\xfe\x00garbage\n" + data + b'\n\n[1]\nnull\n"x"\n{}\n' + b"[" * 100_000 + b"\n")
        assert words.read(agent, home.search(id=ID)) or agent == "codex"


def test_of_a_huge_transcript_the_end_is_read(home: Home) -> None:
    for agent, file in {"claude": home.claude(), "codex": home.codex()}.items():
        small = read(agent, home.search())
        first, _, rest = file.read_bytes().partition(b"\n")
        filler = lines({"type": "progress", "data": "x" * 1000}) * 20_000
        put(file, first + b"\n" + filler.encode() + rest)
        before = time.process_time()
        word = read(agent, home.search())
        assert time.process_time() - before < 0.05
        assert word == Word(**{**small.__dict__, "partial": True})
        put(file, first + b"\n" + rest + filler.encode())
        word = read(agent, home.search())
        assert (word.messages, word.partial, word.model, word.last_message) == (0, True, None, None)
        assert word.last_activity == NOW


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "secret"])
def test_something_else_in_the_place_of_a_file(home: Home, kind: str) -> None:
    files = [home.claude(), home.codex(), home.opencode(), home.path / ".local/share/opencode/opencode.db"]
    for file in files:
        file.unlink(missing_ok=True)
        if kind == "link":
            file.symlink_to("/dev/tty")
        elif kind == "fifo":
            os.mkfifo(file)
        elif kind == "directory":
            file.mkdir()
        else:
            put(file, b"SQLite format 3\0" + b"\xff" * 5000)
    for agent in words.FORMATS:
        word = words.read(agent, home.search())
        assert word is None or (kind, agent, word.messages) == ("secret", "claude", 0)


def test_a_file_that_vanishes(home: Home) -> None:
    for agent, file in {"claude": home.claude(), "codex": home.codex(), "opencode": home.opencode()}.items():
        conversation = words.find(agent, home.search())
        assert conversation
        file.unlink()
        word = words._format(agent).read(conversation)
        assert (word.conversation, word.last_activity) == (conversation.id, NOW)


def test_many_conversations_cost_little(home: Home) -> None:
    file = home.claude()
    for number in range(2500):
        put(file.with_name(f"{ID[:-4]}{number:04}.jsonl"), b"{}\n" * 10, NOW - 9000)
    before = time.process_time()
    words.read("claude", home.search())
    assert time.process_time() - before < 0.05
    put(file, b'{"a":1}\n' * 100_000)
    before = time.process_time()
    assert words.read("claude", home.search(id=ID))
    assert time.process_time() - before < 0.05


def test_what_is_said_is_one_harmless_line(home: Home) -> None:
    evil = "ab\x1b]0;title\x07c\x1b[2J\r\n\u202ed\u2028e\x9b31m" + "x" * 5000
    home.claude(text=evil)
    said = read("claude", home.search()).last_message
    assert said and said.isprintable() and len(said) == transcript.LINE_MAX
    assert said.startswith("abc") and "title" not in said and said.endswith("x…")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "type message payload content id model usage input_tokens output_tokens costUSD timestamp info role text tokens"
)
strange = st.dictionaries(st.sampled_from(KEYS.split()), values | st.sampled_from(["user", "assistant"]), max_size=6)
nested = st.tuples(strange, strange, st.sampled_from(["message", "payload", "info", "usage", "time", "cache"])).map(
    lambda two: {**two[0], two[2]: two[1]}
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(nested | st.tuples(nested).map(lambda one: {"type": "assistant", "message": one[0]}), max_size=5))
def test_whatever_stands_there_it_is_read(home: Home, some: list[dict[str, Any]]) -> None:
    text = lines(*some)
    put(home.claude_dir / f"{ID}.jsonl", text)
    codex = home.codex()
    put(codex, codex.read_bytes() + text.encode())
    session = home.opencode()
    for at, record in enumerate(some):
        put(session.parents[2] / f"message/{SES}/msg_9{at}.json", json.dumps({"role": "assistant", **record}))
        put(session.parents[2] / f"part/msg_9{at}/prt_1.json", json.dumps(record))
    for agent in words.FORMATS:
        word = words.read(agent, home.search(id=SES if agent == "opencode" else ID))
        assert word
        json.dumps(word.__dict__, allow_nan=False)
