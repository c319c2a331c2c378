"""A line that tells a person what is being waited for, when it takes longer than a moment."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from kildsvc import progress
from kildsvc.cli import render

MOMENT_SEC = 0.3
FRAME_SEC = 0.1


def install() -> None:
    if sys.stderr.isatty():
        progress.shown = _spin


@contextmanager
def _spin(what: str) -> Iterator[None]:
    done = Event()
    thread = Thread(target=_draw, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _draw(what: str, done: Event) -> None:
    frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if sys.stderr.encoding == "utf-8" else "|/-\\"
    began, number = time.monotonic(), 0
    if done.wait(MOMENT_SEC):
        return
    while not done.wait(FRAME_SEC):
        sec = int(time.monotonic() - began)
        render.progress(f"{frames[number % len(frames)]} waiting for {what}{f', {sec} s' if sec else ''}")
        number += 1
    render.progress("")
