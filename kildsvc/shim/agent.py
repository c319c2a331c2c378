"""The agent's process, held by a pidfd: its number may be another's one day, the descriptor never is."""

from __future__ import annotations

import select
import signal

from kildsvc.shim import cgroup, child
from kildsvc.shim import record as rec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kildsvc.shim.record import Record


class Agent:
    def __init__(self, record: Record, slave_fd: int, takes_terminal: bool) -> None:
        self._record = record
        self._slave_fd = slave_fd
        self.awaits_terminal = takes_terminal  # until it has
        self.fd = -1

    @property
    def pid(self) -> int:
        return self._record.words[rec.AGENT_PID]

    def find(self) -> None:
        if self.fd < 0:
            self.fd = cgroup.open_member(self.pid)

    def alive(self) -> bool:
        if self.fd < 0:
            return False
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return not poll.poll(0)

    def has_not_taken_the_terminal(self) -> bool:
        """Of one that should."""
        return self.awaits_terminal and child.is_line_by_line(self._slave_fd)

    def ask_to_end(self) -> None:
        cgroup.thaw()
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        # An interactive shell ignores SIGTERM and obeys SIGHUP, which says that its terminal is gone.
        if self._ignores_term():
            self.signal(signal.SIGHUP)

    def signal(self, number: int) -> None:
        if self.fd < 0:
            return
        try:
            signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            self.fd = -1

    def is_dying(self) -> bool:
        """Killed or gone: giving much memory back takes a process long, and SIGKILL stays pending all the while."""
        return not self.alive() or self._has("ShdPnd", signal.SIGKILL)

    def _ignores_term(self) -> bool:
        return self._has("SigIgn", signal.SIGTERM)

    def _has(self, signals: str, number: int) -> bool:
        try:
            with open(f"/proc/{self.pid}/status") as file:
                found = next((line.split()[1] for line in file if line.startswith(f"{signals}:")), "0")
        except OSError:  # it has ended
            return False
        return bool(int(found, 16) >> (number - 1) & 1)
