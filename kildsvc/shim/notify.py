"""sd_notify, with file descriptors for the unit's store."""

import os
import socket


def notify(message: str, fds: list[int] | None = None) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect(address)
        if fds:
            socket.send_fds(sock, [message.encode()], fds)
        else:
            sock.send(message.encode())


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
