"""The user's service manager, asked over D-Bus. The only importer of pystemd; fixed calls, no introspection."""

import importlib.machinery
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Self

from kildsvc import paths, progress
from kildsvc.errors import KildError, NoManager
from kildsvc.systemd.properties import Property, unit_path

if "pystemd" not in sys.modules and (_spec := importlib.machinery.PathFinder.find_spec("pystemd")):
    # pystemd's own __init__ imports lxml and more, 30 ms of which nothing is used here.
    _package = types.ModuleType("pystemd")
    _package.__path__ = list(_spec.submodule_search_locations or [])
    sys.modules["pystemd"] = _package

from pystemd.dbusexc import DBusBaseError
from pystemd.dbuslib import DBus, DBusAddress

_SYSTEMD = b"org.freedesktop.systemd1"
_PATH = b"/org/freedesktop/systemd1"
_MANAGER = b"org.freedesktop.systemd1.Manager"
_PROPERTIES = b"org.freedesktop.DBus.Properties"
# Which interface a property of a service unit is on.
_UNIT_PROPERTIES = frozenset(
    [
        "ActiveState",
        "SubState",
        "LoadState",
        "Description",
        "FreezerState",
        "InvocationID",
        "NeedDaemonReload",
        "StateChangeTimestamp",
        "InactiveExitTimestamp",
        "ActiveEnterTimestamp",
        "InactiveEnterTimestamp",
        "Job",
    ]
)
_SIGNATURES = {
    "ActiveState": "s",
    "SubState": "s",
    "LoadState": "s",
    "Description": "s",
    "FreezerState": "s",
    "StatusText": "s",
    "Result": "s",
    "ControlGroup": "s",
    "MainPID": "u",
    "NRestarts": "u",
    "ExecMainCode": "i",
    "ExecMainStatus": "i",
    "ExecMainStartTimestamp": "t",
    "ExecMainExitTimestamp": "t",
    "InactiveEnterTimestamp": "t",
    "InactiveExitTimestamp": "t",
    "ActiveEnterTimestamp": "t",
    "MemoryCurrent": "t",
    "CPUUsageNSec": "t",
    "TasksCurrent": "t",
    "RuntimeMaxUSec": "t",
    "ExecStart": "a(sasbttttuii)",
}
# A manager that is executed anew is back within this; there is no event for a socket that comes to life.
CONNECT_SEC = 5.0
RETRY_SEC = 0.05
# libsystemd waits without giving other threads their turn: as long as this where one draws.
TURN_SEC = 0.05
# Of a job that ended while the manager was executed anew.
LOST = "lost"
# What systemd says for a number it does not have.
UNKNOWN = 2**64 - 1


