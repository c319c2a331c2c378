"""The unit of a session, as the properties of StartTransientUnit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kildsvc.model import unit_of

if TYPE_CHECKING:
    from kildsvc.launch import Launch

# A property: name, D-Bus signature, value.
Property = tuple[str, str, Any]

SEC = 1_000_000


def service(
    launch: Launch, directory: Path, interpreter: str, description: str, more: Sequence[Property] = ()
) -> list[Property]:
    shim = str(directory / f"{launch.run}.shim")
    command = [interpreter, "-SI", shim, launch.name, launch.run]
    reaper = ["/bin/sh", f"{shim}/reap.sh", str(directory)]
    return [
        ("Description", "s", description),
        ("Slice", "s", "kild.slice"),
        ("Type", "s", "notify"),
        ("NotifyAccess", "s", "main"),
        ("ExecStart", "a(sasb)", [(command[0], command, False)]),
        ("ExecStopPost", "a(sasb)", [(reaper[0], reaper, True)]),
        # The unit goes when nothing refers to it; the keeper does until the session is forgotten.
        ("CollectMode", "s", "inactive-or-failed"),
        # A crash of the shim leaves the agent alone, and the shim is started again with what it had stored.
        ("KillMode", "s", "process"),
        ("Restart", "s", "on-abort"),
        ("RestartUSec", "t", 0),
        ("StartLimitIntervalUSec", "t", 0),
        ("FileDescriptorStoreMax", "u", 8),
        ("TimeoutStartUSec", "t", launch.grace_usec + 30 * SEC),
        ("TimeoutStopUSec", "t", launch.stop_usec + 10 * SEC),
        ("OOMPolicy", "s", "continue"),
        ("LimitCORE", "t", 0),
        *more,
    ]


def keeper(name: str) -> list[Property]:
    return [
        ("Description", "s", f"remembers how session {name} ended"),
        ("After", "as", [unit_of(name)]),
        ("DefaultDependencies", "b", False),
    ]


def unit_path(unit: str) -> str:
    """Unit name as an object path, the way sd_bus_path_encode does it."""
    escaped = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):02x}" for c in unit)
    return f"/org/freedesktop/systemd1/unit/{escaped}"
