"""The user's own terminal, borrowed and given back as it was."""

import errno
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Every key as bytes. No-op where there is no terminal."""
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSANOW)
    try:
        yield
    finally:
        try:
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
        except termios.error as error:
            if error.args[0] != errno.EIO:  # the terminal itself is gone
                raise


@contextmanager
def given_back(fd: int, resetting: Callable[[], bytes]) -> Iterator[None]:
    """Whatever modes were set meanwhile (resetting() tells how to undo them), the terminal has them off afterwards.
    Its title is kept aside. No-op where there is no terminal."""
    if not os.isatty(fd):
        yield
        return
    # XTWINOPS 22 and 23: save and restore the title; terminals that do not know them ignore them.
    os.write(fd, b"\x1b[22;2t")
    try:
        yield
    finally:
        os.set_blocking(fd, True)
        try:
            os.write(fd, resetting() + b"\x1b[23;2t\r\n\x1b[J")
        except OSError as error:
            if error.errno != errno.EIO:  # the terminal itself is gone
                raise


@contextmanager
def signals_as_bytes(*numbers: int) -> Iterator[int]:
    """A descriptor from which the numbers of arrived signals are read; they interrupt nothing."""
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    try:
        yield read_fd
    finally:
        signal.set_wakeup_fd(before_fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_fd)
        os.close(write_fd)


def size(fd: int) -> tuple[int, int]:
    """Rows and columns; 0, 0 where there is no terminal."""
    try:
        cols, rows = os.get_terminal_size(fd)
    except OSError:
        return 0, 0
    return rows, cols


def size_or_usual(fd: int) -> tuple[int, int]:
    rows, cols = size(fd)
    return rows or 24, cols or 80