class Refused(KildError):
    """systemd said no; `kind` is the last part of the D-Bus error's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"systemd refused: {message}")
        self.kind = kind


class _Lost(NoManager):
    """The connection is gone: the manager is executed anew, or has ended."""


class Manager:
    """A connection to the user manager. Use as a context manager."""

    def __init__(self) -> None:
        self._bus = _connect()
        self._listening: list[str] = []
        self._removed: dict[str, str] = {}  # job path → result
        self._changed = False
        self._callbacks: list[Callable[..., None]] = []  # sd-bus holds no reference of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bus.close()

    # -- asking ---------------------------------------------------------------------------------------------

    def units(self, pattern: str) -> Iterator[tuple[str, str, str]]:
        """Loaded units as (name, load state, active state)."""
        rows = self._call_again(_MANAGER, b"ListUnitsByPatterns", ("as", []), ("as", [pattern]))
        for row in rows or []:
            yield row[0].decode(), row[2].decode(), row[3].decode()

    def get(self, unit: str, *names: str) -> dict[str, Any]:
        """Properties of a unit, as they are now. Empty when the unit is not loaded."""
        path = unit_path(unit).encode()
        values = {}
        for name in names:
            interface = _SYSTEMD + (b".Unit" if name in _UNIT_PROPERTIES else b".Service")
            value = self._get(path, interface, name, _SIGNATURES[name])
            values[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return values

    @cached_property
    def control_group(self) -> str:
        """Where the cgroups of all units of this manager are."""
        return str(self._get(_PATH, _MANAGER, "ControlGroup", "s").decode())

    @property
    def version(self) -> str:
        return str(self._get(_PATH, _MANAGER, "Version", "s").decode())

    @property
    def most_files(self) -> int:
        """The hard limit of open files that a unit has when it says nothing of it: more cannot be had."""
        return int(self._get(_PATH, _MANAGER, "DefaultLimitNOFILE", "t"))

    # -- telling --------------------------------------------------------------------------------------------

    def start_transient(self, unit: str, properties: list[Property]) -> str:
        """Queues the start of a new unit; returns its job."""
        told: list[tuple[str, Any]] = [("s", unit), ("s", "fail"), ("a(sv)", properties), ("a(sa(sv))", [])]
        try:
            reply = self._call(_MANAGER, b"StartTransientUnit", *told)
        except _Lost:  # executed anew before it answered, and perhaps before it heard
            self._reconnect()
            if self.get(unit, "LoadState")["LoadState"] == "loaded":
                return ""
            reply = self._call(_MANAGER, b"StartTransientUnit", *told)
        return str(reply.decode())

    def stop(self, unit: str) -> str | None:
        """Queues a stop; None when the unit is not loaded."""
        try:
            reply = self._call_again(_MANAGER, b"StopUnit", ("s", unit), ("s", "replace"))
        except Refused as error:
            if error.kind == "NoSuchUnit":
                return None
            raise
        return str(reply.decode())

    def kill(self, unit: str, signal_number: int) -> None:
        """Signals every process of the unit, also one that has ended."""
        try:
            self._call_again(_MANAGER, b"KillUnit", ("s", unit), ("s", "all"), ("i", signal_number))
        except Refused as error:
            # Nothing left to signal.
            if error.kind not in ("NoSuchUnit", "NoSuchProcess", "ESRCH"):
                raise

    def set_properties(self, unit: str, properties: list[Property]) -> None:
        """Until the next boot."""
        self._call(_MANAGER, b"SetUnitProperties", ("s", unit), ("b", True), ("a(sv)", properties))

    def thaw(self, unit: str) -> None:
        """Undoes what `systemctl freeze` did."""
        self._call(_MANAGER, b"ThawUnit", ("s", unit))

    def reset_failed(self, unit: str) -> None:
        try:
            self._call_again(_MANAGER, b"ResetFailedUnit", ("s", unit))
        except Refused as error:
            if error.kind != "NoSuchUnit":
                raise

    # -- waiting --------------------------------------------------------------------------------------------

    def listen(self, unit: str) -> None:
        """From here on ends of jobs and changes of the unit are noticed. Before the call that causes them."""
        if not self._listening:
            self._match(_PATH, _MANAGER, b"JobRemoved", self._on_job_removed)
            self._call_again(_MANAGER, b"Subscribe")
        self._listening.append(unit)
        self._match(unit_path(unit).encode(), _PROPERTIES, b"PropertiesChanged", self._on_changed)

    def wait_job(self, job: str, timeout_sec: float) -> str | None:
        """The job's result (done, failed, canceled …), LOST where nobody told; None at the time-out."""
        deadline = time.monotonic() + timeout_sec
        while job not in self._removed:
            try:
                self._wait(lambda: job in self._removed, deadline - time.monotonic())
                break
            except _Lost:
                self._reconnect()
                if not self._has_job(job):
                    self._removed.setdefault(job, LOST)
        return self._removed.get(job)

    def _has_job(self, job: str) -> bool:
        try:
            self._get(job.encode(), _SYSTEMD + b".Job", "State", "s")
        except Refused:
            return False
        return True

    def wait_state(self, unit: str, states: tuple[str, ...], timeout_sec: float) -> str:
        """Blocks until ActiveState is one of these, or the time is over; returns what it is."""
        deadline = time.monotonic() + timeout_sec
        while True:
            self._changed = False
            state = str(self.get(unit, "ActiveState")["ActiveState"])
            if state in states or time.monotonic() >= deadline:
                return state
            try:
                self._wait(lambda: self._changed, deadline - time.monotonic())
            except _Lost:
                self._reconnect()

    def _wait(self, done: Callable[[], bool], timeout_sec: float) -> None:
        deadline = time.monotonic() + timeout_sec
        try:
            while not done() and (left := deadline - time.monotonic()) > 0:
                self._bus.process()  # one message
                if not done():
                    left = min(left, TURN_SEC) if progress.shown else left
                    self._bus.wait(int(left * 1e6))  # returns at once when more are queued
        except DBusBaseError as error:
            raise _translate(error) from error

    def _match(self, path: bytes, interface: bytes, member: bytes, callback: Callable[..., None]) -> None:
        def call(msg: Any, error: Any = None, userdata: Any = None) -> None:
            callback(msg)

        self._callbacks.append(call)
        self._bus.match_signal(None, path, interface, member, call)

    def _on_job_removed(self, message: Any) -> None:
        message.process_reply(True)
        _, job, _, result = message.body
        self._removed[job.decode()] = result.decode()

    def _on_changed(self, _: Any) -> None:
        self._changed = True

    def _reconnect(self) -> None:
        """After the manager was executed anew: everything may have changed. Raises NoManager."""
        self._bus.close()
        self._bus = _connect()
        self._callbacks.clear()
        units, self._listening = self._listening, []
        for unit in units:
            self.listen(unit)
        self._changed = True

    def _get(self, path: bytes, interface: bytes, name: str, signature: str) -> Any:
        def ask() -> Any:
            try:
                return self._bus.get_property(_SYSTEMD, path, interface, name.encode(), signature.encode())
            except DBusBaseError as error:
                raise _translate(error) from error

        return self._again(ask)

    def _call_again(self, interface: bytes, method: bytes, *arguments: tuple[str, Any]) -> Any:
        """For what does no harm when it is done twice."""
        return self._again(lambda: self._call(interface, method, *arguments))

    def _again(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except _Lost:
            self._reconnect()
            return ask()

    def _call(self, interface: bytes, method: bytes, *arguments: tuple[str, Any]) -> Any:
        encoded = [item for signature, value in arguments for item in _encode(signature, value)]
        try:
            return self._bus.call_method(_SYSTEMD, _PATH, interface, method, encoded).body
        except DBusBaseError as error:
            raise _translate(error) from error


def _connect() -> Any:
    """Straight to systemd, as systemctl does: works without a session bus. Waits for one that is executed anew."""
    directory = paths.user_runtime_dir()
    os.environ.setdefault("XDG_RUNTIME_DIR", str(directory))
    private = directory / "systemd" / "private"
    deadline = time.monotonic() + CONNECT_SEC
    while True:
        there = private.exists()
        bus = DBusAddress(f"unix:path={private}".encode(), peer_to_peer=True) if there else DBus(user_mode=True)
        try:
            bus.open()
            bus.get_property(_SYSTEMD, _PATH, _MANAGER, b"Version", b"s")
        except DBusBaseError as error:
            if not there and os.environ.get("KILD_SESSION"):
                raise NoManager(
                    "a sandboxed session cannot reach the systemd user manager", "'kildsvc mark' works in here"
                ) from error
            silent = type(_translate(error)) is NoManager  # it is there, and hangs
            if not there or silent or time.monotonic() > deadline:
                raise NoManager(
                    "cannot reach the systemd user manager",
                    f"check 'systemctl --user status'; as root: loginctl enable-linger {os.getuid()}",
                ) from error
            time.sleep(RETRY_SEC)
            continue
        return bus


def _translate(error: Any) -> KildError:
    name, message = (
        x.decode(errors="replace") if isinstance(x, bytes) else str(x) for x in (error.err_name, error.err_message)
    )
    # pystemd turns the errors it knows into classes (DBusNoSuchUnitError) and drops their names.
    kind = name.rpartition(".")[2] or type(error).__name__.removeprefix("DBus").removesuffix("Error")
    silent = kind in ("NoReply", "Timeout", "TimedOut")
    lost = kind in ("Disconnected", "ConnectionRefused", "ENOTCONN", "ECONNRESET", "EPIPE")
    if message and not silent and not lost:
        return Refused(kind, message)
    return (NoManager if silent else _Lost)(
        f"the systemd user manager does not answer: {message or os.strerror(abs(error.errno))}"
    )


def _encode(signature: str, value: Any) -> Iterator[tuple[int, Any]]:
    """A value as the flat list of appends and containers that pystemd takes."""
    kind = signature[0]
    if kind == "a":
        inner = signature[1:]
        yield ord("a"), inner.encode()
        for item in value:
            yield from _encode("(sv)", _variant(item)) if inner == "(sv)" else _encode(inner, item)
        yield -1, None
    elif kind == "(":
        yield ord("r"), signature[1:-1].encode()
        for inner, item in zip(_split(signature[1:-1]), value, strict=True):
            yield from _encode(inner, item)
        yield -1, None
    elif kind == "v":
        inner, item = value
        yield ord("v"), inner.encode()
        yield from _encode(inner, item)
        yield -1, None
    else:
        yield ord(kind), value.encode() if isinstance(value, str) else value


def _variant(item: Property) -> tuple[str, tuple[str, Any]]:
    name, signature, value = item
    return name, (signature, value)


def _split(signature: str) -> Iterator[str]:
    """Complete types of a signature, one by one."""
    start = depth = 0
    for at, c in enumerate(signature):
        depth += (c in "({") - (c in ")}")
        if depth == 0 and c != "a":
            yield signature[start : at + 1]
            start = at + 1
