"""The state of a terminal beside its cells: what must be set to restore it, and unset to leave it as it was.

Scans output for the few sequences that change it; cells are none of its business.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SEQUENCE = re.compile(
    rb"\x1b(?!\[[0-9;]*+[@-Zdm])(?:"  # colours and movements, by far the most: passed over quickly
    rb"\[\?([0-9;]{1,64})([hl])"  # 1, 2: private modes
    rb"|\[([<>=])([0-9;]{0,16})u"  # 3, 4: kitty keyboard protocol
    rb"|\[>([0-9;]{0,16})m"  # 5: modifyOtherKeys
    rb"|\[([0-9]?) q"  # 6: cursor style
    rb"|\[([0-9;]{0,16})r"  # 7: scroll region
    rb"|\](?:0|2);([^\x07\x1b]{0,256})(?:\x07|\x1b\\)"  # 8: title
    rb"|\[2([23])(?:;[02])?(?:;[0-9]*)?t"  # 9: title saved, restored
    rb"|(\[!p|[=>c])"  # 10: resets, keypad
    rb")"
)
# A sequence we look for is not longer than this.
SEQUENCE_MAX = 300

# Private modes that outlive the program if nobody resets them. Off is the default for each of these …
_OFF = {1, 5, 6, 9, 66, 1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2026, 2031, 2048}
# … and on for these: autowrap, visible cursor.
_ON = {7, 25}
_ALTERNATE = {47, 1047, 1049}
_MOUSE = {9, 1000, 1002, 1003}


def unfinished(data: bytes, start: int) -> int:
    """Where a sequence begins that may go on beyond the data, looked for from `start` on; -1: there is none."""
    start = max(start, len(data) - SEQUENCE_MAX)
    at = data.rfind(b"\x1b", start)
    if at == len(data) - 1:  # may be the end of a string (ESC \\), which began earlier
        before = data.rfind(b"\x1b", start, at)
        if before >= 0 and data[before + 1 : before + 2] in (b"]", b"P"):
            return before
    return at


class Modes:
    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self.private: set[int] = set(state.get("private", ()))  # those that are not at their default
        self.alternate: int = state.get("alternate", 0)  # the mode that switched the screen, 0: primary
        self.keypad: bool = state.get("keypad", False)
        # The keyboard protocol has a stack for each screen.
        self.kitty: list[list[int]] = [list(stack) for stack in state.get("kitty", ([], []))]
        self.other_keys: int = state.get("other_keys", 0)
        self.cursor_style: int = state.get("cursor_style", 0)
        self.region: str = state.get("region", "")
        self.title: str = state.get("title", "")
        self.titles: list[str] = list(state.get("titles", ()))  # saved ones
        self._carry = b""

    def state(self) -> dict[str, Any]:
        """As JSON can hold it; only what differs from a fresh terminal."""
        every = {
            "private": sorted(self.private),
            "alternate": self.alternate,
            "keypad": self.keypad,
            "kitty": self.kitty if any(self.kitty) else [],
            "other_keys": self.other_keys,
            "cursor_style": self.cursor_style,
            "region": self.region,
            "title": self.title,
            "titles": self.titles,
        }
        return {key: value for key, value in every.items() if value}

    def feed(self, data: bytes) -> None:
        data = self._carry + data
        end = 0
        for match in _SEQUENCE.finditer(data):
            self._apply(match)
            end = match.end()
        at = unfinished(data, end)
        self._carry = data[at:] if at >= 0 else b""

    def _apply(self, match: re.Match[bytes]) -> None:
        modes, switch, kitty, flags, other, style, region, title, stack, rest = match.groups()
        if modes is not None:
            for mode in modes.split(b";"):
                self._set(int(mode or 0), switch == b"h")
        elif kitty is not None:
            self._keyboard(kitty, [int(n or 0) for n in flags.split(b";")])
        elif other is not None:
            numbers = [int(n or 0) for n in other.split(b";")]
            if numbers[0] == 4:
                self.other_keys = numbers[1] if len(numbers) > 1 else 0
        elif style is not None:
            self.cursor_style = int(style or 0)
        elif region is not None:
            self.region = region.decode()
        elif title is not None:
            self.title = title.decode(errors="replace")
        elif stack == b"2":
            self.titles = [*self.titles, self.title][-10:]
        elif stack == b"3":
            self.title = self.titles.pop() if self.titles else self.title
        elif rest in (b"=", b">"):
            self.keypad = rest == b"="
        else:  # RIS; DECSTR leaves the screen and the title alone
            title_before, alternate = self.title, self.alternate if rest == b"[!p" else 0
            self.__init__({"title": title_before, "alternate": alternate})  # type: ignore[misc]

    def _set(self, mode: int, on: bool) -> None:
        if mode in _ALTERNATE:
            self.alternate = mode if on else 0
        elif mode in _OFF or mode in _ON:
            if on and mode in _MOUSE:
                self.private -= _MOUSE
            (self.private.add if on == (mode in _OFF) else self.private.discard)(mode)

    def _keyboard(self, kind: bytes, numbers: list[int]) -> None:
        stack = self.kitty[bool(self.alternate)]
        if kind == b">":
            stack.append(numbers[0])
            del stack[:-16]
        elif kind == b"<":
            del stack[max(0, len(stack) - max(1, numbers[0])) :]
        else:
            how = numbers[1] if len(numbers) > 1 else 1
            current = stack.pop() if stack else 0
            stack.append(numbers[0] if how == 1 else current | numbers[0] if how == 2 else current & ~numbers[0])

    def report(self, mode: int) -> int:
        """DECRQM's answer: 1 set, 2 reset, 0 not known."""
        if mode in _ALTERNATE:
            return 1 if self.alternate else 2
        if mode not in _OFF and mode not in _ON:
            return 0
        return 1 if (mode in self.private) == (mode in _OFF) else 2

    def copy(self) -> Modes:
        other = Modes(self.state())
        other._carry = self._carry
        return other

    @property
    def held(self) -> int:
        """How many of the bytes fed may belong to a sequence that goes on."""
        return len(self._carry)

    def setting(self) -> bytes:
        """What brings a fresh terminal into this state; the screen has been switched already."""
        out = [f"\x1b[?{mode}{'h' if mode in _OFF else 'l'}" for mode in sorted(self.private - {2026})]
        out += ["\x1b="] if self.keypad else []
        out += [f"\x1b[>{flags}u" for flags in self.kitty[bool(self.alternate)]]
        out += [f"\x1b[>4;{self.other_keys}m"] if self.other_keys else []
        out += [f"\x1b[{self.cursor_style} q"] if self.cursor_style else []
        out += [f"\x1b]2;{self.title}\x07"] if self.title else []
        return "".join(out).encode(errors="replace")

    def resetting(self) -> bytes:
        """What brings a terminal in this state back to a fresh one, with the primary screen."""
        out = []
        stacks = [self.kitty[1]] if self.alternate else []
        if stacks and stacks[0]:
            out.append(f"\x1b[<{len(stacks[0])}u")
        out += [f"\x1b[?{mode}{'l' if mode in _OFF else 'h'}" for mode in sorted(self.private)]
        if self.alternate:
            out.append(f"\x1b[?{self.alternate}l")
        if self.kitty[0]:
            out.append(f"\x1b[<{len(self.kitty[0])}u")
        out += ["\x1b>"] if self.keypad else []
        out += ["\x1b[>4m"] if self.other_keys else []
        out += ["\x1b[0 q"] if self.cursor_style else []
        # Resetting the region moves the cursor home, so it is kept around it.
        out += ["\x1b7\x1b[r\x1b8"] if self.region else []
        return "".join([*out, "\x1b[m"]).encode()
