"""Whatever comes from outside, other than output: frames, journal entries, files, names, keys."""

import io
import json
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fuzz import cut, cuts, effort
from hypothesis import example, given
from hypothesis import strategies as st

from kildsvc import activity, answers, keys, model, paths, store
from kildsvc.chord import CHORD_SEC, Chord
from kildsvc.chord import parse as parse_chord
from kildsvc.errors import KildError, UsageError
from kildsvc.journal import Entry, Parser, parse
from kildsvc.model import Metadata, Session, check_name, keeper_of, name_of, parse_status_text, unit_of
from kildsvc.restore import Past
from kildsvc.shim import wire
from kildsvc.shim.record import Record
from kildsvc.shim.replay import Replay
from kildsvc.shim.server import Client, Server

# -- the attach socket ----------------------------------------------------------------------------------------


class Seen:
    """A server as the shim has it, with a client whose bytes we choose; what it makes of them."""

    def __init__(self) -> None:
        self.typed, self.sizes = bytearray(), list[tuple[int, int]]()
        self.record = Record.create("run", 64 * 1024)
        self.epoll = select.epoll()
        self.listener = socket.socket(socket.AF_UNIX)
        self.server = Server(
            self.listener,
            self.record,
            Replay(self.record),
            self.epoll,
            lambda: {"run": "run"},
            self.typed.extend,
            lambda *size: self.sizes.append(size),
            lambda *_: None,
        )
        self.ours, theirs = socket.socketpair()
        self.ours.setblocking(False)
        theirs.setblocking(False)
        self.client = Client(theirs)
        self.server.clients[self.client.fd] = self.client
        self.epoll.register(self.client.fd)

    def send(self, data: bytes) -> None:
        if self.client.fd in self.server.clients:
            self.ours.send(data)
            self.server.on_client_ready(self.client, select.EPOLLIN)

    def close(self) -> None:
        self.server.drop(self.client)
        for each in (self.ours, self.listener, self.epoll):
            each.close()
        os.close(self.record.fd)


@contextmanager
def a_server() -> Iterator[Seen]:
    seen = Seen()
    try:
        yield seen
    finally:
        seen.close()


hello = st.builds(
    lambda version, mode, rows, cols, offset, run: wire.frame(
        wire.HELLO, wire.HELLO_BODY.pack(version, mode, rows, cols, offset) + run
    ),
    st.sampled_from([wire.VERSION, wire.VERSION, wire.VERSION, 0, 65535]),
    st.integers(0, 255) | st.integers(0, 3),
    st.integers(0, 65535),
    st.integers(0, 65535),
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([b"", b"run"]) | st.binary(max_size=8),
)
frames = st.builds(wire.frame, st.integers(0, 5) | st.integers(0, 255), st.binary(max_size=30))


@effort(250)
@given(st.booleans(), hello, st.lists(frames | st.binary(max_size=8), max_size=8), cuts)
def test_a_client_may_send_anything(polite: bool, first: bytes, rest: list[bytes], places: list[int]) -> None:
    stream = (first if polite else b"") + b"".join(rest)
    with a_server() as one, a_server() as other:
        one.send(stream)
        for piece in cut(stream, places):
            if piece:
                other.send(piece)
        if one.server.clients:  # not cut off: all of it was understood
            assert (other.typed, other.sizes) == (one.typed, one.sizes)
        assert len(one.typed) <= len(stream)
        assert all(rows and cols for rows, cols in one.sizes)
        assert len(other.client.decoder._data) <= wire.HEAD.size + wire.CLIENT_MAX


# -- the journal ----------------------------------------------------------------------------------------------

lengths = st.sampled_from([0, 1, 3, 1 << 20, (1 << 64) - 1]).map(lambda n: n.to_bytes(8, "little"))
exports = st.lists(
    st.sampled_from([b"\n", b"=", b"MESSAGE", b"KILD_DATA\n", b"A=b\n", b"\n\n", b"KILD_EXIT_CODE=", b"7\n"])
    | lengths
    | st.binary(max_size=6),
    max_size=30,
).map(b"".join)


@effort(250)
@given(exports, cuts)
@example(b"\xff=1\n\n", [])
def test_any_journal_is_read(stream: bytes, places: list[int]) -> None:
    whole = list(parse(io.BytesIO(stream)))
    parser = Parser()
    assert [entry for piece in cut(stream, places) for entry in parser.feed(piece)] == whole
    assert len(parser._data) <= len(stream)
    for entry in whole:
        understand(entry)


