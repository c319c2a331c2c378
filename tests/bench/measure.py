"""What every measurement needs: turns, clocks, a terminal with a client on it, and a word from the agent."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from bench.peers import COLS, ENVIRONMENT, ROWS, WORK

# Nothing that is measured takes so long: then it hangs, and the run is void.
HANGS_SEC = 120
# How an agent begins that is to be heard before it goes on, at the word "go".
READY = b"@@ ready @@"
ANSWERS = f"""until read word; [ "$word" = go ]; do printf '{READY.decode()}'; done; """


def interleaved(times: int, actions: dict[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Each in turn, A B C A B C …, so that noise hits all alike."""
    results: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(times):
        for name, action in actions.items():
            signal.alarm(HANGS_SEC)
            results[name].append(action())
    signal.alarm(0)
    return results


def milliseconds(*argv: str) -> float:
    """Of a command, from its start to its end. It must succeed."""
    start = time.perf_counter()
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    took = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{argv} gave {done.returncode}: {done.stderr.decode()}")
    return took * 1000


class Word:
    """A FIFO on which an agent says something once, or is told to: waited for, not looked for."""

    def __init__(self, name: str) -> None:
        self.path = WORK / name
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path)

    def wait(self) -> list[float]:
        return [float(word) for word in self.path.read_text().split()]

    def say(self) -> None:
        self.path.write_text("\n")


class Client:
    """A person's terminal with a command on it."""

    def __init__(self, argv: list[str]) -> None:
        self.started = time.perf_counter()
        master_fd, slave_fd = os.openpty()
        fcntl.ioctl(slave_fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLS, 0, 0))
        self.pid = os.fork()
        if self.pid == 0:
            os.login_tty(slave_fd)
            os.close(master_fd)
            os.execvpe(argv[0], argv, ENVIRONMENT)
        os.close(slave_fd)
        self.fd = master_fd

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)  # script(1) outlives a mere hang-up
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def type(self, data: bytes) -> None:
        os.write(self.fd, data)

    def read(self) -> bytes:
        return os.read(self.fd, 1 << 16)

    def drain(self, quiet_sec: float = 0.0) -> None:
        """Until it has been quiet for so long."""
        while select.select([self.fd], [], [], quiet_sec)[0]:
            self.read()

    def join_in(self) -> None:
        """Until agent and client hear each other: a silent client may be one that has not begun yet."""
        seen = b""
        while READY not in seen:
            self.type(b"\r")
            while READY not in seen and select.select([self.fd], [], [], 1)[0]:
                seen += self.read()
        self.drain(quiet_sec=0.5)

    def take_until(self, marker: bytes) -> tuple[int, int]:
        """How many bytes came, the marker's included, and their CRC-32."""
        count = crc = 0
        tail = b""
        while True:
            data = self.read()
            window = tail + data
            at = window.find(marker)
            if at >= 0:
                data = data[: at + len(marker) - len(tail)]
            count, crc = count + len(data), zlib.crc32(data, crc)
            if at >= 0:
                return count, crc
            tail = window[1 - len(marker) :]


MARKER = b"@@ the end @@"


def make_output(megabytes: int) -> Path:
    """What agents print, coloured listings and prose, with a marker at its very end."""
    path = WORK / "output"
    block = b"".join(
        b"\x1b[3%dmmodule_%04d.py\x1b[0m:%d: def handler(request, context): # %s\n"
        % (i % 8, i, i * 7, b"word " * (i % 9))
        for i in range(2000)
    )
    with open(path, "wb") as file:
        while file.tell() < megabytes * 1_000_000:
            file.write(block)
        file.write(MARKER)
    return path


def cpu_seconds(pid: int) -> float:
    """Since its start, to the nanosecond; /proc/PID/stat counts hundredths."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
