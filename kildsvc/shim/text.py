"""Terminal output as text a person reads: escapes gone, progress lines collapsed, every line whole."""

import codecs
import re

# Sequences a terminal acts on and does not show (ECMA-48): CSI, strings (OSC, DCS, SOS, PM, APC), and the
# short escapes.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])")
# A sequence whose end has not arrived yet.
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_STRING_END = re.compile(r"\x07|\x1b\\")
# What journalctl would call a blob: controls other than tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BYTES = bytes([*range(9), *range(11, 32), 127])
_ERASED = re.compile(r"[^\x08\n]\x08")

# A line without an end is passed on in pieces of about this size.
LINE_MAX = 16 * 1024
# Beyond this a string sequence (an image, say) is no longer kept, only its end waited for.
SEQUENCE_MAX = 64 * 1024


class Cleaner:
    """Bytes in, whole lines out; what is not a whole line yet is kept."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line = ""  # the unfinished line
        self._sequence = ""  # the unfinished escape sequence after it
        self._in_string = False  # inside a string sequence too long to keep

    @property
    def between_lines(self) -> bool:
        return not (self._line or self._sequence or self._in_string)

    def feed(self, data: bytes, final: bool = False) -> str:
        """The lines that are complete now, joined by newlines, without a newline at the end."""
        text = self._sequence + self._decode(data, final)
        self._sequence = ""
        if self._in_string:
            end = _STRING_END.search(text)
            if not end:
                return ""
            text, self._in_string = text[end.end() :], False
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
            text = self._line + self._take_unfinished(text)
        else:
            text = self._line + text
        at = len(text) if final or len(text) - text.rfind("\n") > LINE_MAX else text.rfind("\n") + 1
        self._line = text[at:]
        if final:
            self._sequence, self._in_string = "", False
        return tidy(text[:at])

    def _take_unfinished(self, text: str) -> str:
        unfinished = _UNFINISHED.search(text, max(0, text.find("\x1b"))) if "\x1b" in text else None
        if not unfinished:
            return text
        sequence = unfinished.group()
        if len(sequence) > SEQUENCE_MAX:
            self._in_string = True
        else:
            self._sequence = sequence
        return text[: unfinished.start()]


def tidy(text: str) -> str:
    """Of each line what a terminal would show in the end: carriage returns and backspaces applied."""
    text = text.replace("\r\n", "\n")
    while "\x08" in text:
        text, count = _ERASED.subn("", text)
        if not count:
            break
    if "\r" in text:
        text = "\n".join(_shown(line) for line in text.split("\n"))
    if text.isascii():  # four times as fast as the expression
        return text.encode().translate(None, _CONTROL_BYTES).decode().removesuffix("\n")
    return _CONTROL.sub("", text).removesuffix("\n")


def _shown(line: str) -> str:
    # "10%\r20%\r": the last part that is not empty is what stands there.
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""
