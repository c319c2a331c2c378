"""What every command of ours costs before it does anything."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.figures import BARE, Row
from bench.measure import interleaved, milliseconds
from bench.peers import ENVIRONMENT, KILDSVC, Kildsvc, call

# As the scripts of `kildsvc completion` ask for what follows `kildsvc attach comp`.
_QUESTION = ("__complete", "2", "kildsvc", "attach", "comp")


def bare() -> list[str]:
    """The interpreter that runs kildsvc, doing nothing."""
    return [sys.executable, "-c", "pass"]


def _complete() -> float:
    start = time.perf_counter()
    done = subprocess.run([KILDSVC, *_QUESTION], capture_output=True, text=True, env=ENVIRONMENT, check=False)
    took = time.perf_counter() - start
    return took * 1000 if "completed-one" in done.stdout else float("inf")


def start(quick: bool) -> list[Row]:
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