# An agent may write to the journal whatever it likes, with our fields too.
@effort(150)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.binary(max_size=8) | st.text(max_size=8).map(lambda text: text.encode(errors="replace"))
            for name in (
                "KILD_EXIT_CODE",
                "KILD_EXIT_SIGNAL",
                "KILD_STOPPED",
                "KILD_OFFSET",
                "KILD_EVENT",
                "__REALTIME_TIMESTAMP",
            )
        },
    )
)
@example({"KILD_EXIT_CODE": "²".encode()})
@example({"KILD_EXIT_SIGNAL": b"NONSENSE"})
@example({"KILD_EXIT_SIGNAL": b"RTMIN+"})
@example({"KILD_EXIT_CODE": b"9" * 5000})
def test_an_entry_may_say_anything(fields: dict[str, bytes]) -> None:
    understand(Entry(fields))


def understand(entry: Entry) -> None:
    ended = entry.ended()
    assert ended.state() in model.STATES
    assert ended.describe()
    assert ended.exit_code is None or 0 <= ended.exit_code <= 255
    assert entry.usec >= 0
    assert isinstance(entry.name + entry.run + entry.event + entry.cursor, str)


# -- names, words, keys ---------------------------------------------------------------------------------------

# As the command line gives it: bytes that are no UTF-8 become surrogates.
wild_text = st.text() | st.binary().map(os.fsdecode) | st.text("aZ09.-_/@ service\\x2d\n", max_size=60)


@effort(400)
@given(wild_text)
def test_a_name_is_a_literal_part_of_its_unit(name: str) -> None:
    try:
        check_name(name)
    except UsageError as error:
        assert error.message.isprintable()
        assert not error.hint or check_name(error.hint.removeprefix("try '").removesuffix("'"))
        return
    unit = unit_of(name)
    # What systemd takes as it is: no escapes needed, no template, and within its 255 bytes.
    assert name_of(unit) == name
    assert len(unit) <= 255
    assert unit.isascii()
    assert not set(unit) & set("/@\\ \n")
    assert keeper_of(name).removeprefix("kildkeep-").removesuffix(".slice").replace("\\x2d", "-") == name


words_of_status = st.text("ended: xitsgnaluob0123456789RTMIN+KLV, ofmry²٣", max_size=40)


@effort(250)
@given(
    words_of_status
    | st.builds("ended: {} {}".format, st.sampled_from(["exit", "signal", "not executed:"]), wild_text)
    | wild_text
)
@example("ended: exit ٣")
@example("ended: exit " + "9" * 5000)
@example("ended: signal NONSENSE")
@example("ended: signal RTMIN+²")
def test_any_status_text_is_an_end_or_none(text: str) -> None:
    if ended := parse_status_text(text):
        assert ended.exit_code is None or 0 <= ended.exit_code <= 255
        assert ended.describe()


@effort(300)
@given(wild_text | st.text("CcMmFf-²12ß up", max_size=12))
@example("F²")
@example("C-ß")
@example("M-" * 2000 + "x")
@example("\udcff")
def test_keys_are_bytes_or_a_mistake(text: str) -> None:
    try:
        assert len(keys.encode(text)) <= 8 * len(text)
    except UsageError as error:
        assert len(error.message) < 200


@effort(200)
@given(wild_text | st.lists(st.sampled_from(["ctrl-q", "ctrl-space", "CTRL-A", "ctrl-ß", "q"])).map(" ".join))
def test_a_chord_is_keys_or_a_mistake(text: str) -> None:
    try:
        forms = parse_chord(text)
    except ValueError:
        return
    assert len(forms) == len(text.split())


@effort(200)
@given(st.lists(st.sampled_from([b"\0", b"\x11", b"\x1b", b"\x1b[32;5u", b"\x1b[32;5:1u", b"a"]) | st.binary()), cuts)
def test_the_chord_does_not_depend_on_the_cuts(parts: list[bytes], places: list[int]) -> None:
    typed = b"".join(parts)
    one, other = Chord(), Chord()
    passed, complete = one.feed(typed)
    pieces = bytearray()
    for piece in cut(typed, places):
        more, found = other.feed(piece)
        pieces += more
        if found:
            break
        assert (other.patience_sec or 0) <= CHORD_SEC
    else:
        found = False
    assert found == complete
    assert pieces + (b"" if found else other.release()) == passed + (b"" if complete else one.release())


