"""Runs commands for the host, each in a process of its own: the other end of call.py, which tells the frames."""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios

FRAME = struct.Struct("!BI")
STDIN, RESIZE, ENDED = 0, 1, 3


def receive(host: socket.socket) -> tuple[int, bytes]:
    kind, length = FRAME.unpack(exactly(host, FRAME.size))
    return kind, exactly(host, length)


def exactly(host: socket.socket, length: int) -> bytes:
    data = host.recv(length, socket.MSG_WAITALL) if length else b""
    if len(data) < length:
        raise ConnectionResetError  # call.py was killed
    return data


class Call:
    def __init__(self, host: socket.socket) -> None:
        self.host = host
        request = json.loads(receive(host)[1])
        self.terminal = request["terminal"]  # which of 0, 1, 2 it is
        self.pty_fd, slave_fd = os.openpty() if self.terminal else (-1, -1)
        if self.terminal:
            termios.tcsetwinsize(self.pty_fd, request["size"])
        files = [slave_fd if number in self.terminal else subprocess.PIPE for number in range(3)]
        self.process = subprocess.Popen(
            request["command"],
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            bufsize=0,
            start_new_session=True,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if self.terminal else None,
        )
        self.outputs = {file.fileno(): n for n, file in ((1, self.process.stdout), (2, self.process.stderr)) if file}
        if self.terminal:
            os.close(slave_fd)
            self.outputs[self.pty_fd] = next((number for number in self.terminal if number), 0)
        self.stdin_fd = self.process.stdin.fileno() if self.process.stdin else self.pty_fd
        self.pending = b""  # for the command's standard input
        self.at_end = False  # of it
        for fd in {*self.outputs, self.stdin_fd}:
            os.set_blocking(fd, False)

    def serve(self) -> None:
        ended_fd = os.pidfd_open(self.process.pid)
        while True:
            events = dict.fromkeys(self.outputs, select.POLLIN)
            events[ended_fd] = select.POLLIN
            # While the command does not read, only the end of the host's connection is of interest.
            events[self.host.fileno()] = select.POLLRDHUP if self.pending else select.POLLIN
            if self.pending:
                events[self.stdin_fd] = events.get(self.stdin_fd, 0) | select.POLLOUT
            poll = select.poll()
            for fd, mask in events.items():
                poll.register(fd, mask)
            ready = dict(poll.poll())
            for fd in self.outputs.keys() & ready.keys():
                self.on_output_readable(fd)
            if self.pending and self.stdin_fd in ready:
                self.write_input()
            if self.host.fileno() in ready:
                self.on_host_readable()
            if ended_fd in ready:
                break
        for fd in list(self.outputs):
            while fd in self.outputs and self.on_output_readable(fd):
                pass
        self.send(ENDED, struct.pack("!i", self.process.wait()))

    def on_output_readable(self, fd: int) -> bool:
        """Whether there may be more now."""
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            return False
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if data:
            self.send(self.outputs[fd], data)
        else:
            del self.outputs[fd]
        return bool(data)

    def on_host_readable(self) -> None:
        if self.pending:
            raise ConnectionResetError
        kind, data = receive(self.host)
        if kind == RESIZE:
            termios.tcsetwinsize(self.pty_fd, struct.unpack("!HH", data))
        else:
            self.pending, self.at_end = data, not data
            self.write_input()

    def write_input(self) -> None:
        try:
            while self.pending:
                self.pending = self.pending[os.write(self.stdin_fd, self.pending) :]
        except BlockingIOError:
            return
        except OSError:  # EPIPE, EIO: the command reads no more
            self.pending = b""
        if self.at_end and self.process.stdin:
            self.process.stdin.close()

    def send(self, kind: int, data: bytes) -> None:
        self.host.sendall(FRAME.pack(kind, len(data)) + data)


def main() -> None:
    listener = socket.socket(fileno=3)  # from systemd
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        host, _ = listener.accept()
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Call(host).serve()
            except ConnectionError:
                pass  # the command gets SIGHUP when we are gone
            finally:
                os._exit(0)
        host.close()


main()
