"""The client half: the user's terminal on one side, the shim's socket on the other."""

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kildsvc import answers, terminal
from kildsvc.chord import Chord
from kildsvc.restore import Past
from kildsvc.shim import wire
from kildsvc.shim.modes import Modes


class Disconnected(Exception):
    """The shim is gone without a farewell."""


@dataclass(frozen=True)
class Outcome:
    """How an attachment ended: with the agent's own end, by a signal to the client, or else by the detach keys."""

    exit: dict[str, Any] | None = None
    signal: int | None = None  # sent to the client


class Connection:
    """A socket to one shim, past HELLO."""

    def __init__(self, path: Path, mode: int, size: tuple[int, int], run: str = "", offset: int = 0) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # By descriptor: a sandboxed session may have put a link there, to another session's socket.
            path_fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self.sock.connect(f"/proc/self/fd/{path_fd}")
            finally:
                os.close(path_fd)
        except OSError as error:
            self.sock.close()
            raise Disconnected from error
        hello = wire.HELLO_BODY.pack(wire.VERSION, mode, *size, offset) + run.encode()
        try:
            self.sock.sendall(wire.frame(wire.HELLO, hello))
        except BrokenPipeError:
            pass  # refused already: the reason is there to be read
        self._decoder = wire.Decoder(1 << 24)
        self._buffer = memoryview(bytearray(1 << 18))  # one for all: so large a one is mapped anew each time

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def send(self, frames: bytes) -> None:
        try:
            self.sock.sendall(frames)
        except OSError as error:
            raise Disconnected from error

    def type(self, data: bytes, then: bytes = b"") -> None:
        """Input, and a frame that the shim reads with the last of it."""
        pieces = [data[at : at + wire.CLIENT_MAX] for at in range(0, len(data), wire.CLIENT_MAX)]
        self.send(b"".join(wire.frame(wire.INPUT, piece) for piece in pieces) + then)

    def receive(self) -> list[tuple[int, bytes]]:
        try:
            count = self.sock.recv_into(self._buffer)
        except OSError as error:
            raise Disconnected from error
        if not count:
            raise Disconnected
        try:
            return self._decoder.feed(self._buffer[:count])
        except wire.Broken as error:
            raise answers.foreign() from error


class Attachment:
    def __init__(
        self, path: Path, read_only: bool, chord: Chord, banner: str, in_fd: int = 0, out_fd: int = 1
    ) -> None:
        self._path = path
        self._banner = banner  # told once keys are ours: before, the terminal would eat some of them
        self._mode = wire.READ_ONLY if read_only else wire.INTERACTIVE
        self._chord = chord
        self._in_fd, self._out_fd = in_fd, out_fd
        self._run, self._offset = "", 0  # how far we have got, for a shim that was restarted
        self._past: Past | None = None  # while it arrives
        self._modes = Modes()
        self._reading = True

    def run(self, still_alive: Callable[[], bool]) -> Outcome:
        """Until detached or the agent's end. Goes on with a restarted shim while still_alive() says so; raises
        Disconnected when it does not."""
        while (outcome := self._attach(still_alive)).signal == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)
            self._run = ""  # resumed: everything is drawn anew
        return outcome

    def _attach(self, still_alive: Callable[[], bool]) -> Outcome:
        with ExitStack() as stack:
            wanted = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTSTP)
            self._signal_fd = stack.enter_context(terminal.signals_as_bytes(*wanted))
            connection = self._connect()
            stack.callback(lambda: connection.close())
            stack.enter_context(terminal.given_back(self._out_fd, lambda: self._modes.resetting()))
            stack.enter_context(terminal.raw(self._in_fd))
            if os.isatty(self._out_fd):
                # The screen is the agent's: what we have to say goes up into the scrollback, and into the title.
                self._write(f"{self._banner}\r\n\x1b]2;{self._banner}\x07".encode())
            while True:
                try:
                    return self._serve(connection)
                except Disconnected:
                    connection.close()
                    if not still_alive():
                        raise
                    # systemd holds the listening socket meanwhile: this waits in its queue for the new shim.
                    connection = self._connect()

    def _connect(self) -> Connection:
        return Connection(self._path, self._mode, terminal.size(self._out_fd), self._run, self._offset)

    def _serve(self, connection: Connection) -> Outcome:
        poll = select.poll()
        poll.register(connection, select.POLLIN)
        poll.register(self._signal_fd, select.POLLIN)
        if self._reading:
            poll.register(self._in_fd, select.POLLIN)
        while True:
            patience_sec = self._chord.patience_sec
            ready = poll.poll(None if patience_sec is None else patience_sec * 1000)
            if not ready:
                connection.type(self._chord.release())
            for fd, _ in ready:
                if fd == connection.fileno():
                    outcome = self._on_shim_readable(connection)
                elif fd == self._in_fd:
                    outcome = self._on_keys(connection, poll)
                else:
                    outcome = self._on_signal(connection)
                if outcome:
                    return outcome

    def _on_shim_readable(self, connection: Connection) -> Outcome | None:
        for kind, payload in connection.receive():
            if kind == wire.OUTPUT:
                self._write(payload)
                self._modes.feed(payload)
                self._offset += len(payload)
            elif kind in (wire.WELCOME, wire.RESYNC):
                self._begin(answers.read(payload, "offset", "end"))
            elif kind == wire.PINNED and self._past:
                self._past.pinned(payload)
            elif kind == wire.SNAPSHOT:
                self._on_snapshot(payload)
            elif kind == wire.EXIT:
                return Outcome(exit=answers.read(payload, *answers.EXIT))
            elif kind == wire.ERROR:
                raise answers.refusal(payload)
        return None

    def _begin(self, about: dict[str, Any]) -> None:
        self._run = about.get("run", self._run)
        self._offset = about["offset"]
        # Without modes: we come back, and output goes on where we were.
        self._past = Past(about) if "modes" in about else None
        self._draw_past()

    def _on_snapshot(self, data: bytes) -> None:
        self._offset += len(data)
        if not os.isatty(self._out_fd):
            self._write(data)
        elif self._past:
            self._past.add(data)
            self._draw_past()

    def _draw_past(self) -> None:
        if not self._past or not self._past.complete:
            return
        if os.isatty(self._out_fd):
            undo, self._modes = self._modes.resetting(), self._past.modes()
            self._write(undo + self._past.drawing(*terminal.size_or_usual(self._out_fd)))
        self._past = None

    def _on_keys(self, connection: Connection, poll: select.poll) -> Outcome | None:
        data = os.read(self._in_fd, 1 << 16)
        if not data:
            poll.unregister(self._in_fd)
            self._reading = False  # the end of a pipe: go on showing
            return None
        passed, complete = self._chord.feed(data)
        if passed and self._mode == wire.INTERACTIVE:
            connection.type(passed)
        return Outcome() if complete else None

    def _on_signal(self, connection: Connection) -> Outcome | None:
        for number in os.read(self._signal_fd, 64):
            if number != signal.SIGWINCH:
                return Outcome(signal=number)
        rows, cols = terminal.size(self._out_fd)
        if rows and self._mode == wire.INTERACTIVE:
            connection.send(wire.frame(wire.RESIZE, wire.SIZE_BODY.pack(rows, cols)))
        return None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out_fd, view) :]
