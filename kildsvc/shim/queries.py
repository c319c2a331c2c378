"""Questions that programs put to their terminal, answered as a plain xterm would while nobody is attached."""

from __future__ import annotations

import re

from kildsvc.shim.modes import Modes, unfinished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

QUERY = re.compile(
    rb"\x1b(?!\[[0-9;]*+[@-Zdm])(?:"  # colours and movements, by far the most: passed over quickly
    rb"\[(?:([>=?]?)([0-9;]{0,8})([cn])"  # 1-3: device attributes, status reports
    rb"|>0?(q)"  # 4: version
    rb"|\?(u)"  # 5: keyboard protocol
    rb"|(\??)([0-9]{1,5})\$(p)"  # 6-8: is this mode set?
    rb"|(18t))"  # 9: size in characters
    rb"|\](1[0-2]|4;[0-9]{1,3});\?(\x07|\x1b\\)"  # 10, 11: colours
    rb"|P([+$]q)[^\x1b\x07]{0,256}\x1b\\"  # 12: terminfo, settings
    rb")"
)
# What a bare VT220-class xterm says of itself: 22 is colour.
_ATTRIBUTES = {b"": b"\x1b[?62;22c", b">": b"\x1b[>41;390;0c", b"=": b"\x1bP!|00000000\x1b\\"}
_COLOURS = {b"10": "cccc/cccc/cccc", b"11": "0000/0000/0000", b"12": "cccc/cccc/cccc"}
_PALETTE = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)


class Answerer:
    def __init__(self, version: str) -> None:
        self._version = version
        self._carry = b""

    def skip(self) -> None:
        """Somebody's terminal answers these."""
        self._carry = b""

    def feed(self, data: bytes, look: Callable[[], tuple[Modes, int, int, bytes]]) -> bytes:
        """Replies to what the data asks. `look` gives modes, rows, columns and the output up to the data's end."""
        if not self._carry and b"\x1b" not in data:
            return b""
        data = self._carry + data
        end, replies = 0, []
        for match in QUERY.finditer(data):
            end = match.end()
            replies.append(self._answer(match, data, look))
        at = unfinished(data, end)
        self._carry = data[at:] if at >= 0 else b""
        return b"".join(replies)

    def _answer(
        self, match: re.Match[bytes], data: bytes, look: Callable[[], tuple[Modes, int, int, bytes]]
    ) -> bytes:
        prefix, number, final, version, keyboard, private, mode, _, size, colour, bell, setting = match.groups()
        if final == b"c":
            return _ATTRIBUTES.get(prefix, b"") if number in (b"", b"0") else b""
        if final == b"n" and number == b"5" and prefix == b"":
            return b"\x1b[0n"
        if final == b"n" and number == b"996" and prefix == b"?":
            return b"\x1b[?997;1n"  # dark
        if final == b"n" and number == b"6" and prefix in (b"", b"?"):
            _, rows, cols, output = look()
            row, col = cursor(output[: len(output) - (len(data) - match.start())], rows, cols)
            return b"\x1b[%s%d;%d%sR" % (prefix, row, col, b";1" if prefix else b"")
        if version:
            return f"\x1bP>|kildsvc({self._version})\x1b\\".encode()
        if keyboard:
            modes = look()[0]
            stack = modes.kitty[bool(modes.alternate)]
            return b"\x1b[?%du" % (stack[-1] if stack else 0)
        if mode:
            value = look()[0].report(int(mode)) if private else 0
            return b"\x1b[%s%s;%d$y" % (private, mode, value)
        if size:
            _, rows, cols, _ = look()
            return b"\x1b[8;%d;%dt" % (rows, cols)
        if colour:
            rgb = _COLOURS.get(colour) or _palette(int(colour[2:]))
            return b"\x1b]%s;rgb:%s%s" % (colour, rgb.encode(), bell)
        return b"\x1bP0+r\x1b\\" if setting == b"+q" else b"\x1bP0$r\x1b\\" if setting else b""


def _palette(index: int) -> str:
    if index < 16:
        colour = _PALETTE.split()[index]
    elif index < 232:
        steps = [0, 95, 135, 175, 215, 255]
        index -= 16
        colour = "".join(f"{steps[n]:02x}" for n in (index // 36, index // 6 % 6, index % 6))
    else:
        colour = f"{min(255, 8 + (index - 232) * 10):02x}" * 3
    return "/".join(colour[i : i + 2] * 2 for i in (0, 2, 4))


_STEP = re.compile(
    rb"\x1b\[([0-9;]*)([A-HfGdJ`ae])|\x1b(7|8|c|M|D|E)|\x1b\[(s|u)|(\r)|(\n|\x0b|\x0c)|(\x08)|(\t)"
    rb"|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x1f]"
    rb"|([^\x00-\x1f\x7f]+)"
)
# The cursor's place is worked out from so much of the latest output: a program that asks has just placed it.
TRACE = 16 * 1024


def cursor(output: bytes, rows: int, cols: int) -> tuple[int, int]:
    """Where the cursor is after this output, from 1: good for programs that ask where they begin to draw."""
    rows, cols = rows or 24, cols or 80  # any program may say that it has none
    row, col = 1, 1
    saved = (1, 1)
    for match in _STEP.finditer(output[-TRACE:]):
        numbers, final, escape, keep, cr, lf, bs, tab, text = match.groups()
        if text:
            width = len(text.decode(errors="replace"))
            row, col = row + (col - 1 + width - 1) // cols, (col - 1 + width - 1) % cols + 2
            if col > cols:
                col = cols  # the wrap is pending
        elif cr:
            col = 1
        elif lf or escape in (b"D", b"E"):
            row, col = row + 1, 1 if escape == b"E" else col
        elif bs:
            col = max(1, col - 1)
        elif tab:
            col = min(cols, (col - 1) // 8 * 8 + 9)
        elif final:
            row, col = _move(final, numbers, row, col)
        elif escape == b"7" or keep == b"s":
            saved = row, col
        elif escape == b"8" or keep == b"u":
            row, col = saved
        elif escape == b"c":
            row, col = 1, 1
        elif escape == b"M":
            row -= 1
        row, col = min(rows, max(1, row)), min(cols, max(1, col))
    return row, col


def _move(final: bytes, numbers: bytes, row: int, col: int) -> tuple[int, int]:
    given = [int(n[:5]) if n else 0 for n in numbers.split(b";")]
    n = max(1, given[0])
    if final in b"Hf":
        return n, max(1, given[1]) if len(given) > 1 else 1
    return {
        b"A": (row - n, col),
        b"B": (row + n, col),
        b"e": (row + n, col),
        b"C": (row, col + n),
        b"a": (row, col + n),
        b"D": (row, col - n),
        b"E": (row + n, 1),
        b"F": (row - n, 1),
        b"G": (row, n),
        b"`": (row, n),
        b"d": (n, col),
    }.get(final, (row, col))
