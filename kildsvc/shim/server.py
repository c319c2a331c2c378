"""Attached clients: each has a place in the ring of output, and nobody waits for anybody."""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import struct
import time

from kildsvc.shim import wire
from kildsvc.shim.record import Record
from kildsvc.shim.replay import Replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# More clients than this are refused: each costs a descriptor of the shim's.
CLIENTS_MAX = 512
# A client that was waited for in vain is not waited for again before this: it may slow the agent by a twentieth.
IN_VAIN_SEC = 20.0


class Client:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.decoder = wire.Decoder(wire.CLIENT_MAX)
        self.mode = wire.CONTROL
        self.size = (0, 0)
        self.welcomed = False
        self.offset = 0  # in the output of this run
        self.snapshot_end = 0
        self.unsent = b""  # the rest of a frame that the socket took in part
        self.farewell = b""  # the last frame, after all output
        self.closing = False  # close when everything is sent
        self.watched = select.EPOLLIN
        self.waited_in_vain = -60.0  # monotonic

    @property
    def interactive(self) -> bool:
        return self.welcomed and self.mode == wire.INTERACTIVE

    def begin_at(self, replay: Replay, record: Record, about: dict[str, Any] | None = None) -> bytes:
        """Starts over where output can be replayed from; returns the frames that say so."""
        self.offset, self.snapshot_end = replay.offset, record.end
        note = {**(about or {}), **replay.about(), "end": record.end}
        frames = wire.frame(wire.WELCOME if about else wire.RESYNC, json.dumps(note).encode())
        pinned = replay.pinned
        for at in range(0, len(pinned), wire.SHIM_MAX):
            frames += wire.frame(wire.PINNED, pinned[at : at + wire.SHIM_MAX])
        return frames

    def pump(self, record: Record, replay: Replay) -> bool:
        """Sends what there is. False: the socket is full. Raises OSError when the client is gone."""
        try:
            while True:
                if self.unsent:
                    self.unsent = self.unsent[self.sock.send(self.unsent) :]
                    if self.unsent:
                        return False
                if not self.welcomed or self.mode == wire.CONTROL or self.offset >= record.end:
                    if not self.farewell:
                        return True
                    self.unsent, self.farewell, self.closing = self.farewell, b"", True
                    continue
                if self.offset < record.start:
                    self.unsent = self.begin_at(replay, record)
                    continue
                self._send_piece(record)
        except BlockingIOError:
            return False

    def _send_piece(self, record: Record) -> None:
        old = self.offset < self.snapshot_end
        most = min(wire.SHIM_MAX, self.snapshot_end - self.offset) if old else wire.SHIM_MAX
        piece = record.piece(self.offset, most)
        head = wire.HEAD.pack(wire.SNAPSHOT if old else wire.OUTPUT, len(piece))
        sent = self.sock.sendmsg([head, piece])
        self.offset += len(piece)
        if sent < len(head) + len(piece):
            # Copied: the ring may move on before the socket has room.
            self.unsent = (head + bytes(piece))[sent:]


