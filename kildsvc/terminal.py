"""The user's own terminal, borrowed and given back as it was."""

import os
import signal
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

# What an agent may have switched on; each is harmless where it was off: mouse, focus, paste, application
# keys, keyboard protocols, hidden cursor, alternate screen, scroll region, colours.
RESET = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?2026l"
    b"\x1b[?1l\x1b>\x1b[<99u\x1b[>4m\x1b[?1049l\x1b[r\x1b[m\x1b[?7h\x1b[?25h"
)


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
        termios.tcsetattr(fd, termios.TCSAFLUSH, before)


@contextmanager
def modes_restored(fd: int) -> Iterator[None]:
    """Whatever modes are set meanwhile, the terminal has them off afterwards, on a fresh line."""
    try:
        yield
    finally:
        if os.isatty(fd):
            os.set_blocking(fd, True)
            # Save and restore around the scroll region: resetting it moves the cursor home.
            os.write(fd, b"\x1b7" + RESET.replace(b"\x1b[r", b"\x1b[r\x1b8") + b"\r\n")


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
