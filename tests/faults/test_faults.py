"""The fault program's short form. `packaging/faults --minutes 30` is the long one."""

import os

import pytest

from faults.__main__ import run

FAULTS = 300


@pytest.mark.timeout(600)
def test_three_hundred_faults() -> None:
    """The same choices each time, but for KILDSVC_SEED; when exactly what meets what differs all the same."""
    report = run(int(os.environ.get("KILDSVC_SEED", "41")), FAULTS, 0, rate=8)
    history = "\n".join(report.pop("history")) if report["violations"] else ""
    assert not report["violations"], f"{report}\n{history}"
    assert report["faults"] >= FAULTS
