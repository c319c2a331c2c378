"""A program's connection to a session's terminal: its past first, then frames as they come."""

import select
import time
from collections import deque

from kildsvc import answers, paths
from kildsvc.attach import Connection, Disconnected
from kildsvc.errors import KildError, NotRunning
from kildsvc.restore import Past
from kildsvc.shim import wire

ANSWER_SEC = 10.0


class Link:
    def __init__(self, name: str, mode: int) -> None:
        self._name = name
        self._frames: deque[tuple[int, bytes]] = deque()
        deadline = time.monotonic() + ANSWER_SEC
        while True:
            try:
                self._connection = Connection(paths.socket_path(name), mode, (0, 0))
            except Disconnected as error:
                raise KildError(f"cannot reach the terminal of '{name}': its socket is gone") from error
            try:
                self.past = self._receive_past(deadline)
                return
            except Disconnected:
                # The shim was killed. systemd holds its socket: we wait in the queue for the next one.
                self._connection.close()
                self._frames.clear()

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def next(self, deadline: float) -> tuple[int, bytes] | None:
        """The next frame; None when none comes in time. Raises Disconnected."""
        while not self._frames:
            if not select.select([self._connection], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            self._frames.extend(self._connection.receive())
        return self._frames.popleft()

    def type(self, data: bytes) -> None:
        """Returns when the shim has taken all of it. Raises NotRunning when the agent ended before."""
        # Together: an agent that ends of what is typed must not end before the shim has answered.
        self._connection.type(data, wire.frame(wire.PING))
        kept: list[tuple[int, bytes]] = []
        while frame := self.next(time.monotonic() + ANSWER_SEC):
            if frame[0] == wire.PONG:
                self._frames.extendleft(reversed(kept))
                return
            if frame[0] == wire.EXIT:
                raise NotRunning(f"session '{self._name}' ended meanwhile")
            kept.append(frame)
        raise KildError(f"the agent in '{self._name}' does not take its input")

    def _receive_past(self, deadline: float) -> Past:
        past: Past | None = None
        while frame := self.next(deadline):
            kind, payload = frame
            if kind == wire.ERROR:
                raise answers.refusal(payload)
            if kind in (wire.WELCOME, wire.RESYNC):
                past = Past(answers.read(payload, "offset", "end"))
            elif kind == wire.PINNED and past:
                past.pinned(payload)
            elif kind == wire.SNAPSHOT and past:
                past.add(payload)
            if past and past.complete:
                return past
        raise KildError(f"session '{self._name}' does not answer")
