"""Stand-ins for agents with a TUI: frames with a spinner and a counter while transcript lines go by.

standin.py STYLE [ROWS [FRAMES_PER_SECOND]]: plays one on the terminal. The tests take the bytes themselves.
"""

import sys
import time
from collections.abc import Callable, Iterator

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LINES = 500
WORDS = ["reading", "editing", "testing", "planning", "searching", "building", "checking", "writing"]


def transcript(count: int = LINES) -> list[str]:
    """No two alike, and none that looks like a part of a frame."""
    extra = ("", " — grün", " 日本語", " 🙂 ok", " …" + " and more" * 5)
    return [f"{i:03} {WORDS[i % 8]} src/module_{i % 17}.py{extra[i % 5]}" for i in range(count)]


def frame(number: int, height: int) -> list[str]:
    """As agents have it: a box with what it does, a prompt, a status line."""
    spin = SPINNER[number % len(SPINNER)]
    head = [f"{spin} Thinking… ({number // 10}s · {number * 37} tokens)", "╭" + "─" * 40 + "╮"]
    body = [f"│ task {i:02} {'█' * ((number + i) % 9):<9} {'':20}│" for i in range(height - 5)]
    return [*head, *body, "│ > type here" + " " * 28 + "│", "╰" + "─" * 40 + "╯", f"  {number} frames · ? for help"]


def batches(lines: list[str]) -> Iterator[list[str]]:
    """Some lines with each frame, often none: 0, 1, 2, 0, 3 …"""
    at, turn = 0, 0
    while at < len(lines):
        count = (0, 1, 2, 0, 3, 1)[turn % 6]
        yield lines[at : at + count]
        at, turn = at + count, turn + 1


def coloured(line: str) -> str:
    return f"\x1b[1m{line[:3]}\x1b[0m\x1b[38;5;42m{line[3:]}\x1b[39m"


def ink(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """Erases its lines one by one on the way up, then prints everything anew."""
    drawn = 0
    yield "\x1b[?25l\x1b[?2004h"
    for number, batch in enumerate(batches(lines)):
        yield "\x1b[2K" + "\x1b[1A\x1b[2K" * drawn + "\x1b[G"
        yield "".join(coloured(line) + "\r\n" for line in batch)
        shown = frame(number, height)
        yield "\r\n".join(f"\x1b[2m{row}\x1b[22m" for row in shown) + "\r\n"
        drawn = len(shown)
    yield "\x1b[?25h"


def up_and_erase(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """Up, erase to the end, print."""
    for number, batch in enumerate(batches(lines)):
        if number:
            yield f"\r\x1b[{height - 1}A\x1b[J"
        yield "".join(coloured(line) + "\r\n" for line in batch)
        yield "\r\n".join(frame(number, height))
    yield "\r\n"


def in_place(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """Redraws only spinner and counter most of the time, the whole frame when there are lines."""
    for number, batch in enumerate(batches(lines)):
        shown = frame(number, height)
        if number and not batch:
            yield f"\x1b[{height}F\x1b[K{shown[0]}\x1b[{height - 1}E\x1b[2K{shown[-1]}\r\n"
            continue
        if number:
            yield f"\x1b[{height}F\x1b[0J"
        yield "".join(f"{row}\r\n" for row in [*map(coloured, batch), *shown])


def above_by_region(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """As codex and ratatui do: the frame stays at the bottom, lines scroll a region above it."""
    height = min(height, rows - 3)
    top = rows - height
    yield "\r\n" * (height - 1) + f"\x1b[{top + 1};1H\x1b[J"
    for number, batch in enumerate(batches(lines)):
        if batch:
            yield f"\x1b[1;{top}r\x1b[{top};1H"
            yield "".join(f"\r\n{coloured(line)}\x1b[K" for line in batch) + "\x1b[r"
        for at, row in enumerate(frame(number, height)):
            yield f"\x1b[{top + 1 + at};1H{row}\x1b[K"
        yield f"\x1b[{rows - 2};13H"
    yield f"\x1b[{rows};1H\r\n"


def cleared(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """As Ink does with a frame higher than the screen: clears all and prints the whole transcript again."""
    shown: list[str] = []
    for number, batch in enumerate(batches(lines)):
        shown += batch
        yield "\x1b[2J\x1b[3J\x1b[H" if number else ""
        yield "".join(f"{row}\r\n" for row in [*shown, *frame(number, height)])


def alternate(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """A full screen, each row painted anew for each frame: title, transcript, frame."""
    height = min(height, rows // 3)
    seen: list[str] = []
    yield "\x1b[?1049h\x1b[2J"
    for number, batch in enumerate(batches(lines)):
        seen += batch
        view = rows - height - 1
        part = [*seen[-view:], *[""] * view][:view]
        for at, row in enumerate(["A title", *map(coloured, part), *frame(number, height)]):
            yield f"\x1b[{at + 1};1H\x1b[K{row}"
        yield f"\x1b[{rows - 2};13H"
    yield "\x1b[?1049l"


def alternate_erased(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """The same, but the screen is erased first, and the frame painted before the transcript."""
    height = min(height, rows // 3)
    seen: list[str] = []
    yield "\x1b[?1049h"
    for number, batch in enumerate(batches(lines)):
        seen += batch
        view = rows - height
        yield "\x1b[2J"
        for at, row in enumerate(frame(number, height)):
            yield f"\x1b[{view + at + 1};1H{row}"
        yield "\x1b[H" + "\r\n".join(map(coloured, seen[-view:]))
    yield "\x1b[?1049l"


def alternate_by_region(lines: list[str], rows: int, height: int) -> Iterator[str]:
    """A title, a region that scrolls, a frame below it."""
    height = min(height, rows // 3)
    last = rows - height
    yield "\x1b[?1049h\x1b[H\x1b[2JA title"
    for number, batch in enumerate(batches(lines)):
        if batch:
            yield f"\x1b[2;{last}r\x1b[{last};1H"
            yield "".join(f"\n\r{coloured(line)}" for line in batch) + "\x1b[r"
        for at, row in enumerate(frame(number, height)):
            yield f"\x1b[{last + 1 + at};1H{row}\x1b[K"
    yield "\x1b[?1049l"


STYLES: dict[str, Callable[[list[str], int, int], Iterator[str]]] = {
    style.__name__.replace("_", "-"): style
    for style in (
        ink,
        up_and_erase,
        in_place,
        above_by_region,
        cleared,
        alternate,
        alternate_erased,
        alternate_by_region,
    )
}


def main(style: str, rows: str = "24", rate: str = "10") -> None:
    for piece in STYLES[style](transcript(), int(rows), 30):
        sys.stdout.write(piece)
        if SPINNER[0] in piece or any(char in piece for char in SPINNER):
            sys.stdout.flush()
            time.sleep(1 / float(rate))


if __name__ == "__main__":
    main(*sys.argv[1:])
