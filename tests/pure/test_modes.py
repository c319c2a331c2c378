"""The terminal's state beside its cells: found in any stream, restored, and undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.shim.modes import Modes

SET = {
    "mouse": (b"\x1b[?1000h\x1b[?1006h", b"\x1b[?1000h\x1b[?1006h"),
    "any-motion mouse wins over clicks": (b"\x1b[?1000h\x1b[?1003h", b"\x1b[?1003h"),
    "several in one": (b"\x1b[?1002;1006;2004h", b"\x1b[?1002h\x1b[?1006h\x1b[?2004h"),
    "focus": (b"\x1b[?1004h", b"\x1b[?1004h"),
    "hidden cursor": (b"\x1b[?25l", b"\x1b[?25l"),
    "no autowrap": (b"\x1b[?7l", b"\x1b[?7l"),
    "application keys": (b"\x1b[?1h\x1b=", b"\x1b[?1h\x1b="),
    "kitty keyboard": (b"\x1b[>1u\x1b[>5u", b"\x1b[>1u\x1b[>5u"),
    "kitty popped": (b"\x1b[>1u\x1b[>5u\x1b[<u", b"\x1b[>1u"),
    "kitty set in place": (b"\x1b[>1u\x1b[=4;2u", b"\x1b[>5u"),
    "modifyOtherKeys": (b"\x1b[>4;2m", b"\x1b[>4;2m"),
    "cursor style": (b"\x1b[5 q", b"\x1b[5 q"),
    "title": (b"\x1b]0;a title\x07", b"\x1b]2;a title\x07"),
    "title by ST": (b"\x1b]2;a title\x1b\\", b"\x1b]2;a title\x07"),
    "switched off again": (b"\x1b[?1000h\x1b[?2004h\x1b[?1000l\x1b[?2004l", b""),
    "full reset": (b"\x1b[?1000h\x1b[>1u\x1b=\x1bc", b""),
    "synchronized output is not restored": (b"\x1b[?2026h", b""),
}


@pytest.mark.parametrize(("data", "setting"), SET.values(), ids=SET.keys())
def test_setting_wherever_the_stream_is_cut(data: bytes, setting: bytes) -> None:
    for cut in range(len(data) + 1):
        modes = Modes()
        modes.feed(b"text\x1b[31m" + data[:cut])
        modes.feed(data[cut:] + b"\x1b[0mmore text")
        assert modes.setting() == setting, cut
    assert Modes(modes.state()).setting() == setting


def test_resetting_undoes_all_of_it() -> None:
    modes = Modes()
    modes.feed(
        b"\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>7u\x1b[?1000;1006;2004;1004h\x1b[?25l\x1b=\x1b[>4;1m\x1b[3 q\x1b[5;9r"
    )
    reset = modes.resetting()
    assert reset.index(b"\x1b[<2u") < reset.index(b"\x1b[?1049l") < reset.index(b"\x1b[<1u")
    after = modes.copy()
    after.feed(reset)
    assert after.setting() == b""
    assert (after.alternate, after.kitty) == (0, [[], []])


def test_nothing_set_nothing_undone() -> None:
    modes = Modes()
    modes.feed(b"plain \x1b[1mbold\x1b[0m text")
    assert (modes.setting(), modes.resetting(), modes.state()) == (b"", b"\x1b[m", {})


@given(st.lists(st.binary(max_size=40) | st.sampled_from([data for data, _ in SET.values()])), st.data())
def test_any_stream_cut_anywhere(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    whole = Modes()
    whole.feed(stream)
    pieces = Modes()
    at = 0
    while at < len(stream):
        step = data.draw(st.integers(1, 50))
        pieces.feed(stream[at : at + step])
        at += step
    assert pieces.state() == whole.state()
    undone = whole.copy()
    undone._carry = b""
    undone.feed(whole.resetting())
    assert undone.setting().startswith((b"", b"\x1b]2;"))
    assert undone.alternate == 0
