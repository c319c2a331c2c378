"""The journal, read back: what a session printed, and how its runs ended. The only reader of journald."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from kildsvc.errors import JournalUnreadable, KildError
from kildsvc.model import Ended
from kildsvc.shim.journal import EVENTS


@dataclass(frozen=True)
class Entry:
    fields: dict[str, bytes]

    def text(self, name: str) -> str:
        return self.fields.get(name, b"").decode(errors="replace")

    @property
    def usec(self) -> int:
        return int(self.text("__REALTIME_TIMESTAMP") or 0)

    @property
    def run(self) -> str:
        return self.text("KILD_RUN")

    @property
    def event(self) -> str:
        return self.text("KILD_EVENT")

    def ended(self) -> Ended:
        """What an 'ended' record says."""
        code = self.text("KILD_EXIT_CODE")
        return Ended(
            code=int(code) if code else None,
            signal=self.text("KILD_EXIT_SIGNAL") or None,
            error=self.text("KILD_EXEC_ERROR") or None,
            stopped=self.text("KILD_STOPPED") == "1",
        )


def read(matches: list[str], *options: str) -> Iterator[Entry]:
    """Entries of this user that fit, oldest first unless told otherwise. Stop iterating to stop reading."""
    # Our own matches, not --user -u: these find the entries for root and with a volatile journal too.
    command = ["journalctl", "--quiet", "--all", "--output=export", *options, f"_UID={os.getuid()}", *matches]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise JournalUnreadable("journalctl is not installed", "install systemd's journal tools") from error
    with process:
        assert process.stdout and process.stderr
        complete = False
        try:
            yield from parse(process.stdout)
            complete = True
        finally:
            if not complete:
                process.kill()
        message = process.stderr.read().decode(errors="replace").strip()
    if process.returncode and message:
        raise _unreadable(message)


def _unreadable(message: str) -> KildError:
    if "insufficient permissions" in message or "No journal files" in message:
        return JournalUnreadable(
            "the journal cannot be read: it is volatile, or its files are not yours",
            "as root: mkdir -p /var/log/journal && systemctl restart systemd-journald",
        )
    return JournalUnreadable(f"journalctl: {message.splitlines()[-1]}")


def parse(stream: IO[bytes]) -> Iterator[Entry]:
    """The journal export format: NAME=value lines, or NAME, a length and raw bytes; an empty line ends an entry."""
    fields: dict[str, bytes] = {}
    while (line := stream.readline()).endswith(b"\n"):
        if line == b"\n":
            if fields:
                yield Entry(fields)
            fields = {}
            continue
        name, separator, value = line[:-1].partition(b"=")
        if not separator:
            length = int.from_bytes(stream.read(8), "little")
            value = stream.read(length)
            if len(value) < length or not stream.read(1):
                return  # cut off: half an entry would tell half the truth
        fields[name.decode()] = value


def of_session(name: str) -> list[str]:
    return [f"KILD_SESSION={name}"]


def of_run(name: str, run: str) -> list[str]:
    return [f"KILD_SESSION={name}", f"KILD_RUN={run}"]


def of_event(*names: str) -> list[str]:
    return [f"MESSAGE_ID={EVENTS[name]}" for name in names]


def last_end(name: str, run: str) -> Entry | None:
    return next(read([*of_run(name, run), *of_event("ended")], "--reverse", "--lines=1"), None)
