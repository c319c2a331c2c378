"""What every command of ours costs before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.figures import BARE, Row
from bench.measure import interleaved, milliseconds
from bench.peers import ENVIRONMENT, KILDSVC, Kildsvc, call

# As bash asks for what follows `kildsvc attach comp`.
_QUESTION = {"_KILDSVC_COMPLETE": "bash_complete", "COMP_WORDS": "kildsvc attach comp", "COMP_CWORD": "2"}


def bare() -> list[str]:
    """The interpreter that runs kildsvc, doing nothing."""
    return [sys.executable, "-c", "pass"]


def _complete() -> float:
    start = time.perf_counter()
    done = subprocess.run([KILDSVC], capture_output=True, text=True, env={**ENVIRONMENT, **_QUESTION}, check=False)
    took = time.perf_counter() - start
    return took * 1000 if "completed-one" in done.stdout else float("inf")


def start(quick: bool) -> list[Row]:
    os.environ.pop("_KILDSVC_COMPLETE", None)
    call(*Kildsvc().opening("completed-one", "sleep", "1000"))
    figures = interleaved(
        10 if quick else 40,
        {
            "--version": lambda: milliseconds(KILDSVC, "--version"),
            "completion": _complete,
            BARE: lambda: milliseconds(*bare()),
        },
    )
    Kildsvc().close("completed-one")
    version = Row("start", "kildsvc --version", "ms", {"kildsvc": figures["--version"], BARE: figures[BARE]})
    version.aim("≤ 40 ms beyond interpreter start", version.beyond(), "ms", 40)
    completion = Row(
        "completion", "completion of a name", "ms", {"kildsvc": figures["completion"], BARE: figures[BARE]}
    )
    if float("inf") in figures["completion"]:
        completion.figures.pop("kildsvc")
        completion.notes.append("kildsvc does not complete names yet")
    else:
        completion.aim("≤ 80 ms", completion.median("kildsvc"), "ms", 80)
    return [version, completion]
