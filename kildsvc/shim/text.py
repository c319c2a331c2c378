"""Terminal output as text a person reads: escapes gone, progress lines collapsed, every line whole."""

from __future__ import annotations

import codecs
import re

# Here and not where they are needed: what is loaded before the waiter is forked, the two share.
from kildsvc.shim.lines import IGNORED, Lines

# What a terminal acts on and does not show (ECMA-48): CSI, strings (OSC, DCS, SOS, PM, APC), short escapes. Every
# part after ESC is optional, so that a broken sequence is taken as far as it goes, and nothing is looked at twice.
_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]+[0-~]?|[0-OQ-WYZ\\`-~])?"
)
# The same but for those that move the cursor (below): where an ESC is left after this one, there are some.
_HARMLESS = re.compile(
    r"\x1b(?:\[(?!\?(?:47|1047|1049)[hl])[0-?]*+[ -/]*+(?![ACDFGHLMSTdfr])[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|[ -/]+[0-~]?|[0-LNOQ-WYZ\\`-~]|(?![\[M]))"
)
# A sequence that may go on; ESC within it begins another one, except as the beginning of a string's end (ESC \).
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_STRING_END = re.compile(r"\x07|\x1b")
# The cursor leaves its line, and lines that were written may change: up, to an address, scrolled, the other screen.
_LEAVES_LINE = re.compile(r"\x1b(?:\[(?:[0-9;]*[AFHLMSTdfr]|\?(?:47|1047|1049)[hl])|M)")
# The same, and moves within the line: right, left, to a column.
_MOVES = re.compile(r"\x1b(?:\[(?:([0-9]*)([CDG])|[0-9;]*[AFHLMSTdfr]|\?(?:47|1047|1049)[hl])|M)")
_SCREEN = re.compile(r"\x1b\[\?(?:47|1047|1049)[hl]")
# What journalctl would call a blob: controls other than tab and newline.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BYTES = bytes([*range(9), *range(11, 32), 127])

# A line without an end is passed on in pieces of about this size.
LINE_MAX = 16 * 1024
# Beyond this a string sequence (an image, say) is no longer kept, only its end waited for.
SEQUENCE_MAX = 64 * 1024
# Lines gone by, for when the cursor goes back to them.
TAIL_MAX = 8 * 1024
# What entering the model of the screen costs, in bytes modelled.
ENTRY_COST = 1024
# The model takes so many bytes at a time: text with an emoji in it needs four bytes of memory for each character.
PIECE = 4 * 1024
# Of repaints that are skipped so much is looked at in the end, for the screen as it stands then.
SKIPPED_END = 8 * 1024


