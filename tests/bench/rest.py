"""What a session costs while nothing happens."""

from __future__ import annotations

import time
from pathlib import Path

from bench.figures import Row
from bench.peers import MULTIPLEXERS, Peer, call

SESSIONS = 10
# A silence is told of once, 30 s after the last output; the window lies before that, or after.
SETTLED_SEC = 1.5


def idle(quick: bool) -> list[Row]:
    """Ten sessions of each; of the multiplexer's own processes, without the agents."""
    pids: dict[str, set[int]] = {}
    for peer in MULTIPLEXERS:
        for i in range(SESSIONS):
            call(*peer.opening(f"idle{i}", "sleep", "1000"))
        pids[peer.name] = {pid for i in range(SESSIONS) for pid in peer.pids(f"idle{i}")}
    private = {name: [_megabytes(found, "Private_") / SESSIONS] for name, found in pids.items()}
    pss = {name: [_megabytes(found, "Pss:") / SESSIONS] for name, found in pids.items()}
    time.sleep(SETTLED_SEC)
    seconds = 5 if quick else 20
    before = {name: _switches(found) for name, found in pids.items()}
    time.sleep(seconds)
    wakeups = {name: [(_switches(found) - before[name]) / SESSIONS] for name, found in pids.items()}
    for peer in MULTIPLEXERS:
        _close(peer)
    memory = Row("private", "private memory of an idle session", "MB", private)
    memory.aim("≤ 6 MB for shim and waiter", memory.median("kildsvc"), "MB", 6)
    memory.notes += [
        "shim and waiter share some 4 MB more with each other since their fork: PSS counts it",
        "an interpreter for each session: it is the price of Python, and of one session's crash not being another's",
    ]
    wake = Row("wakeups", f"wake-ups of an idle session in {seconds} s", "times", wakeups)
    wake.aim("none", wake.median("kildsvc"), "", 0)
    return [memory, Row("pss", "PSS of an idle session", "MB", pss), wake]


def _close(peer: Peer) -> None:
    for i in range(SESSIONS):
        peer.close(f"idle{i}")


def _megabytes(pids: set[int], *fields: str) -> float:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(fields)) / 1024


def _switches(pids: set[int]) -> int:
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
