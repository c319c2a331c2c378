"""Faults at random against sessions that count aloud, in a machine of its own; `packaging/faults --help`."""

import argparse
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from box import Box

HERE = Path(__file__).resolve().parent


def run(seed: int, faults: int, seconds: float, rate: float) -> dict[str, Any]:
    """The report. Choices follow from the seed; when exactly what meets what does not."""
    machine = Box(f"faults-{os.getpid()}")
    machine.up("--bind", f"{HERE}:/srv/faults")
    try:
        limit = 600 + 3 * seconds + faults
        done = machine.root(
            *[
                "env",
                "PYTHONPATH=/srv",
                "PYTHONDONTWRITEBYTECODE=1",
                f"{sys.prefix}/bin/python",
                "-m",
                "faults.inside",
            ],
            *[machine.kild, str(seed), str(faults), str(seconds), str(rate)],
            check=False,
            timeout=limit,
        )
        if done.returncode:
            raise AssertionError(
                f"seed {seed}: the program ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return report
    finally:
        machine.down()


def main() -> int:
    parser = argparse.ArgumentParser(prog="packaging/faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--faults", type=int, default=0, help="at least so many, however long it takes")
    parser.add_argument(
        "--rate", type=float, default=6.0, help="about so many per second, several at a time included"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--history", action="store_true", help="show all that was done, also when all is well")
    options = parser.parse_args()
    report = run(options.seed, options.faults, options.minutes * 60, options.rate)
    history = report.pop("history")
    if options.history or report["violations"]:
        print("\n".join(history))
    print(json.dumps(report, indent=1))
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
