"""Bytes as people read them."""

from __future__ import annotations


def size(count: float) -> str:
    units = iter("BKMG")
    unit = next(units)
    while count >= 1024 and unit != "G":
        count, unit = count / 1024, next(units)
    return f"{count:.0f}{unit}" if count >= 10 or unit == "B" else f"{count:.1f}{unit}"