class Server:
    def __init__(
        self,
        listener: socket.socket,
        record: Record,
        replay: Replay,
        epoll: select.epoll,
        about: Callable[[], dict[str, Any]],
        on_input: Callable[[bytes], None],
        on_size: Callable[[int, int], None],
        on_change: Callable[[str, Client], None],
    ) -> None:
        self.listener = listener
        self.clients: dict[int, Client] = {}
        self.reading = True  # off while the agent does not take what was typed
        self._record = record
        self._replay = replay
        self._epoll = epoll
        self._about = about
        self._on_input = on_input
        self._on_size = on_size
        self._on_change = on_change

    def on_listener_readable(self) -> bool:
        """False: there is no descriptor for another client now."""
        try:
            sock, _ = self.listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return True
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            return False
        sock.setblocking(False)
        client = Client(sock)
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.clients[client.fd] = client
        self._epoll.register(client.fd, select.EPOLLIN)
        if uid != os.getuid():
            self._refuse(client, "PERMISSION", "this session belongs to another user")
        elif len(self.clients) > CLIENTS_MAX:
            self._refuse(client, "TOO_MANY_CLIENTS", f"{CLIENTS_MAX} clients are attached already")
        return True

    def on_client_ready(self, client: Client, events: int) -> None:
        try:
            if events & select.EPOLLIN:
                self._on_readable(client)
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                raise ConnectionResetError
            if client.fd in self.clients:
                self.pump(client)
        except (OSError, wire.Broken):
            self.drop(client)

    def pump(self, client: Client) -> None:
        done = client.pump(self._record, self._replay)
        if done and client.closing:
            self.drop(client)
        else:
            self._watch(client, writing=not done)

    def pump_all(self) -> None:
        """New output, for every client that is not waiting for its socket."""
        for client in list(self.clients.values()):
            if client.watched & select.EPOLLOUT:
                continue
            try:
                self.pump(client)
            except OSError:
                self.drop(client)

    def behind(self, distance: int) -> bool:
        """Whether a client has more than that to take yet, and is worth waiting for."""
        return any(self._late(distance))

    def wait_no_more(self, distance: int) -> None:
        for client in self._late(distance):
            client.waited_in_vain = time.monotonic()

    def _late(self, distance: int) -> Iterator[Client]:
        for client in self.clients.values():
            if client.watched & select.EPOLLOUT and client.mode != wire.CONTROL:
                late = self._record.end - client.offset > distance
                if late and time.monotonic() - client.waited_in_vain > IN_VAIN_SEC:
                    yield client

    def set_reading(self, reading: bool) -> None:
        if reading != self.reading:
            self.reading = reading
            for client in self.clients.values():
                self._watch(client, writing=bool(client.watched & select.EPOLLOUT))

    def _watch(self, client: Client, writing: bool) -> None:
        reading = self.reading and not client.closing
        events = (select.EPOLLIN if reading else 0) | (select.EPOLLOUT if writing else 0)
        if events != client.watched:
            self._epoll.modify(client.fd, events)
            client.watched = events

    def _on_readable(self, client: Client) -> None:
        data = client.sock.recv(wire.CLIENT_MAX)
        if not data:
            raise ConnectionResetError
        for kind, payload in client.decoder.feed(data):
            if client.closing:
                return
            if not client.welcomed:
                self._on_hello(client, kind, payload)
            elif kind == wire.INPUT and client.mode != wire.READ_ONLY:
                self._lead(client)
                self._on_input(payload)
            elif kind == wire.PING:
                client.unsent += wire.frame(wire.PONG)
            elif kind == wire.RESIZE and client.interactive and len(payload) == wire.SIZE_BODY.size:
                client.size = wire.SIZE_BODY.unpack(payload)
                self._lead(client)

    def _on_hello(self, client: Client, kind: int, payload: bytes) -> None:
        if kind != wire.HELLO or len(payload) < wire.HELLO_BODY.size:
            raise wire.Broken("no HELLO")
        version, client.mode, rows, cols, seen = wire.HELLO_BODY.unpack_from(payload)
        if version != wire.VERSION:
            self._refuse(client, "VERSION", f"this session speaks protocol {wire.VERSION}, not {version}")
            return
        client.size = rows, cols
        client.welcomed = True
        about = self._about()
        if (
            payload[wire.HELLO_BODY.size :] == self._record.run.encode()
            and self._record.start <= seen <= self._record.end
        ):
            client.offset = client.snapshot_end = seen
            client.unsent += wire.frame(wire.WELCOME, json.dumps({**about, "offset": seen, "end": seen}).encode())
        else:
            client.unsent += client.begin_at(self._replay, self._record, about)
        self._lead(client)
        self._on_change("attached", client)

    def _refuse(self, client: Client, code: str, message: str) -> None:
        client.unsent += wire.frame(wire.ERROR, json.dumps({"code": code, "message": message}).encode())
        client.closing = True
        try:
            self.pump(client)
        except OSError:  # it is gone already
            self.drop(client)

    def _lead(self, client: Client) -> None:
        """The size follows the client that typed, resized or attached last."""
        rows, cols = client.size
        if client.interactive and rows and cols:
            self._on_size(rows, cols)

    def drop(self, client: Client) -> None:
        if self.clients.pop(client.fd, None) is None:
            return
        self._epoll.unregister(client.fd)
        client.sock.close()
        if client.welcomed:
            self._on_change("detached", client)

    def say_exit(self, result: dict[str, Any]) -> None:
        """Every client gets the rest of the output, then this, and is closed when it has taken both."""
        farewell = wire.frame(wire.EXIT, json.dumps(result).encode())
        for client in self.clients.values():
            client.farewell = farewell
        self.pump_all()
