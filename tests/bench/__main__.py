"""Measures kildsvc and its peers in one machine, in turns, and tells what came of it; `packaging/bench --help`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from box import REPO, Box

from bench import chart, table
from bench.figures import Row
from bench.inside import GROUPS

HERE = Path(__file__).resolve().parent
SVG = REPO / "packaging" / "bench.svg"


def measure(quick: bool, names: list[str]) -> dict[str, Any]:
    machine = Box(f"bench-{os.getpid()}")
    machine.up("--bind", f"{HERE}:/srv/bench")
    try:
        environment = ["env", "PYTHONPATH=/srv", "PYTHONDONTWRITEBYTECODE=1"]
        command = [f"{sys.prefix}/bin/python", "-m", "bench.inside", *(["--quick"] if quick else []), *names]
        done = machine.popen(*environment, *command, stdout=subprocess.PIPE)
        out, _ = done.communicate()
        if done.returncode:
            sys.exit(f"bench: the measuring program ended with {done.returncode}")
        report: dict[str, Any] = json.loads(out)
        return report
    finally:
        machine.down()


def rows_of(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(GROUPS):
        raise argparse.ArgumentTypeError(f"no row {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(prog="packaging/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs of everything: less than 3 minutes")
    parser.add_argument("--only", type=rows_of, default=[], metavar="ROWS", help=f"some of {','.join(GROUPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures, every run included")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw the picture")
    parser.add_argument("--readme", action="store_true", help="put table and picture into README.md")
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="measure nothing: what --json wrote")
    options = parser.parse_args()
    report = json.loads(options.source.read_text()) if options.source else measure(options.quick, options.only)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    rows = [Row.from_json(row) for row in report["rows"]]
    print(table.text(report, rows))
    if report["problems"]:
        sys.exit("\n".join(f"bench: could not be measured: {problem}" for problem in report["problems"]))
    if options.readme:
        readme = REPO / "README.md"
        readme.write_text(table.replaced(readme.read_text(), table.markdown(report, rows)))
    for path in {options.svg, SVG if options.readme else None} - {None}:
        path.write_text(chart.svg(rows))


if __name__ == "__main__":
    main()
