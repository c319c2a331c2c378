"""Measures, inside the machine: `python -m bench.inside [--quick] ROWS…`. Prints one JSON document."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import time
from pathlib import Path

from bench import asking, attached, detached, lives, peers, rest, start
from bench.figures import Row
from kildsvc.errors import KildError

# In the order of the table; the names are those of --only.
GROUPS = {
    "echo": attached.echo,
    "through": attached.through,
    "screen": attached.first_screen,
    "flood": detached.flood,
    "journal": detached.journal,
    "open": lives.opened,
    "failed": lives.failed,
    "list": asking.listing,
    "many": lives.many,
    "idle": rest.idle,
    "start": start.start,
}


def versions() -> dict[str, str]:
    def first(*argv: str) -> str:
        return peers.call(*argv, check=False).splitlines()[0]

    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    return {
        "cpu": f"{os.cpu_count()} × {cpu.partition(': ')[2] or platform.machine()}",
        "kernel": platform.release(),
        "systemd": first("systemctl", "--version").split()[1],
        "python": platform.python_version(),
        "kildsvc": first(peers.KILDSVC, "--version").split()[-1],
        "tmux": first("tmux", "-V").split()[-1],
        "screen": first("screen", "-v").split()[2],
        "dtach": first("sh", "-c", "dpkg-query -W -f '${Version}\\n' dtach").split("-")[0],
    }


def on_alarm(*_: object) -> None:
    raise TimeoutError("it hangs")


def main() -> None:
    quick = "--quick" in sys.argv
    names = [name for name in sys.argv[1:] if name in GROUPS] or list(GROUPS)
    peers.WORK.mkdir(exist_ok=True)
    os.chdir(peers.WORK)
    peers.prepare()
    signal.signal(signal.SIGALRM, on_alarm)
    rows: list[Row] = []
    problems: list[str] = []
    begun = time.monotonic()
    for name in names:
        print(f"{time.monotonic() - begun:4.0f} s  {name}", file=sys.stderr, flush=True)
        try:
            rows += GROUPS[name](quick)
        except (RuntimeError, TimeoutError, KildError) as error:
            problems.append(f"{name}: {error}")
    peers.clean_up()
    report = {
        "quick": quick,
        "seconds": round(time.monotonic() - begun),
        "versions": versions(),
        "problems": problems,
    }
    print(json.dumps({**report, "rows": [row.to_json() for row in rows]}))


if __name__ == "__main__":
    main()
