"""How a run ended, in every form it is told in."""

from __future__ import annotations

import errno
import os
import signal

from kildsvc.shim import cgroup, child, memory
from kildsvc.shim import record as rec
from kildsvc.shim.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Ending:
    # Not a dataclass: that import alone costs the shim 10 ms and a megabyte.
    def __init__(self, code: int | None = None, signal: int | None = None, failure: str = "") -> None:
        self.code = code
        self.signal = signal
        self.failure = failure  # why the agent could not even be executed
        self.oom = ""  # killed by the kernel for want of memory: of how much
        self.timed_out = self.stopped = False

    @classmethod
    def of(cls, record: Record) -> Ending:
        words = record.words
        if words[rec.EXEC_ERRNO]:
            return cls(code=127, failure=_failure(words[rec.EXEC_STAGE], words[rec.EXEC_ERRNO]))
        ending = cls()
        ending.timed_out = record.flag(rec.TIMED_OUT)
        ending.stopped = record.flag(rec.STOPPING) and not ending.timed_out
        if words[rec.PHASE] != rec.ENDED:
            return ending
        result = os.waitstatus_to_exitcode(words[rec.WAIT_STATUS])
        if result >= 0:
            ending.code = result
        else:
            ending.signal = -result
        # Those told of were others: it has lived on.
        if ending.signal == signal.SIGKILL and cgroup.number("memory.events", "oom_kill") > words[rec.OOM_TOLD]:
            ending.oom = memory.describe()
        return ending

    @property
    def signal_name(self) -> str:
        return signal_name(self.signal) if self.signal else ""

    def status_text(self) -> str:
        """The fixed grammar of StatusText= at the end."""
        if self.failure:
            return f"ended: not executed: {self.failure}"
        why = ", time limit" if self.timed_out else ", stopped" if self.stopped else ""
        why += f", out of memory: {self.oom}" if self.oom and not self.timed_out else ""
        if self.code is not None:
            return f"ended: exit {self.code}{why}"
        if self.signal:
            return f"ended: signal {self.signal_name}{why}"
        return f"ended: unobserved{why}"

    def exit_code(self) -> int:
        if self.code is not None:
            return self.code
        return 128 + self.signal if self.signal else 1

    def fields(self) -> dict[str, str]:
        fields = {}
        if self.code is not None:
            fields["KILD_EXIT_CODE"] = str(self.code)
        if self.signal:
            fields["KILD_EXIT_SIGNAL"] = self.signal_name
        if self.failure:
            fields["KILD_EXEC_ERROR"] = self.failure
        if self.oom:
            fields["KILD_OOM"] = self.oom
        if self.timed_out:
            fields["KILD_TIMED_OUT"] = "1"
        return fields

    def wire(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "signal": self.signal_name or None,
            "exit_code": self.exit_code() if self.code is not None or self.signal else None,
            "stopped": self.stopped,
            "timed_out": self.timed_out,
            "oom": self.oom,
        }


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"RTMIN+{number - signal.SIGRTMIN}" if number > signal.SIGRTMIN else str(number)


def _failure(stage: int, code: int) -> str:
    names = {child.STAGE_FORK: "fork", child.STAGE_CHDIR: "chdir", child.STAGE_SANDBOX: "sandbox"}
    return f"{names.get(stage, 'exec')}: {os.strerror(code)} ({errno.errorcode.get(code, code)})"
