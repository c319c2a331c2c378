"""What waits, events and status are made of, without a machine."""

import io
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc import api, model
from kildsvc.errors import UsageError
from kildsvc.journal import Parser, parse
from kildsvc.model import Ended, Event, Session, Waited, parse_status_text, wait_status
from kildsvc.operations.sessions import Filter, end_state, read_end
from kildsvc.operations.wait import Condition, exit_code
from kildsvc.shim.activity import Bell
from kildsvc.shim.journal import EVENTS, pack

SCHEMA = json.loads((Path(model.__file__).parent / "session.schema.json").read_text())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("session", {field.name for field in fields(Session)}),
        ("event", {field.name for field in fields(Event)}),
        ("wait", {field.name for field in fields(Waited)} | {"hint"}),
    ],
)
def test_the_schema_has_every_field(kind: str, names: set[str]) -> None:
    described = SCHEMA["$defs"][kind]
    assert set(described["properties"]) == set(described["required"]) == names | {"schema"}
    assert described["properties"]["schema"]["const"] == model.SCHEMA


def test_the_schema_has_every_state_and_event() -> None:
    assert tuple(SCHEMA["$defs"]["session"]["properties"]["state"]["enum"]) == model.STATES
    assert set(SCHEMA["$defs"]["event"]["properties"]["event"]["enum"]) == EVENTS.keys() - {"resized"}
    assert {wait_status(Session("a", state)) for state in model.STATES} == {
        *SCHEMA["$defs"]["wait"]["properties"]["status"]["enum"]
    }


def test_the_fields_of_version_1_stay() -> None:
    """Removing or renaming one breaks those who read it: that needs a new version."""
    names = SCHEMA["$defs"]["session"]["required"]
    first = "name unit state exit_code signal cause agent command cwd pid run started ended duration"
    assert " ".join(names[1:15]) == first
    assert set(names) >= {"last_output", "idle", "clients", "memory", "cpu", "tasks", "note", "labels"}


def unit(status_text: str, result: str, code: int = 1, status: int = 0) -> dict[str, object]:
    return {"StatusText": status_text, "Result": result, "ExecMainCode": code, "ExecMainStatus": status}


TERM = (2, 15)  # CLD_KILLED by SIGTERM: the mark of a stop
KILL = (2, 9)


# No memory controller in the machine of the tests: what systemd would say of an end for want of memory is given here,
# as it was measured in a virtual machine.
@pytest.mark.parametrize(
    ("properties", "state", "code"),
    [
        (unit("ended: exit 0", "success"), "exited", 0),
        (unit("ended: exit 7", "exit-code", 1, 7), "exited", 7),
        (unit("ended: signal KILL", "exit-code", 1, 137), "killed", 137),
        (unit("ended: signal TERM", "success", *TERM), "stopped", 143),
        (unit("ended: exit 0", "success", *TERM), "stopped", 0),
        (unit("ended: exit 0, stopped", "signal", *KILL), "stopped", 0),
        # OOMPolicy=continue, ours: the shim sees it and says so.
        (unit("ended: signal KILL, out of memory: limit 64M, peak 64M", "exit-code", 1, 137), "oom", 137),
        # A site's OOMPolicy=stop and =kill.
        (unit("ended: signal KILL", "oom-kill", 1, 137), "oom", 137),
        (unit("ended: signal TERM, stopped", "oom-kill", *TERM), "oom", 143),
        (unit("running, agent pid 5", "oom-kill", *KILL), "oom", None),
        # A compiler below the agent was out of memory once; the agent itself ended in order.
        (unit("ended: exit 0", "oom-kill", 1, 0), "exited", 0),
        (unit("ended: signal TERM, stopped", "timeout", *TERM), "timeout", 143),
        (unit("running, agent pid 5", "timeout", *KILL), "timeout", None),
        # It had ended, and what it left behind took too long: that is not its result.
        (unit("ended: exit 0", "timeout", *KILL), "exited", 0),
        (unit("running, agent pid 5", "signal", *KILL), "unobserved", None),
        (unit("", "exit-code", 1, 203), "unobserved", None),
    ],
)
def test_the_runs_own_word_stands_above_the_units(
    properties: dict[str, object], state: str, code: int | None
) -> None:
    ended = read_end(properties)
    assert (end_state(ended, properties), ended.exit_code) == (state, code)


def test_out_of_memory_in_every_form() -> None:
    text = "limit 64M, peak 64M"
    ended = Ended(signal="KILL", oom=text)
    assert parse_status_text(f"ended: signal KILL, out of memory: {text}") == ended
    assert parse_status_text("ended: signal RTMIN+3") == Ended(signal="RTMIN+3")
    assert (ended.state(), ended.describe()) == ("oom", f"out of memory: {text}")


