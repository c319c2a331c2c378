"""What a client gets of the past: for any stream, cut by the ring anywhere, a screen that can be drawn."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kildsvc.restore import Past
from kildsvc.screen import Screen
from kildsvc.shim.record import PIN_MAX, Record
from kildsvc.shim.replay import Replay

calm = settings(max_examples=60)

PIECES = [
    b"plain text ",
    b"\r\n",
    b"\x1b[31mred\x1b[0m",
    b"\x1b[5;5H",
    b"\x1b[?1049h",
    b"\x1b[?1049l",
    b"\x1b[2J",
    b"\x1b[3A\x1b[K",
    b"\x1b[2;6r",
    b"\x1b[r",
    b"\x1b]0;title\x07",
    b"\x1b[?1000h\x1b[?2004h",
    "漢字".encode(),
    b"\t\x08x",
    b"\x1b[L\x1b[P\x1b[@",
    b"\x1b[?;1049h",
    b"\x1b[?047h",
]
streams = st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=60).map(b"".join)


class Source:
    """A record that output is written into, as the shim reads it from a terminal."""

    def __init__(self, ring: int = 64 * 1024) -> None:
        self.record = Record.create("run", ring)
        self.replay = Replay(self.record)
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.replay.resized(10, 40)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), 4096):
            os.write(self.write_fd, data[at : at + 4096])
            while self.record.read_from(self.read_fd):
                pass
            self.replay.keep_up()

    def past(self) -> Past:
        past = Past({**self.replay.about(), "end": self.record.end})
        past.pinned(self.replay.pinned)
        past.add(self.record.bytes_between(self.replay.offset, self.record.end))
        assert past.complete
        return past

    def close(self) -> None:
        for fd in (self.read_fd, self.write_fd, self.record.fd):
            os.close(fd)


@pytest.fixture
def source() -> Iterator[Source]:
    source = Source()
    yield source
    source.close()


@calm
@given(streams)
def test_a_drawing_gives_the_same_screen(stream: bytes) -> None:
    source = Source()
    try:
        source.write(stream)
        past = source.past()
        expected = past.screen()
        fresh = Screen(10, 40)
        fresh.feed(past.drawing(10, 40))
        assert fresh.text() == expected.text()
        assert fresh.cursor[:2] == expected.cursor[:2]
    finally:
        source.close()


@calm
@given(streams, st.integers(1, 400))
def test_a_past_cut_anywhere_is_survived(stream: bytes, distance: int) -> None:
    source = Source()
    try:
        source.write(stream)
        source.replay.follow(distance)
        again = Replay(Record(os.dup(source.record.fd)))  # as a restarted shim finds it
        assert again.about() == source.replay.about()
        os.close(again._record.fd)
        past = source.past()
        past.drawing(7, 33)
        modes = past.modes()
        source.replay.follow(0)
        assert source.replay.current().state() == modes.state()
    finally:
        source.close()


@pytest.mark.parametrize("switch", [b"1049", b";1049", b"01049", b"25;1049;"])
def test_the_primary_screen_is_pinned_when_the_ring_moves_on(source: Source, switch: bytes) -> None:
    source.write(b"behind the full-screen program\r\n\x1b[?%sh\x1b[?1000h" % switch)
    for i in range(20000):
        source.write(b"\x1b[%d;1Hrow %d\x1b[K" % (i % 10 + 1, i))
    assert source.replay.offset > 0
    past = source.past()
    assert "row 19999" in past.screen().text()[9]
    screen = past.screen()
    screen.feed(b"\x1b[?1049l")
    assert screen.text()[0] == "behind the full-screen program"
    assert past.modes().private == {1000}
    source.write(b"\x1b[?1049l" + b"plain line\r\n" * 20000)
    assert source.replay.pinned == b""


def test_a_pin_is_bounded(source: Source) -> None:
    source.write(b"x" * 300_000 + b"\x1b[?1049h" + b"y" * 300_000)
    assert 0 < len(source.replay.pinned) <= PIN_MAX


def test_sizes_are_followed(source: Source) -> None:
    source.write(b"\x1b[10;1Hbottom of ten")
    source.replay.resized(20, 60)
    source.write(b"\x1b[20;1Hbottom of twenty")
    screen = source.past().screen()
    assert screen.size == (20, 60)
    assert screen.text()[19] == "bottom of twenty"


def test_history_is_drawn_above_the_screen(source: Source) -> None:
    source.write(b"".join(b"line %d\r\n" % i for i in range(100)))
    outer = Screen(10, 40)
    outer.feed(b"my own shell\r\n$ ")
    outer.feed(source.past().drawing(10, 40))
    lines = [line for line in [*outer.history(), *outer.text()] if line]
    assert lines == ["my own shell", "$", *(f"line {i}" for i in range(100))]
