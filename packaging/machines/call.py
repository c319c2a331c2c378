"""Runs a command in the virtual machine in whose network namespace we are: the other end of the agent in the guest.

Frames: kind (u8), length (u32), data. First the request, as JSON. Then to the guest: 0 input, empty at its end;
1 rows and columns. From the guest: 0, 1, 2 output to this file descriptor; 3 how it ended.
"""

import json
import os
import resource
import signal
import socket
import struct
import sys
import termios
import threading
import tty

FRAME = struct.Struct("!BI")
STDIN, RESIZE, ENDED = 0, 1, 3

agent = socket.create_connection(("127.0.0.1", 1))
agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sending = threading.Lock()


def send(kind: int, data: bytes) -> None:
    with sending:
        agent.sendall(FRAME.pack(kind, len(data)) + data)


def resize(*_: object) -> None:
    send(RESIZE, struct.pack("!HH", *termios.tcgetwinsize(0)))


def feed() -> None:
    data = b"-"
    while data:
        try:
            data = os.read(0, 65536)
        except OSError:  # EIO: the terminal is gone; EBADF: there never was a standard input
            data = b""
        send(STDIN, data)


def relay() -> int:
    """Writes what the command writes, until it ends."""
    while header := agent.recv(FRAME.size, socket.MSG_WAITALL):
        kind, length = FRAME.unpack(header)
        data = agent.recv(length, socket.MSG_WAITALL)
        if kind == ENDED:
            (code,) = struct.unpack("!i", data)
            return int(code)
        while data:
            data = data[os.write(kind, data) :]
    sys.exit("machine: it went down while the command ran")


def run(command: list[str]) -> int:
    terminal = [number for number in range(3) if os.isatty(number)] if os.isatty(0) else []
    size = termios.tcgetwinsize(0) if terminal else None
    send(STDIN, json.dumps({"command": command, "terminal": terminal, "size": size}).encode())
    if not terminal:
        threading.Thread(target=feed, daemon=True).start()
        return relay()
    settings = termios.tcgetattr(0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGWINCH, resize)
    try:
        tty.setraw(0)
        threading.Thread(target=feed, daemon=True).start()
        return relay()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, settings)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    code = run(sys.argv[1:])
    if code < 0:
        # As the command died, we die.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
