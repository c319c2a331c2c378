"""sd_notify, with file descriptors for the unit's store."""

import os
import socket
import struct

# Made with the first message and kept: later there may be no descriptor left for another one.
_socket: socket.socket | None = None


def notify(message: str, fds: list[int] | None = None) -> None:
    global _socket
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if _socket is None:
        _socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    # Unconnected, so that a manager is found that has made its socket anew.
    _socket.sendmsg([message.encode()], rights, 0, "\0" + address[1:] if address[0] == "@" else address)


def store(name: str, fd: int) -> None:
    # FDPOLL=0: without it systemd drops a descriptor that reports hang-up, as a master whose agent has
    # ended and a pidfd of an ended process do.
    notify(f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", [fd])


def forget(name: str) -> None:
    notify(f"FDSTOREREMOVE=1\nFDNAME={name}")


def stored() -> dict[str, int]:
    """What systemd kept for us, by name."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return {}
    names = os.environ.get("LISTEN_FDNAMES", "").split(":")
    fds = {name: 3 + i for i, name in enumerate(names[: int(os.environ.get("LISTEN_FDS", "0"))])}
    for fd in fds.values():
        os.set_inheritable(fd, False)
    return fds
