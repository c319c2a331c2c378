"""Terminal output as text a person reads: escapes gone, progress lines collapsed, every line whole."""

import codecs
import re

# What a terminal acts on and does not show (ECMA-48): CSI, strings (OSC, DCS, SOS, PM, APC), short escapes. Every
# part after ESC is optional, so that a broken sequence is taken as far as it goes, and nothing is looked at twice.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]+[0-~]?|[0-OQ-WYZ\\`-~])?"
)
# A sequence that may go on; ESC within it begins another one, except as the beginning of a string's end (ESC \).
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_STRING_END = re.compile(r"\x07|\x1b")
# What journalctl would call a blob: controls other than tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BYTES = bytes([*range(9), *range(11, 32), 127])

# A line without an end is passed on in pieces of about this size.
LINE_MAX = 16 * 1024
# Beyond this a string sequence (an image, say) is no longer kept, only its end waited for.
SEQUENCE_MAX = 64 * 1024


class Cleaner:
    """Bytes in, whole lines out; what is not a whole line yet is kept."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""  # the unfinished line
        self._sequence = ""  # the unfinished escape sequence after it
        self._in_string = False  # inside a string sequence too long to keep

    @property
    def between_lines(self) -> bool:
        return not (self._line or self._sequence or self._in_string or self._decoder.getstate()[0])

    def feed(self, data: bytes, final: bool = False) -> str:
        """The lines that are complete now, each with its newline; at the end whatever there is."""
        text = self._sequence + self._decoder.decode(data, final)
        self._sequence = ""
        if self._in_string:
            end = _STRING_END.search(text)
            self._in_string = not end
            text = text[end.start() :] if end else ""
        if "\x1b" in text:
            text = _ESCAPE.sub("", self._hold_unfinished(text))
        if final:
            self._sequence, self._in_string = "", False
        text = self._line + text
        at = len(text) if final or len(text) - text.rfind("\n") > LINE_MAX else text.rfind("\n") + 1
        self._line = text[at:]
        return tidy(text[:at])

    def _hold_unfinished(self, text: str) -> str:
        """The text without a sequence at its end that more is to come of."""
        at = text.rfind("\x1b")
        if at == len(text) - 1:
            before = text.rfind("\x1b", 0, at)
            at = before if before >= 0 and _UNFINISHED.match(text, before) else at
        if not _UNFINISHED.match(text, at):
            return text
        if len(text) - at <= SEQUENCE_MAX:
            self._sequence = text[at:]
        elif text[at + 1] != "[":
            self._in_string = True
        else:
            return text  # no terminal has numbers of that length: let it show
        return text[:at]


def tidy(text: str) -> str:
    """Of each line what a terminal would show in the end: carriage returns and backspaces applied."""
    text = text.replace("\r\n", "\n")
    if "\r" in text or "\x08" in text:
        text = "\n".join(_shown(line) for line in text.split("\n"))
    if text.isascii():  # four times as fast as the expression
        return text.encode().translate(None, _CONTROL_BYTES).decode()
    return _CONTROL.sub("", text)


def _shown(line: str) -> str:
    # "10%\r20%\r": the last part that is not empty is what stands there.
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part), "")
    if "\x08" not in line:
        return line
    kept: list[str] = []
    for char in line:
        if char != "\x08":
            kept.append(char)
        elif kept:
            kept.pop()
    return "".join(kept)
