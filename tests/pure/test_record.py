"""The record of a run: bytes read from a real terminal survive the death of their reader."""

import os
import random
import select
import signal
import sys
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest

from kildsvc.shim import record as record_module
from kildsvc.shim.record import EMPTY, PHASE, READ, READ_MAX, READY, RUNNING, STOPPING, Record

# The children do nothing but read and die, whatever threads pytest-xdist has.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

RING = 4 * READ_MAX


@dataclass
class Terminal:
    master_fd: int
    slave_fd: int

    def write(self, data: bytes) -> None:
        """What the agent does; must fit the kernel's buffer."""
        assert os.write(self.slave_fd, data) == len(data)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master_fd, slave_fd = os.openpty()
    tty.setraw(slave_fd)
    os.set_blocking(master_fd, False)
    yield Terminal(master_fd, slave_fd)
    os.close(master_fd)
    os.close(slave_fd)


@pytest.fixture
def record() -> Iterator[Record]:
    record = Record.create("run-1", RING)
    yield record
    os.close(record.fd)


def in_child(work: Callable[[], object]) -> int:
    """Runs it in a fork that never returns; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def read_exactly(record: Record, terminal: Terminal, count: int) -> None:
    """Reads until so many bytes have come: the kernel passes them from one side to the other in its own time."""
    end = record.end + count
    while record.end < end:
        assert select.select([terminal.master_fd], [], [], 10)[0], f"{end - record.end} bytes are missing"
        record.read_from(terminal.master_fd)
    assert record.end == end


def pump(record: Record, terminal: Terminal, data: bytes) -> None:
    for at in range(0, len(data), 1000):
        terminal.write(data[at : at + 1000])
        read_exactly(record, terminal, len(data[at : at + 1000]))


def numbered(count: int) -> bytes:
    return b"".join(b"%07d\n" % number for number in range(count))


def test_a_new_record_is_empty(record: Record) -> None:
    assert (record.run, record.start, record.end, record.words[PHASE]) == ("run-1", 0, 0, EMPTY)
    assert record.recover() == 0


def test_what_the_terminal_has_is_taken(record: Record, terminal: Terminal) -> None:
    assert record.read_from(terminal.master_fd) == 0
    terminal.write(b"hello")
    read_exactly(record, terminal, 5)
    assert record.bytes_between(0, 5) == b"hello"
    assert bytes(record.piece(1, 3)) == b"ell"
    assert bytes(record.piece(1, 100)) == b"ello"


def test_a_terminal_that_is_hung_up_has_nothing(record: Record) -> None:
    master_fd, slave_fd = os.openpty()
    os.close(slave_fd)
    assert record.read_from(master_fd) == 0
    os.close(master_fd)


def test_the_ring_keeps_exactly_the_last_bytes(record: Record, terminal: Terminal) -> None:
    data = numbered(3 * RING // 8)
    pump(record, terminal, data)
    assert record.end == len(data)
    assert record.end - record.start == RING - READ_MAX
    assert record.bytes_between(record.start, record.end) == data[record.start :]


def test_a_piece_ends_where_the_ring_does(record: Record, terminal: Terminal) -> None:
    data = numbered(RING // 8 + 100)
    pump(record, terminal, data)
    assert bytes(record.piece(RING - 10, 100)) == data[RING - 10 : RING]
    assert record.bytes_between(RING - 10, RING + 10) == data[RING - 10 : RING + 10]


def test_another_record_of_the_same_file_sees_the_same(record: Record, terminal: Terminal) -> None:
    pump(record, terminal, numbered(10))
    record.words[PHASE] = RUNNING
    record.set_flag(READY)
    other = Record(record.fd)
    assert (other.run, other.end, other.size, other.words[PHASE]) == ("run-1", 80, RING, RUNNING)
    assert other.flag(READY)
    assert not other.flag(STOPPING)
    assert other.bytes_between(0, 80) == numbered(10)


def test_a_file_that_is_no_record_is_refused() -> None:
    fd = os.memfd_create("other")
    os.ftruncate(fd, 2 * READ_MAX)
    with pytest.raises(ValueError, match="not a record"):
        Record(fd)
    os.close(fd)


def test_bytes_that_arrived_uncounted_are_found(record: Record, terminal: Terminal) -> None:
    pump(record, terminal, b"counted ")
    terminal.write(b"uncounted")
    assert select.select([terminal.master_fd], [], [], 10)[0]
    at = record.end % RING
    pid = in_child(lambda: os.readv(terminal.master_fd, [record.ring[at : at + READ_MAX]]))
    os.waitpid(pid, 0)
    found = Record(record.fd)
    assert found.end == 8
    assert found.recover() == 9
    assert found.bytes_between(0, 17) == b"counted uncounted"
    assert found.recover() == 0


def test_nothing_is_found_when_nothing_was_pending(record: Record, terminal: Terminal) -> None:
    pump(record, terminal, numbered(2 * RING // 8))
    found = Record(record.fd)
    assert found.recover() == 0
    assert found.end == 2 * RING


def read_and_die(record: Record, fd: int, instructions: int) -> None:
    """One read, killed before that many-th bytecode instruction of record.py."""
    left = instructions

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != record_module.__file__:
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    record.read_from(fd)


def test_a_reader_killed_before_any_instruction_loses_and_doubles_nothing(record: Record, terminal: Terminal) -> None:
    pump(record, terminal, numbered(2 * RING // 8))  # the ring is full of old bytes
    for instructions in range(1, 1000):
        line = (b"killed before %d " % instructions).ljust(699, b".") + b"\n"
        before = record.end
        terminal.write(line)
        assert select.select([terminal.master_fd], [], [], 10)[0]
        # The reader may be given a part only: no more is asked of it than to lose none.
        dying = record
        _, status = os.waitpid(in_child(lambda: read_and_die(dying, terminal.master_fd, instructions)), 0)  # noqa: B023
        record = Record(record.fd)
        record.recover()
        assert record.end - before <= len(line), f"doubled when killed before instruction {instructions}"
        read_exactly(record, terminal, before + len(line) - record.end)
        assert record.bytes_between(before, record.end) == line
        if status == 0:
            break  # it came through alive
    assert status == 0


def read_for_ever(record: Record, fd: int) -> None:
    while True:
        select.select([fd], [], [])
        record.read_from(fd)


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def test_readers_killed_at_random_moments_lose_and_double_nothing(record: Record, terminal: Terminal) -> None:
    chance = random.Random(30)
    for _ in range(30):
        data = numbered(chance.randrange(RING // 2, RING - READ_MAX) // 8)
        before = record.end
        dying = record
        reader = in_child(lambda: read_for_ever(dying, terminal.master_fd))  # noqa: B023
        writer = in_child(lambda: write_all(terminal.slave_fd, data))  # noqa: B023
        try:
            moment = before + chance.randrange(len(data))
            deadline = time.monotonic() + 10
            while record.words[READ] < moment:
                assert time.monotonic() < deadline, "the reader does not read"
        finally:
            os.kill(reader, signal.SIGKILL)
            os.waitpid(reader, 0)
        record = Record(record.fd)
        record.recover()
        read_exactly(record, terminal, before + len(data) - record.end)
        os.waitpid(writer, 0)
        assert record.bytes_between(before, record.end) == data
        assert record.read_from(terminal.master_fd) == 0
