"""What the fuzz tests share: how hard to try, and streams that look like a terminal's worst day.

KILDSVC_FUZZ=20 tries twenty times as hard, each time with other examples; how to repeat a failure is printed.
"""

import itertools
import os

from hypothesis import settings
from hypothesis import strategies as st

EFFORT = int(os.environ.get("KILDSVC_FUZZ", "1"))
# Of all tests with examples, which are the same ones each time: a run says something of the change, not of its luck.
settings.register_profile("kildsvc", deadline=None, database=None, derandomize=EFFORT == 1, print_blob=True)


def effort(examples: int) -> settings:
    return settings(max_examples=examples * EFFORT)


# Longer than Python turns into an int by default (4300 digits).
_numbers = st.sampled_from(["", "0", "1", "2", "5", "24", "80", "500", "65536", "9" * 20, "9" * 4400]) | st.integers(
    0, 3000
).map(str)
_finals = st.integers(0x40, 0x7E).map(chr) | st.sampled_from("ABCDGHJKLMPSTXcdfhlmnqrtu@")
_csi = st.builds(
    lambda prefix, numbers, between, final: f"\x1b[{prefix}{';'.join(numbers)}{between}{final}".encode(),
    st.sampled_from(["", "", "", "?", ">", "<", "="]),
    st.lists(_numbers, max_size=4),
    st.sampled_from(["", "", "", " ", "$", "!"]),
    _finals,
)
_modes = st.builds(
    lambda mode, switch: f"\x1b[?{mode}{switch}".encode(),
    st.sampled_from([1, 7, 25, 47, 1000, 1006, 1047, 1049, 2004, 2026]),
    st.sampled_from("hl"),
)
_strings = st.builds(
    lambda kind, text, end: b"\x1b" + kind + text + end,
    st.sampled_from([b"]", b"P", b"X", b"^", b"_"]),
    st.sampled_from([b"", b"0;title", b"2;t", b"11;?", b"4;1;?", b"+q544e", b"$qm", b"0;" + b"x" * 400])
    | st.binary(max_size=20),
    st.sampled_from([b"\x07", b"\x1b\\", b"", b"\x1b"]),
)
_short = st.integers(0x20, 0x7E).map(lambda code: b"\x1b" + bytes([code]))
_text = (
    st.sampled_from([b"text", b"\r\n", b"\n", b"\r", b"\t", b"\x08", b"\x07", b"x" * 100, b"\n" * 60])
    | st.sampled_from(["日本", "🙂", "e\u0301\u0302", "\u200b", "ä"]).map(str.encode)
    | st.binary(max_size=5)
)
streams = st.lists(_csi | _modes | _strings | _short | _text, max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 1 << 20), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]
