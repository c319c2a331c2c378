"""A person at a terminal: a real PTY with a command on it, typed to and read from."""

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time


class Terminal:
    def __init__(self, argv: list[str], rows: int = 24, cols: int = 80) -> None:
        self.fd, slave_fd = os.openpty()
        self.resize(rows, cols)
        self.before = termios.tcgetattr(slave_fd)
        # --ctty: the PTY becomes the controlling terminal, so that closing it hangs the command up.
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=slave_fd, stdout=slave_fd, stderr=slave_fd, start_new_session=False
        )
        self.slave_fd = slave_fd
        self.seen = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for fd in (self.fd, self.slave_fd):
            if fd >= 0:
                os.close(fd)
        self.fd = self.slave_fd = -1

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def read_until(self, pattern: bytes, deadline_sec: float = 20) -> bytes:
        """All output so far, once the pattern is in it; what is returned is not looked at again."""
        deadline = time.monotonic() + deadline_sec
        while not (match := re.search(pattern, self.seen, re.DOTALL)):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen[-2000:]!r}")
            self.seen += os.read(self.fd, 65536)
        found, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return found

    def drain(self) -> bytes:
        while select.select([self.fd], [], [], 0)[0]:
            self.seen += os.read(self.fd, 65536)
        return self.seen

    def wait(self, deadline_sec: float = 20) -> int:
        """The command's exit code; reads on meanwhile, as a terminal does."""
        pidfd = os.pidfd_open(self.process.pid)
        try:
            deadline = time.monotonic() + deadline_sec
            while True:
                ready, _, _ = select.select([pidfd, self.fd], [], [], max(0, deadline - time.monotonic()))
                assert ready, f"did not end; shows {self.seen[-2000:]!r}"
                if self.fd in ready:
                    self.seen += os.read(self.fd, 65536)
                elif pidfd in ready:
                    return self.process.wait()
        finally:
            os.close(pidfd)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self.slave_fd)

    def hang_up(self) -> None:
        """The window is closed."""
        for fd in (self.slave_fd, self.fd):
            os.close(fd)
        self.fd = self.slave_fd = -1
