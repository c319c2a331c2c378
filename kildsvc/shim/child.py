"""The waiter and the agent: forked once, before anything else can go wrong, and never again."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import struct
import termios
import time

from kildsvc.shim import fence
from kildsvc.shim import record as rec
from kildsvc.shim.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is not worth its memory in every shim
    from typing import Any, NoReturn

# Where an agent can fail before it is one.
STAGE_FORK, STAGE_CHDIR, STAGE_EXEC, STAGE_SANDBOX = 1, 2, 3, 4

# The kernel prefers the agent over its shim when memory runs out.
OOM_SCORE_STEP = 200


def set_size(fd: int, rows: int, cols: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def get_size(fd: int) -> tuple[int, int]:
    rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))
    return rows, cols


def is_line_by_line(slave_fd: int) -> bool:
    """Nobody has taken the terminal: it still edits lines itself."""
    return bool(termios.tcgetattr(slave_fd)[3] & termios.ICANON)


def open_terminal(rows: int, cols: int) -> int:
    """A new PTY's master."""
    master_fd, slave_fd = os.openpty()
    set_size(master_fd, rows, cols)
    mode = termios.tcgetattr(slave_fd)
    mode[0] |= 0o40000  # IUTF8: erase takes a whole character; the termios module has no name for it
    termios.tcsetattr(slave_fd, termios.TCSANOW, mode)
    os.close(slave_fd)
    os.set_blocking(master_fd, False)
    return master_fd


def open_slave(master_fd: int) -> int:
    # TIOCGPTPEER works by descriptor, so also where another /dev/pts is mounted. Holding the slave open keeps
    # the master from reporting hang-up while an agent has merely closed its terminal.
    tiocgptpeer = 0x5441
    return fcntl.ioctl(master_fd, tiocgptpeer, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def start(launch: dict[str, Any], record: Record, slave_fd: int) -> int:
    """Forks the waiter, which forks the agent. Returns a descriptor that reads EOF once the agent is executed
    or has failed to be, and never before its pid is in the record."""
    exec_r, exec_w = os.pipe2(os.O_CLOEXEC)
    record.words[rec.PHASE] = rec.FORKING
    # Objects that are never collected are never written to: the waiter shares our memory for good.
    gc.disable()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            _wait(launch, record, slave_fd)
        finally:
            os._exit(0)
    os.close(exec_w)
    record.words[rec.WAITER_PID] = pid
    return exec_r


def _wait(launch: dict[str, Any], record: Record, slave_fd: int) -> None:
    """The waiter's life. It holds no descriptor, so that it keeps neither a terminal nor a socket open."""
    words = record.words
    words[rec.WAITER_PID] = os.getpid()
    try:
        agent = os.fork()
    except OSError as error:
        words[rec.EXEC_STAGE], words[rec.EXEC_ERRNO] = STAGE_FORK, error.errno or errno.EAGAIN
        return
    if agent == 0:
        _become(launch, record, slave_fd)
    words[rec.AGENT_PID] = agent
    words[rec.EXEC_USEC] = time.monotonic_ns() // 1000
    words[rec.PHASE] = rec.RUNNING
    os.closerange(0, 1 << 16)
    _, status = os.waitpid(agent, 0)
    words[rec.WAIT_STATUS] = status
    words[rec.END_USEC] = time.time_ns() // 1000
    words[rec.PHASE] = rec.ENDED


def _become(launch: dict[str, Any], record: Record, slave_fd: int) -> NoReturn:
    """Turns this process into the agent; on failure leaves the reason in the record and exits."""
    stage = STAGE_CHDIR
    try:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.setsid()
        fcntl.ioctl(slave_fd, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(slave_fd, fd)
        _set_limits(launch["limits"])
        if launch["nice"] is not None:
            os.setpriority(os.PRIO_PROCESS, 0, launch["nice"])
        _raise_oom_score()
        os.umask(launch["umask"])
        os.chdir(launch["cwd"])
        if launch["sandbox"]:
            stage = STAGE_SANDBOX
            fence.scope()
        stage = STAGE_EXEC
        # Every other descriptor of ours is close-on-exec: Python opens them so.
        os.execve(launch["executable"], launch["argv"], launch["env"])
    except OSError as error:
        code = error.errno or errno.EINVAL
    except ValueError:
        code = errno.EINVAL  # a NUL inside an argument
    record.words[rec.EXEC_STAGE], record.words[rec.EXEC_ERRNO] = stage, code
    os._exit(127)


def _set_limits(limits: dict[str, list[int]]) -> None:
    import resource  # here: only the agent's process pays for it

    for name, (soft, hard) in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        _, ours = resource.getrlimit(kind)
        top = hard if ours == resource.RLIM_INFINITY else ours if hard == -1 else min(hard, ours)
        resource.setrlimit(kind, (top if soft == -1 or -1 < top < soft else soft, top))


def _raise_oom_score() -> None:
    with open("/proc/self/oom_score_adj", "r+") as file:
        score = int(file.read())
        file.seek(0)
        file.write(str(min(1000, score + OOM_SCORE_STEP)))
