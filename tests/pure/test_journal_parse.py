"""From the shim's datagrams to entries read back."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.journal import Entry, parse
from kildsvc.model import Ended
from kildsvc.shim.journal import pack

field_names = st.from_regex(r"[A-Z][A-Z0-9_]{0,20}", fullmatch=True)
entries = st.dictionaries(field_names, st.binary(max_size=40), min_size=1, max_size=4)


def export(*fields: dict[str, bytes]) -> bytes:
    """As journalctl --output=export gives it: every entry ends with an empty line."""
    return b"".join(pack(one) + b"\n" for one in fields)


def read_back(stream: bytes) -> list[dict[str, bytes]]:
    return [entry.fields for entry in parse(io.BytesIO(stream))]


@given(st.lists(entries, max_size=4))
def test_any_bytes_come_back_as_they_were_packed(fields: list[dict[str, bytes]]) -> None:
    assert read_back(export(*fields)) == fields


def test_the_text_form_is_read_too() -> None:
    stream = b"__REALTIME_TIMESTAMP=17\nMESSAGE=a=b\nKILD_RUN=r1\n" + pack({"KILD_DATA": b"x\n\ny="}) + b"\n"
    (entry,) = parse(io.BytesIO(stream))
    assert (entry.usec, entry.text("MESSAGE"), entry.run) == (17, "a=b", "r1")
    assert entry.fields["KILD_DATA"] == b"x\n\ny="


def test_empty_lines_between_entries_are_no_entries() -> None:
    assert read_back(b"\n\n" + export({"A": b"1"}) + b"\n\n") == [{"A": b"1"}]


def test_a_stream_cut_anywhere_ends_after_its_last_whole_entry() -> None:
    fields = [{"MESSAGE": b"one", "KILD_EXIT_CODE": b"137"}, {"MESSAGE": b"two\n", "KILD_EXIT_CODE": b"255"}]
    first, second = b"MESSAGE=one\nKILD_EXIT_CODE=137\n\n", export(fields[1])
    for at in range(len(first + second) + 1):
        whole = 0 if at < len(first) else 1 if at < len(first + second) else 2
        assert read_back((first + second)[:at]) == fields[:whole], at


@given(st.lists(entries, min_size=1, max_size=4), st.data())
def test_a_cut_stream_raises_nothing(fields: list[dict[str, bytes]], data: st.DataObject) -> None:
    stream = export(*fields)
    read_back(stream[: data.draw(st.integers(0, len(stream)))])


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"KILD_EXIT_CODE": b"7"}, Ended(code=7)),
        ({"KILD_EXIT_CODE": b"0", "KILD_STOPPED": b"1"}, Ended(code=0, stopped=True)),
        ({"KILD_EXIT_SIGNAL": b"KILL", "KILD_STOPPED": b"0"}, Ended(signal="KILL")),
        ({"KILD_EXIT_CODE": b"127", "KILD_EXEC_ERROR": b"exec: no"}, Ended(code=127, error="exec: no")),
        ({}, Ended()),
    ],
)
def test_an_ended_record_tells_the_end(fields: dict[str, bytes], ended: Ended) -> None:
    assert Entry(fields).ended() == ended
