"""The native journal protocol, byte-exact and never blocking.

journald may be slow, restarted or absent: what it cannot take waits here, one batch at most beside the events.
"""

from __future__ import annotations

import errno
import select
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SOCKET = "/run/systemd/journal/socket"
# A datagram must fit the default send buffer (208 KiB), head included.
DATAGRAM_MAX = 190 * 1000
# So many events wait for a journald that is away; then the oldest go.
WAITING_MAX = 256

# `journalctl MESSAGE_ID=…` finds one kind of event in all sessions.
EVENTS = {
    "opened": "fa73d405284f4955b64447e028a1aa2d",
    "ready": "0667826faaae40a5ab5034a6da28ff9f",
    "attached": "a1d26a50ef3c4e348007cbb8d6bf07f7",
    "detached": "774707c74a89481aa40d3ac8914468e3",
    "resized": "a42d05a57b2f473aa5b719adb5731087",
    "recovered": "2e33eba8e8a34f779b63806b5a707530",
    "ended": "960650a7ca5f4775a272dd0ab553ee27",
    "idle": "5969f0e86a8b88009f7e3eb8d2ba03aa",
    "bell": "22899009e53477d13699f9450de8d378",
    "oom": "ddb9fb3fa71a48589a6acac3351a734c",
    # Of the command line, not of the shim:
    "paused": "3e38b1bf98dd44cb8c721be3e773f325",
    "resumed": "f1e45425e8374891bbb6dd1eb258becb",
    "mark": "661b0d2757e6345a8d1d89765241e23a",
    "removed": "dcf1a6797b2b12f23e7868934690dc86",
}


def pack(fields: dict[str, bytes]) -> bytes:
    """Always the binary form, which can hold any byte."""
    return b"".join(
        b"%s\n%s%s\n" % (key.encode(), len(value).to_bytes(8, "little"), value) for key, value in fields.items()
    )


def _bounded(message: bytes) -> bytes:
    """A few escapes may stand for megabytes of blanks."""
    if len(message) <= DATAGRAM_MAX:
        return message
    kept = message[: DATAGRAM_MAX - 100].decode(errors="ignore").encode()
    return kept + b"\n[\xe2\x80\xa6 %d bytes of text not shown]" % (len(message) - len(kept))


class Journal:
    def __init__(self, common: dict[str, str]) -> None:
        self._agent = common["KILD_AGENT"].encode()
        self._common = {key: value.encode() for key, value in common.items()}
        self._socket: socket.socket | None = None
        self._waiting: list[bytes] = []

    @classmethod
    def of(cls, launch: dict[str, Any], run: str) -> Journal:
        fields = {"USER_UNIT": launch["unit"], "KILD_SESSION": launch["name"], "KILD_RUN": run}
        return cls({**fields, "KILD_AGENT": launch["agent"]})

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket else -1

    def close(self) -> None:
        if self._socket:
            self._socket.close()

    def event(self, name: str, message: str, priority: int = 6, **fields: str) -> None:
        extra = {"MESSAGE": message, "MESSAGE_ID": EVENTS[name], "KILD_EVENT": name, **fields}
        del self._waiting[:-WAITING_MAX]
        self._add(priority, {key: value.encode(errors="replace") for key, value in extra.items()})
        self.settle()

    def output(self, text: str, data: bytes, offset: int) -> None:
        """A batch of terminal output; the caller has seen settle() return True."""
        fields = {"KILD_DATA": data, "KILD_OFFSET": str(offset).encode()}
        # 7 is a rate-limit pool of its own in journald: a flood of output cannot push out an exit record.
        if text:  # the entry's end stands for the last newline; a batch that completes no line has no MESSAGE
            message = _bounded(text.removesuffix("\n").encode(errors="replace"))
            if len(message) + len(data) > DATAGRAM_MAX:
                self._add(7, {"MESSAGE": message}, self._agent)
            else:
                fields["MESSAGE"] = message
        self._add(7, fields, self._agent)

    def trouble(self, message: str) -> None:
        self._add(4, {"MESSAGE": message.encode()})
        self.settle()

    def settle(self) -> bool:
        """Sends what waits. False: some of it still does; fileno() becomes writable, or is -1 without a journald."""
        while self._waiting:
            if not self._send(self._waiting[0]):
                return False
            del self._waiting[0]
        return True

    def settle_until(self, deadline: float) -> bool:
        while not self.settle():
            if self._socket is None:
                return False
            poll = select.poll()
            poll.register(self._socket, select.POLLOUT)
            if not poll.poll(max(0, (deadline - time.monotonic()) * 1000)):
                return False
        return True

    def _add(self, priority: int, fields: dict[str, bytes], speaker: bytes = b"kildsvc") -> None:
        head = {**self._common, "SYSLOG_IDENTIFIER": speaker, "PRIORITY": b"%d" % priority}
        self._waiting.append(pack({**head, **fields}))

    def _send(self, entry: bytes) -> bool:
        try:
            if self._socket is None:
                self._socket = self._connect()
            self._socket.send(entry)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                return True  # it never will be taken, and must not be in the way of all that follows
            # Not there (ENOENT, ECONNREFUSED): the next entry tries a new connection.
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            return False
        return True

    @staticmethod
    def _connect() -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.connect(SOCKET)
        except OSError:
            sock.close()
            raise
        return sock