# -- files ----------------------------------------------------------------------------------------------------

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
METADATA = Metadata("demo", ["sh", "-c", "x"], "/bin/sh", "sh", "/", 1.0).to_json()
MARK = {"state": "done", "text": "", "at": 1.0}


def broken(whole: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """Files that are almost right, cut off, or nothing of ours."""
    changed = st.dictionaries(st.sampled_from(sorted(whole)), values, max_size=3).map(
        lambda changes: json.dumps({**whole, **changes}).encode()
    )
    text = json.dumps(whole).encode()
    return (
        changed
        | st.integers(0, len(text)).map(lambda at: text[:at])
        | st.binary(max_size=40)
        | values.map(lambda value: json.dumps(value).encode())
        | st.just(b"[" * 20_000)
        | st.just(b'{"a":' * 5_000)
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("XDG_STATE_HOME", str(home))
        patch.setenv("XDG_RUNTIME_DIR", str(home))
        paths.metadata_file("demo").parent.mkdir(parents=True)
        yield home


@effort(250)
@given(content=broken(METADATA))
@example(content=b"\xff")
@example(content=json.dumps({**METADATA, "argv": 5, "labels": [1], "created": "x"}).encode())
def test_a_broken_file_of_a_session_is_skipped(home: Path, content: bytes) -> None:
    paths.metadata_file("demo").write_bytes(content)
    metadata = store.load("demo")
    assert store.load_all().get("demo") == metadata
    if metadata:  # then it can be used without another look
        assert all(isinstance(part, str) for part in [*metadata.argv, metadata.cwd, metadata.agent, metadata.note])
        assert all(isinstance(part, str) for pair in metadata.labels.items() for part in pair)
        assert isinstance(metadata.created, int | float)
        json.dumps(Session("demo", "lost", command=metadata.argv, labels=metadata.labels).to_json())
        store.save(metadata)
        assert store.load("demo") == metadata


@effort(150)
@given(content=broken(MARK))
@example(content=b"\xff")
def test_a_broken_mark_is_none(home: Path, content: bytes) -> None:
    (home / "mark").write_bytes(content)
    (home / "output").write_bytes(content)
    (home / "run").write_bytes(content)
    if mark := activity.read(home).mark:
        assert isinstance(mark.state, str) and isinstance(mark.text, str) and isinstance(mark.at, int | float)
        json.dumps(asdict(mark))
    json.dumps(activity.read_run(home))


MODES = {"private": [25], "kitty": [[1], []], "title": "a", "region": "1;5", "alternate": 1049}
WELCOME = {"run": "ab.2", "offset": 0, "end": 5, "rows": 24, "cols": 80, "sizes": [[0, 24, 80]], "modes": MODES}


@effort(150)
@given(content=broken({"pinned": 3, **WELCOME}))
def test_a_broken_last_output_is_none(home: Path, content: bytes) -> None:
    store.make_output_dir("demo")
    paths.last_output_file("demo").write_bytes(content + b"\nabcdefgh")
    if saved := store.last_output("demo"):
        about, pinned, data = saved
        draw(about, pinned, data)


def draw(about: dict[str, Any], pinned: bytes, data: bytes) -> None:
    past = Past(about)
    past.pinned(pinned)
    past.add(data)
    assert past.drawing(24, 80)
    assert past.screen().text()


@effort(300)
@given(content=broken(WELCOME))
@example(content=b'{"offset": 0, "end": 9, "sizes": [[0, 65535, 65535], [3, -1, 0]]}')
@example(content=b'{"offset": 0, "end": 9, "modes": {"kitty": [[1]]}}')
@example(content=b'{"offset": 0, "end": 9, "modes": {"title": "\\ud800"}}')
def test_what_an_agent_says_in_its_shims_place(content: bytes) -> None:
    """A past that can be drawn, or one clear error."""
    try:
        draw(answers.read(content, "offset", "end"), b"abc", b"def")
    except KildError as error:
        assert "is not a shim" in str(error)
