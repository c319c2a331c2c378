"""Beginnings and ends: open, an open that fails, many at once, all stopped."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import BARE, Row
from bench.measure import Word, interleaved, milliseconds
from bench.peers import ENVIRONMENT, KILDSVC, Kildsvc, SystemdRun, Tmux, call
from bench.start import bare

NO_SERVICE = "they return before they know whether the agent lives; kildsvc waits for its grace period of 200 ms"


def opened(quick: bool) -> list[Row]:
    """A command is started; the agent's first act is to look at the clock."""
    word = Word("first")
    agent = ["bash", "-c", f"echo $EPOCHREALTIME >{word.path}; exec sleep 1000"]
    ours = Kildsvc()
    ways: dict[str, tuple[list[str], Callable[[str], None]]] = {
        "kildsvc": ([KILDSVC, "open", "opened", "--", *agent], ours.close),
        "kildsvc --grace 0": ([KILDSVC, "open", "opened", "--grace", "0", "--", *agent], ours.close),
        **{peer.name: (peer.opening("opened", *agent), peer.close) for peer in (Tmux(), SystemdRun())},
    }
    returned: dict[str, list[float]] = {name: [] for name in ways}

    def run(name: str) -> Callable[[], float]:
        def action() -> float:
            argv, close = ways[name]
            start = time.time()
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
            [first] = word.wait()
            if process.wait():
                raise RuntimeError(f"{argv} gave {process.returncode}")
            returned[name].append((time.time() - start) * 1000)
            close("opened")
            return (first - start) * 1000

        return action

    actions = {name: run(name) for name in ways}
    figures = interleaved(5 if quick else 20, {**actions, BARE: lambda: milliseconds(*bare())})
    first = Row("open", "open → agent's first act", "ms", figures)
    back = Row("returned", "open → returned", "ms", {**returned, BARE: figures[BARE]}, notes=[NO_SERVICE])
    return [first, back]


SLEEPER = """tmux -L bench new-session -d -s failed "$@"; sleep 0.2
tmux -L bench has-session -t failed 2>/dev/null && exit 0; echo 'the agent has ended' >&2; exit 1"""


def failed(quick: bool) -> list[Row]:
    """From the agent's last act to the end of the command that has told of its end."""
    word = Word("last")
    agent = ["bash", "-c", f"echo 'no API key'; echo $EPOCHREALTIME >{word.path}; exit 3"]
    ways = {
        "kildsvc": [KILDSVC, "open", "failed", "--", *agent],
        "200 ms sleep": ["sh", "-c", SLEEPER, "sh", *agent],
        "systemd-run --wait": ["systemd-run", "--user", "--collect", "--wait", *agent],
    }

    def run(name: str) -> Callable[[], float]:
        def action() -> float:
            process = subprocess.Popen(ways[name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT)
            [last] = word.wait()
            text = process.communicate()[0]
            told = (time.time() - last) * 1000
            if process.returncode == 0 or (name == "kildsvc" and b"no API key" not in text):
                raise RuntimeError(f"{name} did not tell: {text!r}")
            return told

        return action

    row = Row(
        "failed",
        "death of the agent → told",
        "ms",
        interleaved(8 if quick else 40, {name: run(name) for name in ways}),
    )
    row.aim("≤ 60 ms", row.median("kildsvc"), "ms", 60)
    row.notes += [
        "the interpreter runs already: none of its start is in this",
        "only kildsvc tells the agent's last words; the sleeper tells no cause, and takes a later death for success",
        "systemd-run --wait does not return when the agent lives",
    ]
    return [row]


def many(quick: bool) -> list[Row]:
    """All commands are started at once. Afterwards nothing may be left."""
    count = 40 if quick else 100
    ours, tmux, systemd_run = Kildsvc(), Tmux(), SystemdRun()
    stopped: dict[str, list[float]] = {"kildsvc": [], "tmux": [], "systemd-run": []}
    stops: dict[str, Callable[[], object]] = {
        "kildsvc": lambda: call(KILDSVC, "stop", "--all"),
        "tmux": lambda: tmux.close(*(f"many{i}" for i in range(count))),
        "systemd-run": lambda: call("systemctl", "--user", "stop", "bench-many*"),
    }
    left: list[float] = []

    def run(peer: Kildsvc | Tmux | SystemdRun) -> Callable[[], float]:
        def action() -> float:
            before = _left()
            start = time.perf_counter()
            jobs = [
                subprocess.Popen(
                    peer.opening(f"many{i}", "sleep", "1000"), stdout=subprocess.DEVNULL, env=ENVIRONMENT
                )
                for i in range(count)
            ]
            codes = {job.wait() for job in jobs}
            if codes != {0}:
                raise RuntimeError(f"{peer.name} did not open all")
            rate = count / (time.perf_counter() - start)
            start = time.perf_counter()
            stops[peer.name]()
            stopped[peer.name].append(count / (time.perf_counter() - start))
            if peer is ours:
                ours.close(*(f"many{i}" for i in range(count)))
                left.append(_left() - before)
            return rate

        return action

    figures = interleaved(1 if quick else 3, {peer.name: run(peer) for peer in (ours, tmux, systemd_run)})
    row = Row("many", f"{count} opened at once", "sessions/s", figures)
    row.aim(f"≥ 10/s on 2 cores (here: {os.cpu_count()})", row.median("kildsvc"), "/s", 10, most=False)
    row.aim("no leak: units, processes and files left", max(left), "", 0)
    row.notes.append("each of kildsvc's is a process of its own, interpreter included")
    return [row, Row("stopped", f"{count} stopped", "sessions/s", stopped)]


def _left() -> int:
    """What sessions consist of: loaded units, processes, files in the runtime directory."""
    units = len(call("systemctl", "--user", "list-units", "--all", "--no-legend", "kild*").splitlines())
    processes = len(call("pgrep", "-f", "kildsvc/.*[.]shim", check=False).split())
    files = sum(len(names) for _, _, names in os.walk(Path(os.environ["XDG_RUNTIME_DIR"]) / "kildsvc"))
    return units + processes + files
