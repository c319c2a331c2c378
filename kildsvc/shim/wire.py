"""The attach socket's protocol, whole.

A frame is kind (u8), length (u32, little endian), payload. The client speaks first, with HELLO.
Unknown kinds are ignored; a version we do not know is refused with ERROR.
"""

import struct

VERSION = 1

HEAD = struct.Struct("<BI")
# HELLO: version, mode, rows, columns (0 × 0: no terminal), and for a client that comes back: the offset it has
# reached, followed by the run it was in. Output of that run goes on there.
HELLO_BODY = struct.Struct("<HBHHQ")
# RESIZE: rows, columns.
SIZE_BODY = struct.Struct("<HH")

# Client to shim.
HELLO, INPUT, RESIZE = 1, 2, 3
PING = 4  # answered with PONG when all before it has been taken
# Shim to client.
# JSON: run, pid, rows, cols, silent_sec since the last output; and of the output that follows: offset, end of the
# SNAPSHOT, modes, sizes.
WELCOME = 16
OUTPUT = 17  # bytes of the terminal, as they come
SNAPSHOT = 18  # bytes of the terminal from before the attach
RESYNC = 19  # JSON like WELCOME: the client was too slow, what follows starts anew
EXIT = 20  # JSON: code, signal, stopped; the last frame
ERROR = 21  # JSON: code, message; the last frame
PINNED = 22  # bytes of the primary screen from before the SNAPSHOT, which begins on the alternate screen
PONG = 23  # empty

# Modes of a client.
INTERACTIVE, READ_ONLY, CONTROL, SENDER = 0, 1, 2, 3  # CONTROL gets no output; SENDER types and has no terminal

# The most a shim accepts in one frame, and the most it sends.
CLIENT_MAX = 64 * 1024
SHIM_MAX = 64 * 1024


class Broken(Exception):
    """The stream does not follow the protocol; nothing after this point can be trusted."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(kind, len(payload)) + payload


class Decoder:
    """Bytes in, frames out. Never holds more than one unfinished frame of the allowed length."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._data = bytearray()

    def feed(self, data: bytes | memoryview) -> list[tuple[int, bytes]]:
        self._data += data
        frames = []
        at = 0
        while len(self._data) - at >= HEAD.size:
            kind, length = HEAD.unpack_from(self._data, at)
            if length > self._longest:
                raise Broken(f"frame of {length} bytes")
            if len(self._data) - at < HEAD.size + length:
                break
            at += HEAD.size
            frames.append((kind, bytes(self._data[at : at + length])))
            at += length
        del self._data[:at]
        return frames