class Cleaner:
    """Bytes in, whole lines out; what is not a whole line yet is kept.

    As long as a program prints one line after the other, escapes are dropped and that is all. Once it moves the
    cursor back to lines it has written, a model of the screen tells which of them are final.
    """

    def __init__(self, height: int = 24, width: int = 80) -> None:
        self._size = (height, width)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""  # the unfinished line
        self._sequence = ""  # the unfinished escape sequence after it
        self._in_string = False  # inside a string sequence too long to keep
        self._tail = ""  # the last lines that were plain
        self._screen: Lines | None = None
        self._fed = False  # since the last tick
        self._skipped = 0  # bytes not modelled and not announced yet
        self._skipped_end = ""  # the last of them, from which the screen is made up again
        self.modelled = 0  # bytes that went through the model: they cost a hundred times more than others

    @property
    def between_lines(self) -> bool:
        return not (self._line or self._sequence or self._in_string or self._screen or self._decoder.getstate()[0])

    @property
    def repainting(self) -> bool:
        return self._screen is not None

    def resize(self, height: int, width: int) -> None:
        if self._size == (height, width):
            return
        self._size = (height, width)
        if self._screen:
            self._screen.resize(height, width)

    def anew(self) -> Cleaner:
        """For after a gap: nothing is known but the terminal's size."""
        if self._screen:
            self._screen.close()
        return Cleaner(*self._size)

    def feed(self, data: bytes, final: bool = False) -> str:
        """The lines that are complete now, each with its newline; at the end whatever there is."""
        if self._screen and len(data) > PIECE:
            cuts = range(0, len(data), PIECE)
            return "".join([self.feed(data[at : at + PIECE], final and at == cuts[-1]) for at in cuts])
        text = self._whole_sequences(data, final)
        self._fed = True
        shown = text
        if "\x1b" in text and not self._screen:
            shown = _HARMLESS.sub("", text)
        if self._screen or "\x1b" in shown:
            text = self._announce() + self._follow(text)
            if final and self._screen:
                self._screen.finish()
                text += tidy(self._screen.take())
                self._screen = None
            return text + (self._plain("", final) if final else "")
        return self._announce() + self._plain(shown, final)

    def skip(self, data: bytes) -> str:
        """Instead of feed, when there are too many repaints to follow: they are left out and announced."""
        text = self._whole_sequences(data, False)
        if not self._screen or not _LEAVES_LINE.search(text):
            return self._announce() + self._follow(text) + self._back_to_plain()
        self._skipped += len(data)
        self._skipped_end = (self._skipped_end + text)[-SKIPPED_END:]
        for switch in _SCREEN.findall(text[:-SKIPPED_END])[-1:]:
            self._screen.feed(switch)
        return tidy(self._screen.take())

    def tick(self) -> str:
        """Called now and then while repainting: lines that have stood still since the last time, told or not."""
        if not self._screen:
            return ""
        if self._skipped:
            return self._announce()
        self._screen.tick(silent=not self._fed)
        self._fed = False
        return tidy(self._screen.take())

    @property
    def settled(self) -> bool:
        """Nothing would come of another tick."""
        return not self._screen or not (self._fed or self._skipped or self._screen.pending)

    def _whole_sequences(self, data: bytes, final: bool) -> str:
        text = self._sequence + self._decoder.decode(data, final)
        self._sequence = ""
        if self._in_string:
            end = _STRING_END.search(text)
            self._in_string = not end
            text = text[end.start() :] if end else ""
        if "\x1b" in text:
            text = self._hold_unfinished(text)
        if final:
            self._sequence, self._in_string = "", False
        return text

    def _plain(self, text: str, final: bool = False) -> str:
        if "\x1b" in text:
            text = _ESCAPE.sub("", text)
        text = self._line + text
        at = len(text) if final or len(text) - text.rfind("\n") > LINE_MAX else text.rfind("\n") + 1
        self._line = text[at:]
        text = tidy(text[:at])
        self._tail = text[-TAIL_MAX:] if len(text) > TAIL_MAX else (self._tail + text)[-TAIL_MAX:]
        return text

    def _follow(self, text: str) -> str:
        """Plain lines as such, and the model of the screen from where the cursor leaves its line until it is
        believed not to do so any more."""
        told: list[str] = []
        reduced = False
        at = 0
        while at < len(text) or (self._screen and self._screen.plain):
            if self._screen is None:
                at = self._until_it_leaves(text, at, told)
                if at == len(text):
                    break
                self._enter_model()
            if not reduced:
                text, at, reduced = IGNORED.sub("", text[at:]), 0, True
            assert self._screen
            start, at = at, self._screen.feed(text, at)
            self.modelled += at - start
            told.append(tidy(self._screen.take()))
            if self._screen.plain:
                self._tail = "".join(f"{line}\n" for line in self._screen.last_lines(self._size[0]))
                self._screen = None
        return "".join(told)

    def _until_it_leaves(self, text: str, at: int, told: list[str]) -> int:
        """Takes plain text from there, moves within a line included. Returns where the cursor leaves its line."""
        parts: list[str] = []
        while (move := _MOVES.search(text, at)) and move[2]:
            parts.append(text[at : move.start()])
            count = min(int(move[1][:4] or 1), 500)
            if move[2] == "G":
                parts.append("\r" + " " * (count - 1))
            else:
                parts.append((" " if move[2] == "C" else "\x08") * count)
            at = move.end()
        end = move.start() if move else len(text)
        parts.append(text[at:end])
        told.append(self._plain("".join(parts)))
        return end

    def _enter_model(self) -> None:
        self.modelled += ENTRY_COST
        self._screen = Lines(*self._size)
        self._screen.seed(self._tail.split("\n")[:-1][-2 * self._size[0] :])
        self._screen.feed(self._line)
        self._line = ""

    def _back_to_plain(self) -> str:
        if not self._screen or self._screen.alternate:
            return ""
        self._screen.finish()
        text = tidy(self._screen.take())
        self._screen = None
        return text

    def _announce(self) -> str:
        if not self._skipped:
            return ""
        text = f"[… {self._skipped} bytes of repaints not shown]\n"
        self._skipped = 0
        end, self._skipped_end = self._skipped_end, ""
        return text + self._follow(end[max(0, end.find("\n")) :])

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
