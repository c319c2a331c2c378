"""The journal, read back: what a session printed, and how its runs ended. The only reader of journald."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import AsyncGenerator, Generator, Iterator
from dataclasses import dataclass
from typing import IO

from kildsvc.errors import JournalUnreadable, KildError
from kildsvc.model import Ended, signal_number
from kildsvc.shim.journal import EVENTS

# journald shows an entry some 10 ms after it was sent; to those who have looked before, 250 ms later at most.
LAG_SEC = 0.5


@dataclass(frozen=True)
class Entry:
    """One of the journal's."""

    fields: dict[str, bytes]

    def text(self, name: str) -> str:
        return self.fields.get(name, b"").decode(errors="replace")

    def number(self, name: str) -> int | None:
        """None where there is none: anything may be in the journal, an agent can write to it as well as we can."""
        text = self.text(name)
        return int(text) if len(text) < 20 and text.isascii() and text.isdigit() else None

    @property
    def usec(self) -> int:
        return self.number("__REALTIME_TIMESTAMP") or 0

    @property
    def cursor(self) -> str:
        return self.text("__CURSOR")

    @property
    def name(self) -> str:
        return self.text("KILD_SESSION")

    @property
    def run(self) -> str:
        return self.text("KILD_RUN")

    @property
    def event(self) -> str:
        return self.text("KILD_EVENT")

    def ended(self) -> Ended:
        """What an 'ended' record says."""
        code, signal = self.number("KILD_EXIT_CODE"), self.text("KILD_EXIT_SIGNAL")
        return Ended(
            code=code if code is None or code <= 255 else None,
            signal=signal if signal_number(signal) else None,
            error=self.text("KILD_EXEC_ERROR") or None,
            stopped=self.text("KILD_STOPPED") == "1",
            oom=self.text("KILD_OOM"),
            timed_out=self.text("KILD_TIMED_OUT") == "1",
        )


def _command(matches: list[str], *options: str) -> list[str]:
    # Our own matches, not --user -u: these find the entries for root and with a volatile journal too.
    return ["journalctl", "--quiet", "--all", "--output=export", *options, f"_UID={os.getuid()}", *matches]


def read(matches: list[str], *options: str) -> Generator[Entry, None, None]:
    """Entries of this user that fit, oldest first unless told otherwise. Stop iterating to stop reading."""
    with _start(_command(matches, *options)) as process:
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


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl+C is for us to deal with
        )
    except FileNotFoundError as error:
        raise JournalUnreadable("journalctl is not installed", "install systemd's journal tools") from error


def _unreadable(message: str) -> KildError:
    if "insufficient permissions" in message or "No journal files" in message:
        return JournalUnreadable(
            "the journal cannot be read: it is volatile, or its files are not yours",
            "as root: mkdir -p /var/log/journal && systemctl restart systemd-journald",
        )
    return JournalUnreadable(f"journalctl: {message.splitlines()[-1]}")


class Parser:
    """The journal export format: NAME=value lines, or NAME, a length and raw bytes; an empty line ends an entry.

    Bytes in, whole entries out. Half an entry would tell half the truth: it is kept until the rest has come.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._fields: dict[str, bytes] = {}

    def feed(self, data: bytes) -> Iterator[Entry]:
        self._data += data
        at = 0
        while (end := self._data.find(b"\n", at)) >= 0:
            line = bytes(self._data[at:end])
            name, separator, value = line.partition(b"=")
            if not line:
                if self._fields:
                    yield Entry(self._fields)
                self._fields = {}
            elif not separator:
                start = end + 9
                length = int.from_bytes(self._data[end + 1 : start], "little")
                if len(self._data) < start or len(self._data) <= start + length:
                    break
                value = bytes(self._data[start : start + length])
                end = start + length
            if line:
                self._fields[name.decode(errors="replace")] = value
            at = end + 1
        del self._data[:at]


def parse(stream: IO[bytes]) -> Iterator[Entry]:
    parser = Parser()
    while data := stream.read1(1 << 18):  # type: ignore[attr-defined]
        yield from parser.feed(data)


async def follow(matches: list[str], *start: str) -> AsyncGenerator[Entry, None]:
    """Entries that fit, for ever, from where the options of journalctl say. Outlives journald, and journalctl."""
    while True:
        # Not asyncio's own subprocess: it does not see the end of a process of whose output something is unread.
        with _start(_command(matches, "--follow", "--no-tail", *start)) as process:
            assert process.stdout and process.stderr
            parser = Parser()
            try:
                while await _readable(process.stdout) and (data := os.read(process.stdout.fileno(), 1 << 16)):
                    for entry in parser.feed(data):
                        start = (f"--after-cursor={entry.cursor}",)
                        yield entry
                message = process.stderr.read().decode(errors="replace").strip()
            finally:
                process.kill()
        if message:
            raise _unreadable(message)


async def _readable(stream: IO[bytes]) -> bool:
    import asyncio

    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(stream, ready.set)
    try:
        return await ready.wait()
    finally:
        loop.remove_reader(stream)


def read_to_end(name: str, run: str) -> list[Entry]:
    """What there is of a run up to the record of its end, which was sent before its unit ended; without it, when that
    does not appear in time."""
    entries: list[Entry] = []
    deadline = time.monotonic() + LAG_SEC
    with _start(_command(of_run(name, run), "--follow", "--no-tail")) as process:
        assert process.stdout and process.stderr
        parser = Parser()
        try:
            while select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                if not (data := os.read(process.stdout.fileno(), 1 << 16)):
                    raise _unreadable(process.stderr.read().decode(errors="replace").strip() or "it has ended")
                for entry in parser.feed(data):
                    entries.append(entry)
                    if entry.event == "ended":
                        return entries
        finally:
            process.kill()
    return entries


def tail() -> tuple[str, ...]:
    """The option with which `follow` gives what comes after this moment."""
    last = next(read([], "--lines=1"), None)
    return (f"--after-cursor={last.cursor}",) if last else ()


def of_session(*names: str) -> list[str]:
    return [f"KILD_SESSION={name}" for name in names]


def of_run(name: str, run: str) -> list[str]:
    return [f"KILD_SESSION={name}", f"KILD_RUN={run}"]


def of_event(*names: str) -> list[str]:
    return [f"MESSAGE_ID={EVENTS[name]}" for name in names]
