"""Quantities as people write them."""

import math
import re

_USEC = {"us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000}
_USEC["d"] = 24 * _USEC["h"]


def duration(text: str) -> int:
    """500ms, 2s, 10m, 1h, 30d as microseconds; a bare number is seconds. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|min|h|d)?", text)
    if not match:
        raise ValueError(f"'{text}' is not a duration such as 500ms, 2s or 10m")
    return int(float(match[1]) * _USEC[match[2] or "s"])


def ttl(text: str) -> float:
    """As microseconds; 'never' is longer than anything. Raises ValueError."""
    return math.inf if text == "never" else duration(text)


def size(text: str) -> int:
    """512M, 1.5G, a bare number of bytes; base 1024, as systemd and the kernel count. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text)
    if not match:
        raise ValueError(f"'{text}' is not a size such as 512M or 4G")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2] or " "))


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
