"""Keys by name, as bytes a terminal would send for them."""

from kildsvc.errors import UsageError

_NAMED = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "esc": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "bspace": "\x7f",
    "insert": "\x1b[2~",
    "delete": "\x1b[3~",
    "pageup": "\x1b[5~",
    "pgup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "pgdn": "\x1b[6~",
    "btab": "\x1b[Z",
}
# With "application cursor keys" on, these begin with ESC O instead of ESC [.
_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_FUNCTION = {
    f"f{number}": code
    for number, code in enumerate(
        ["OP", "OQ", "OR", "OS", "[15~", "[17~", "[18~", "[19~", "[20~", "[21~", "[23~", "[24~"], start=1
    )
}
# The longest is M-C-backspace or so.
KEY_MAX = 24
HINT = "keys are like C-c, M-x, Up, Enter, Tab, Escape, F1, or a single character"


def encode(keys: str, application: bool = False) -> bytes:
    """Keys in tmux's spelling, separated by blanks: `C-c Up Enter F1 M-x`. Raises UsageError."""
    return "".join(_key(key, application) for key in keys.split()).encode(errors="surrogateescape")


def _key(key: str, application: bool) -> str:
    if len(key) > KEY_MAX:
        raise UsageError(f"'{key[:KEY_MAX]}…' is no key", HINT)
    name = key.lower()
    if name in _NAMED:
        return _NAMED[name]
    if name in _CURSOR:
        return ("\x1bO" if application else "\x1b[") + _CURSOR[name]
    if name in _FUNCTION:
        return "\x1b" + _FUNCTION[name]
    if name.startswith("c-") and len(key) > 2:
        rest = name[2:]
        if rest in ("space", "@"):
            return "\0"
        if len(rest) == 1 and rest.isascii() and "@" <= rest.upper() <= "_":
            return chr(ord(rest.upper()) & 0x1F)
    if name.startswith("m-") and len(key) > 2:
        return "\x1b" + _key(key[2:], application)
    if len(key) == 1:
        return key
    raise UsageError(f"'{key}' is no key", HINT)
