"""The fault program's short form. `packaging/faults --minutes 30` is the long one."""

import random

import pytest

from faults.__main__ import run

FAULTS = 300


@pytest.mark.timeout(600)
def test_three_hundred_faults() -> None:
    """The choices are new ones each time: the seed is in the report, with all that was done."""
    report = run(random.randrange(1 << 32), FAULTS, 0, rate=8)
    history = "\n".join(report.pop("history")) if report["violations"] else ""
    assert not report["violations"], f"{report}\n{history}"
    assert report["faults"] >= FAULTS
