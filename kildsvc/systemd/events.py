"""The user's service manager, listened to. The only importer of dbus-next; fixed calls, no introspection.

The connection is the private one that systemctl uses: systemd sends every signal to it, and no message bus is needed,
so none can be missing or restarted under us.
"""

import asyncio
import time
from types import TracebackType
from typing import Any

from dbus_next import MessageType
from dbus_next.aio import MessageBus
from dbus_next.errors import AuthError

from kildsvc import paths
from kildsvc.errors import NoManager
from kildsvc.systemd.properties import unit_path

_SESSIONS = unit_path("kild-")
# A manager that is being executed anew is back within this; after it we say that there is none.
CONNECT_SEC = 5.0
# Between two attempts to reach one that is away: there is no event for a socket that comes to life.
RETRY_SEC = 0.1


class _Direct(MessageBus):  # type: ignore[misc]
    """Peer to peer: dbus-next would say Hello, to which only a message bus has an answer.

    Nothing is ever sent. There is no need to subscribe: systemd tells every direct connection everything, from before
    it has authenticated it on. And a call that reaches systemd together with the last line of the authentication is
    not answered before the next one (252).
    """

    async def _auth_readline(self) -> str:
        """As dbus-next does it, but for the end: 0.2.3 reads it for ever, without letting anybody else run."""
        line = b""
        while not line.endswith(b"\r\n"):
            data = await self._loop.sock_recv(self._sock, 1)
            if not data:
                raise EOFError  # a manager that ends just now
            line += data
        return line[:-2].decode()

    async def connect(self) -> "_Direct":
        await self._authenticate()
        self._loop.add_reader(self._fd, self._message_reader)
        # Its end is no news to complain of when nobody waits for it any more.
        self._disconnect_future.add_done_callback(lambda future: future.cancelled() or future.exception())
        return self

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        self._stream.close()
        self._sock.close()


class Listener:
    """Tells that something about a unit may have changed; what, is to be asked. Use as async context manager.

    After every connection all units may have changed: what was said meanwhile is not known. That is also why a unit
    that is "removed" while the manager reloads means nothing here: nobody draws conclusions from a signal.
    """

    def __init__(self) -> None:
        self._watched: dict[str, list[asyncio.Event]] = {}
        self._any: list[asyncio.Event] = []
        self._task: asyncio.Task[None] | None = None

    def watch(self, unit: str) -> asyncio.Event:
        """Set whenever the unit may have changed, and now; the watcher clears it before it asks."""
        event = asyncio.Event()
        event.set()
        self._watched.setdefault(unit_path(unit), []).append(event)
        return event

    def watch_sessions(self) -> asyncio.Event:
        """The same for all units of sessions at once."""
        event = asyncio.Event()
        event.set()
        self._any.append(event)
        return event

    async def __aenter__(self) -> "Listener":
        self._bus = await self._connect(time.monotonic() + CONNECT_SEC)
        self._task = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._task
        self._task.cancel()
        await asyncio.wait([self._task])
        self._bus.close()

    async def _serve(self) -> None:
        while True:
            try:
                await self._bus.wait_for_disconnect()
            except (OSError, EOFError):
                pass  # the manager is executed anew, or has ended
            self._bus.close()
            self._bus = await self._connect(None)

    async def _connect(self, deadline: float | None) -> _Direct:
        """Until it is done; raises NoManager after the deadline."""
        while True:
            try:
                bus = _Direct(f"unix:path={paths.user_runtime_dir()}/systemd/private")
                try:
                    await bus.connect()
                except BaseException:
                    bus.close()
                    raise
                bus.add_message_handler(self._on_message)
            except (OSError, EOFError, AuthError, NoManager) as error:
                if deadline and time.monotonic() > deadline:
                    raise NoManager("cannot reach the systemd user manager", "systemctl --user status") from error
                await asyncio.sleep(RETRY_SEC)
                continue
            for events in (*self._watched.values(), self._any):
                _set(events)
            return bus

    def _on_message(self, message: Any) -> None:
        if message.message_type != MessageType.SIGNAL:
            return
        if message.member in ("PropertiesChanged", "UnitNew", "UnitRemoved"):
            path = message.path if message.member == "PropertiesChanged" else message.body[1]
            _set(self._watched.get(path, []))
            if path.startswith(_SESSIONS):
                _set(self._any)


def _set(events: list[asyncio.Event]) -> None:
    for event in events:
        event.set()
