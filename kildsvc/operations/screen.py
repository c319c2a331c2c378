"""The screen of a session as text, and keys sent to it."""

import re
import time
from dataclasses import dataclass

from kildsvc import keys, model, store
from kildsvc.attach import Disconnected
from kildsvc.errors import KildError, NotRunning, Paused, UsageError
from kildsvc.operations import sessions
from kildsvc.operations.link import Link
from kildsvc.restore import Past
from kildsvc.shim import wire
from kildsvc.shim.text import Cleaner

# How long an agent that is up may take to say that it takes pastes; and then to draw what was pasted.
PASTE_SEC = 10.0
DRAWN_SEC = 1.0


class NoMatch(KildError):
    code = "NO_MATCH"


@dataclass(frozen=True)
class Shown:
    """What stands on a screen, and above it."""

    lines: list[str]
    history: list[str]
    rows: int
    cols: int
    cursor: tuple[int, int]
    cursor_visible: bool
    title: str
    alternate: bool
    ansi: str


def show(name: str, history: int) -> Shown:
    """The session's screen as it is, or as it was when the session ended."""
    past = _past(name)
    modes = past.modes()
    result = past.screen(history)
    rows, cols = result.size
    row, col, visible = result.cursor
    return Shown(
        lines=result.text(),
        history=result.history(),
        rows=rows,
        cols=cols,
        cursor=(row, col),
        cursor_visible=visible and 25 not in modes.private,
        title=modes.title,
        alternate=bool(modes.alternate),
        ansi=result.drawing(),
    )


def _past(name: str) -> Past:
    session = sessions.status(name)
    if session.alive and sessions.is_frozen_whole(name):
        raise Paused(name)  # its shim too: nobody would answer
    if session.alive:
        with Link(name, wire.READ_ONLY) as link:
            return link.past
    saved = store.last_output(name)
    if not saved:
        raise NotRunning(f"'{name}' is not running, and its last screen was not kept")
    about, pinned, data = saved
    past = Past(about)
    past.pinned(pinned)
    past.add(data)
    return past


@dataclass(frozen=True)
class Typing:
    """What is to be typed, and how."""

    text: str = ""
    keys: str = ""
    enter: bool = False
    paste: bool = False
    wait_output: str | None = None
    timeout_sec: float = 30.0


def send(name: str, typing: Typing) -> None:
    """Types into a running session; with wait_output, returns once the agent has printed a match after that."""
    try:
        pattern = re.compile(typing.wait_output) if typing.wait_output is not None else None
    except re.error as error:
        raise UsageError(f"--wait-output '{typing.wait_output}' is no regular expression: {error}") from error
    keys.encode(typing.keys)  # a mistake is found before anything is sent
    session = sessions.status(name)
    if session.state == model.PAUSED:
        raise Paused(name)
    if session.state not in (model.RUNNING, model.STARTING):
        raise NotRunning(f"session '{name}' is {session.state}, nothing was sent", f"kildsvc open {name}")
    try:
        with Link(name, wire.SENDER) as link:
            link.type(_encode(typing, link.past))
            if pattern:
                _wait_output(link, pattern, name, typing.timeout_sec)
    except Disconnected as error:
        if sessions.status(name).alive:
            raise KildError(
                f"the terminal of '{name}' was cut off: what was typed may have arrived in part or not at all",
                f"kildsvc screen {name}",
            ) from error
        raise NotRunning(f"session '{name}' ended meanwhile") from error


def paste_prompt(name: str, text: str) -> None:
    """Pastes a prompt into an agent that has just come up, once it says that it takes pastes, and presses Enter."""
    deadline = time.monotonic() + PASTE_SEC
    with Link(name, wire.SENDER) as link:
        modes = link.past.modes()
        while 2004 not in modes.private:
            frame = link.next(deadline)
            if not frame or frame[0] == wire.EXIT:
                raise KildError("the agent does not take pastes")
            if frame[0] == wire.OUTPUT:
                modes.feed(frame[1])
        link.type(b"\x1b[200~" + _pasted(text) + b"\x1b[201~")
        # In one read with the paste Enter may count as part of it: it follows when the agent has drawn something.
        while (frame := link.next(time.monotonic() + DRAWN_SEC)) and frame[0] not in (wire.OUTPUT, wire.EXIT):
            pass
        link.type(b"\r")


def _pasted(text: str) -> bytes:
    # A terminal sends CR for a newline in a paste. The closing mark inside it would end it early, and run the rest.
    data = text.replace("\r\n", "\n").replace("\n", "\r").encode(errors="surrogateescape")
    return data.replace(b"\x1b[201~", b"")


def _encode(typing: Typing, past: Past) -> bytes:
    modes = past.modes()
    if typing.paste and 2004 in modes.private:
        data = b"\x1b[200~" + _pasted(typing.text) + b"\x1b[201~"
    else:
        data = typing.text.replace("\r\n", "\n").replace("\n", "\r").encode(errors="surrogateescape")
    data += keys.encode(typing.keys, application=1 in modes.private)
    return data + (b"\r" if typing.enter else b"")


def _wait_output(link: Link, pattern: re.Pattern[str], name: str, timeout_sec: float) -> None:
    deadline = time.monotonic() + timeout_sec
    data = b""
    while frame := link.next(deadline):
        kind, payload = frame
        if kind == wire.OUTPUT:
            data = (data + payload)[-256 * 1024 :]
            if pattern.search(Cleaner().feed(data, final=True)):
                return
        elif kind == wire.EXIT:
            raise NotRunning(f"session '{name}' ended before it printed a match")
    raise NoMatch(f"no match for '{pattern.pattern}' within {timeout_sec:g} s; the session goes on")
