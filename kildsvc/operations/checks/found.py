"""What a check of the doctor's finds."""

from collections.abc import Callable
from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"
SEVERITIES = (OK, WARN, FAIL)


@dataclass(frozen=True)
class Found:
    """What a check has found, and what can be done about it."""

    severity: str
    text: str
    remedy: str = ""  # exactly what to do
    fix: Callable[[], object] | None = None  # does it, where that takes no root; raises KildError


def ok(text: str) -> Found:
    return Found(OK, text)


def warn(text: str, remedy: str, fix: Callable[[], object] | None = None) -> Found:
    return Found(WARN, text, remedy, fix)


def fail(text: str, remedy: str, fix: Callable[[], object] | None = None) -> Found:
    return Found(FAIL, text, remedy, fix)
