"""Telling people that a session ended, waits or rings: each at most once, and no session notices how that goes."""

import asyncio
import fcntl
import html
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from kildsvc import config, journal, model, paths, store
from kildsvc.errors import Busy, KildError, UsageError
from kildsvc.model import Event
from kildsvc.operations.events import events
from kildsvc.operations.setup import cursor_file
from kildsvc.shim.notify import notify as tell_systemd

# A command of the user's that takes longer is ended: others wait behind it.
TELL_SEC = 30
# After a long time off, what is older than this is no news.
STALE_SEC = 24 * 3600
TEXT_MAX = 500
_CURSOR = re.compile(r"s=[0-9a-f]+(;[a-z]=[0-9a-f]+)+")
# busctl is part of systemd, and so are its manners: an argument is a string, and nothing is made of it.
_BUS = "org.freedesktop.Notifications"
_DESKTOP = ["busctl", "--user", "--quiet", "--timeout=10", "--", "call"]
_NOTIFY = [_BUS, f"/{_BUS.replace('.', '/')}", _BUS, "Notify", "susssasa{sv}i"]


@dataclass(frozen=True)
class News:
    """What somebody is to be told."""

    kind: str  # of model.NEWS
    name: str
    text: str
    event: Event


def news_of(event: Event) -> News | None:
    """None for what nobody is told. Its text is the agent's, or anybody's who writes to the journal."""
    kind = "waiting" if (event.event, event.mark) == ("mark", "waiting") else event.event
    if kind not in model.NEWS or event.status == model.STOPPED:  # somebody asked for that end
        return None
    try:
        return News(kind, model.check_name(event.name), _clean(event.text), event)
    except UsageError:
        return None


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:TEXT_MAX]


def follow(report: Callable[[str], None]) -> None:
    """Until SIGTERM, and then not before what is being told is told. Raises Busy when there is another one."""

    async def run() -> None:
        task = asyncio.current_task()
        assert task
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        since = _cursor()
        tell_systemd("READY=1")
        async with aclosing(events([], since)) as stream:
            async for event in stream:
                if news := news_of(event):
                    # Before it is told: rather never than twice. Telling blocks, so that no signal comes between.
                    store.write_atomically(cursor_file(), event.cursor + "\n")
                    if time.time() - event.time < STALE_SEC:
                        _tell(news, report)

    with _alone():
        try:
            asyncio.run(run())
        except asyncio.CancelledError:
            pass


@contextmanager
def _alone() -> Iterator[None]:
    path = paths.state_dir() / "notify.lock"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(path, "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy("another 'kildsvc notify' is running", "systemctl --user status kildsvc-notify") from None
        yield


def _cursor() -> str | None:
    """Where the last one has left off; for the first one where the journal ends now. None for an empty journal."""
    try:
        known = cursor_file().read_text().strip()
    except (FileNotFoundError, UnicodeDecodeError):
        known = ""
    if not _CURSOR.fullmatch(known):
        last = next(journal.read([], "--lines=1"), None)
        if not last:
            return None
        known = last.cursor
        store.write_atomically(cursor_file(), known + "\n")
    return known


def _tell(news: News, report: Callable[[str], None]) -> None:
    try:
        settings = config.load()
        if is_wanted(news, settings):
            for problem in tell(news, settings):
                report(f"{news.name}: {problem}, ignoring")
    except KildError as error:
        report(f"{error.message}, ignoring")


def is_wanted(news: News, settings: config.Config) -> bool:
    """As the session says; where it says nothing, as the settings do."""
    metadata = store.load(news.name)
    asked = metadata.notify if metadata and metadata.notify is not None else settings.get("notify", "all")
    kinds = settings.get("notify", "on")
    return asked is not False and news.kind in (model.NEWS if kinds is None else kinds)


def tell(news: News, settings: config.Config) -> list[str]:
    """To the desktop and to the user's command, as the settings say. Returns what went wrong."""
    problems = []
    if settings.get("notify", "desktop") is not False:
        body = html.escape(news.text, quote=False)  # markup, which is not the agent's to give
        values = ["kildsvc", "0", "utilities-terminal", news.name, body, "0", "0", "-1"]
        problems.append(_run("the desktop", [*_DESKTOP, *_NOTIFY, *values], {}))
    if command := settings.get("notify", "command"):
        # The name comes first, so that no text of an agent's can be taken for an option.
        argv = [os.path.expanduser(command[0]), *command[1:], f"{news.name}: {news.text}"]
        problems.append(_run(f"'{command[0]}'", argv, _told(news)))
    return [problem for problem in problems if problem]


def tell_once(text: str) -> list[str]:
    """Whether it would arrive. Returns what went wrong."""
    return tell(News("bell", "test", text, Event("", time.time(), "test", "bell", "", text)), config.load())


def _told(news: News) -> dict[str, str]:
    """Not KILD_SESSION: with it a command would believe itself inside the session."""
    code = news.event.exit_code
    return {
        "KILD_NAME": news.name,
        "KILD_EVENT": news.kind,
        "KILD_TEXT": news.text,
        "KILD_AGENT": _clean(news.event.agent),
        "KILD_RUN": _clean(news.event.run),
        "KILD_STATUS": news.event.status or "",
        "KILD_EXIT_CODE": "" if code is None else str(code),
    }


def _run(who: str, command: list[str], env: dict[str, str]) -> str:
    """Empty when it went well. What the command says goes where ours does: to the journal."""
    private = ("NOTIFY_SOCKET", "KILD_SESSION")
    kept = {key: value for key, value in os.environ.items() if key not in private}
    try:
        done = subprocess.run(command, env={**kept, **env}, stdin=subprocess.DEVNULL, timeout=TELL_SEC)
    except OSError as error:
        return f"{who} was not told: {command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{who} was not told: it took longer than {TELL_SEC} s"
    return f"{who} was not told: exit code {done.returncode}" if done.returncode else ""
