"""Frames of the attach socket, however the stream cuts them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.shim import wire
from kildsvc.shim.wire import HEAD, Broken, Decoder, frame

LONGEST = 64
frames = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=LONGEST)), max_size=8)


def decode(pieces: list[bytes], longest: int = LONGEST) -> list[tuple[int, bytes]]:
    decoder = Decoder(longest)
    return [found for piece in pieces for found in decoder.feed(piece)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def test_a_frame_is_kind_length_payload() -> None:
    assert frame(2, b"ls\r") == b"\x02\x03\x00\x00\x00ls\r"
    assert frame(20) == b"\x14\x00\x00\x00\x00"


def test_frames_cut_at_every_place_come_out_the_same() -> None:
    sent = [(wire.HELLO, b"\x01" * 15), (wire.INPUT, b""), (wire.RESIZE, b"abcd"), (255, b"unknown kind")]
    stream = b"".join(frame(*one) for one in sent)
    for place in range(len(stream) + 1):
        assert decode(cut(stream, [place])) == sent
    assert decode([bytes([byte]) for byte in stream]) == sent


@given(frames, st.lists(st.integers(0)))
def test_any_frames_cut_anywhere_come_out_the_same(sent: list[tuple[int, bytes]], places: list[int]) -> None:
    assert decode(cut(b"".join(frame(*one) for one in sent), places)) == sent


def test_the_longest_frame_passes_and_one_byte_more_does_not() -> None:
    assert decode([frame(2, bytes(LONGEST))]) == [(2, bytes(LONGEST))]
    with pytest.raises(Broken):
        decode([frame(2, bytes(LONGEST + 1))])


def test_a_length_too_great_is_refused_before_its_payload_comes() -> None:
    with pytest.raises(Broken):
        Decoder(wire.CLIENT_MAX).feed(HEAD.pack(wire.INPUT, wire.CLIENT_MAX + 1))
    with pytest.raises(Broken):
        Decoder(wire.CLIENT_MAX).feed(b"\xff" * HEAD.size)


@given(st.lists(st.binary(max_size=3 * LONGEST), max_size=20))
def test_garbage_is_refused_or_kept_only_up_to_the_limit(pieces: list[bytes]) -> None:
    decoder = Decoder(LONGEST)
    kept = 0
    for piece in pieces:
        try:
            found = decoder.feed(piece)
        except Broken:
            return
        kept += len(piece) - sum(HEAD.size + len(payload) for _, payload in found)
        assert 0 <= kept < HEAD.size + LONGEST
