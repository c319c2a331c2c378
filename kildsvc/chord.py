"""The detach keys: recognised in what the user types, however the terminal encodes them."""

import re

DEFAULT = "ctrl-space ctrl-q"
_KEY = re.compile(r"ctrl-(space|[a-z\\\]^_@])\Z")


def parse(chord: str) -> list[list[bytes]]:
    """For each key of the chord the byte sequences that mean it. Raises ValueError."""
    keys = []
    for key in chord.lower().split():
        match = _KEY.match(key)
        if not match:
            raise ValueError(f"'{key}' is not a key like ctrl-q or ctrl-space")
        char = " " if match[1] in ("space", "@") else match[1]
        code = 0 if char == " " else ord(char.upper()) & 0x1F
        # Plain byte; kitty's CSI u (press, with or without event type and lock modifiers); modifyOtherKeys.
        forms = [bytes([code])]
        for modifier in (5, 5 + 64, 5 + 128, 5 + 192):
            forms += [
                f"\x1b[{ord(char)};{modifier}u".encode(),
                f"\x1b[{ord(char)};{modifier}:1u".encode(),
                f"\x1b[27;{modifier};{ord(char)}~".encode(),
            ]
        keys.append(forms)
    if not keys:
        raise ValueError("no keys given")
    return keys


# How long to wait for the rest: of one key (its bytes come together), of the chord (somebody types).
KEY_SEC = 0.03
CHORD_SEC = 0.5


# No key is encoded in more bytes.
FORM_MAX = 16


class Chord:
    """Bytes in; bytes for the agent out, and whether the chord was completed. A partial chord is passed on."""

    def __init__(self, chord: str = DEFAULT) -> None:
        self._keys = parse(chord)
        self._begins = re.compile(b"[%s]" % re.escape(bytes({form[0] for form in self._keys[0]})))
        self._held = b""
        self._within_key = False

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        data, self._held = self._held + data, b""
        passed = bytearray()
        at = 0
        while begin := self._begins.search(data, at):
            passed += data[at : begin.start()]
            at = begin.start()
            length = self._match(data, at)
            if length > 0:
                return bytes(passed), True
            if length < 0:  # may still become the chord
                self._held = data[at:]
                return bytes(passed), False
            passed.append(data[at])
            at += 1
        return bytes(passed + data[at:]), False

    @property
    def patience_sec(self) -> float | None:
        """How long what is held back may wait; None: nothing is."""
        if not self._held:
            return None
        # A lone ESC looks like the beginning of a key, and nobody must feel that it was held.
        return KEY_SEC if self._within_key else CHORD_SEC

    def release(self) -> bytes:
        """What was held back, when nothing more has come."""
        held, self._held = self._held, b""
        return held

    def _match(self, data: bytes, at: int) -> int:
        """Length of the chord at that place; 0: it is not there; -1: so far it is."""
        start = at
        last: list[bytes] = []  # what may come between: the key before repeated, or let go
        for forms in self._keys:
            while found := next((form for form in last if data.startswith(form, at)), None):
                at += len(found)
            form = next((form for form in forms if data.startswith(form, at)), None)
            if form is None:
                rest = data[at : at + FORM_MAX]
                partial = any(form.startswith(rest) for form in forms + last)
                self._within_key = bool(rest)
                return -1 if partial else 0
            at += len(form)
            last = [
                form.replace(b":1u", event) for form in forms if form.endswith(b":1u") for event in (b":2u", b":3u")
            ]
        return at - start
