"""What was measured, and what it comes to. Pure: numbers in, numbers and sentences out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "kildsvc"
BARE = "python -c pass"  # what any Python program pays before its first line


def p99(values: list[float]) -> float:
    return sorted(values)[math.ceil(0.99 * len(values)) - 1]


def spread(values: list[float]) -> float:
    """Between the quartiles: half of all runs lie in it."""
    if len(values) < 2:
        return 0.0
    first, _, third = statistics.quantiles(values, method="inclusive")
    return third - first


@dataclass(frozen=True)
class Goal:
    text: str
    reached: str
    met: bool


@dataclass
class Row:
    key: str
    title: str
    unit: str
    figures: dict[str, list[float]]  # whose, and every run of it
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a reader must know to judge it

    def median(self, whose: str) -> float:
        return statistics.median(self.figures[whose])

    def worst(self, whose: str) -> float:
        """Of a hundred runs; of a rate the lowest is the worst."""
        values = self.figures[whose]
        return -p99([-value for value in values]) if self.unit.endswith("/s") else p99(values)

    def beyond(self, whose: str = OURS) -> float:
        return self.median(whose) - self.median(BARE)

    def aim(self, text: str, reached: float, unit: str, bound: float, most: bool = True) -> None:
        """A goal, met when what was reached is at most (or at least) the bound."""
        self.goals.append(Goal(text, f"{show(reached)} {unit}", reached <= bound if most else reached >= bound))

    def aim_ratio(self, peer: str, bound: float, of: Callable[[str], float] | None = None, word: str = "") -> None:
        of = of or self.median
        most = not self.unit.endswith("/s")
        sign = "≤" if most else "≥"
        if peer in self.figures:
            self.aim(f"{word}{sign} {bound:g} × {peer}", of(OURS) / of(peer), "×", bound, most)

    def to_json(self) -> dict[str, Any]:
        summary = {
            whose: {
                "median": statistics.median(values),
                "p99": self.worst(whose),
                "iqr": spread(values),
                "n": len(values),
            }
            for whose, values in self.figures.items()
        }
        return {**asdict(self), "summary": summary}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Row:
        goals = [Goal(**goal) for goal in document["goals"]]
        fields = {name: document[name] for name in ("key", "title", "unit", "figures", "notes")}
        return cls(**fields, goals=goals)


def show(value: float) -> str:
    """Three digits that mean something."""
    size = abs(value)
    return f"{value:.0f}" if size >= 100 or value == 0 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"