def test_time_that_is_over_in_every_form() -> None:
    for text, ended in [
        ("ended: signal TERM, time limit", Ended(signal="TERM", timed_out=True)),
        ("ended: exit 0, time limit", Ended(code=0, timed_out=True)),
        ("ended: unobserved, time limit", Ended(timed_out=True)),
    ]:
        assert parse_status_text(text) == ended
        assert (ended.state(), "its time was over" in ended.describe()) == ("timeout", True)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([Waited("a", "exited", "exit", 0)], 0),
        ([Waited("a", "alive", "timeout")], 0),
        ([Waited("a", "dead", "exit")], 124),
        ([Waited("a", "oom", "exit", 137)], 137),
        ([Waited("a", "timeout", "exit")], 124),
        ([Waited("a", "timeout", "exit", 0)], 124),
        ([Waited("a", "timeout", "exit", 143)], 143),
        ([Waited("a", "exited", "exit", 0), Waited("b", "exited", "exit", 3), Waited("c", "exited", "exit", 4)], 3),
        ([Waited("a", "alive", "timeout"), Waited("b", "killed", "exit", 137)], 137),
    ],
)
def test_the_exit_code_of_a_wait(results: list[Waited], code: int) -> None:
    assert exit_code(results, Condition()) == code


def test_a_condition_that_cannot_come_true_is_no_success() -> None:
    output = Condition("output", pattern=re.compile("x"))
    assert exit_code([Waited("a", "exited", "exit", 0)], output) == 125
    assert exit_code([Waited("a", "exited", "exit", 3)], output) == 3
    assert exit_code([Waited("a", "exited", "output", 3)], output) == 0


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("exit", Condition("exit")),
        ("ready", Condition("ready")),
        ("idle=30s", Condition("idle", 30)),
        ("idle=1.5", Condition("idle", 1.5)),
        ("idle=2min", Condition("idle", 120)),
        ("output=a=b", Condition("output", pattern=re.compile("a=b"))),
    ],
)
def test_conditions(text: str, condition: Condition) -> None:
    assert api.condition(text) == condition


@pytest.mark.parametrize("text", ["", "idle", "idle=", "idle=x", "output", "output=", "output=(", "exit=1", "gone"])
def test_what_cannot_be_waited_for(text: str) -> None:
    with pytest.raises(UsageError):
        api.condition(text)


def test_a_directory_is_not_a_prefix() -> None:
    session = Session("a", "running", cwd="/src/app")
    assert Filter(cwd="/src").fits(session)
    assert Filter(cwd="/src/app").fits(session)
    assert not Filter(cwd="/src/ap").fits(session)
    assert Filter(cwd="/").fits(session)


@pytest.mark.parametrize(
    ("pieces", "rings"),
    [
        ([b"a\x07b"], [True]),
        ([b"plain \x1b[31mred\x1b[0m"], [False]),
        ([b"\x1b]0;title\x07"], [False]),
        ([b"\x1b]0;title\x07\x07"], [True]),
        ([b"\x1b]0;ti", b"tle\x07", b"\x07"], [False, False, True]),
        ([b"x\x1b", b"]0;title\x07"], [False, False]),
        ([b"\x1b]0;title\x1b", b"\\", b"\x07"], [False, False, True]),
        ([b"\x1bP" + b"x" * 100_000, b"y" * 100_000 + b"\x1b\\ \x07"], [False, True]),
        ([b"\x1b[1mbold\x07"], [True]),
    ],
)
def test_the_bell(pieces: list[bytes], rings: list[bool]) -> None:
    bell = Bell()
    assert [bell.rings(piece) for piece in pieces] == rings


@given(st.lists(st.sampled_from([b"\x07", b"\x1b", b"]", b"[", b"\\", b"P", b"a", b"m"]), max_size=12), st.data())
def test_the_bell_in_pieces_is_the_bell_as_a_whole(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cut = data.draw(st.integers(0, len(whole)))
    bell = Bell()
    together = [bell.rings(whole[:cut]), bell.rings(whole[cut:])]
    assert any(together) == Bell().rings(whole)


@given(
    st.lists(
        st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True), st.binary(max_size=20), min_size=1),
        max_size=4,
    ),
    st.integers(1, 7),
)
def test_entries_in_pieces_are_the_entries(entries: list[dict[str, bytes]], size: int) -> None:
    stream = b"".join(pack(one) + b"\n" for one in entries)
    parser = Parser()
    found = [entry for at in range(0, len(stream), size) for entry in parser.feed(stream[at : at + size])]
    assert [entry.fields for entry in found] == entries
    assert [entry.fields for entry in parse(io.BytesIO(stream))] == entries
