"""list and status, with few sessions and with many."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bench.figures import BARE, OURS, Row
from bench.measure import interleaved, milliseconds
from bench.peers import KILDSVC, Kildsvc, Tmux, call
from bench.start import bare

# What `list` tells that systemd knows.
PROPERTIES = (
    "Id,LoadState,ActiveState,SubState,StatusText,Result,MainPID,ExecMainStartTimestamp,ExecMainExitTimestamp,"
    "ExecMainCode,ExecMainStatus,FreezerState,ControlGroup,MemoryCurrent,MemoryPeak,MemoryMax,MemoryHigh,"
    "MemorySwapMax,TasksCurrent,TasksMax,CPUUsageNSec,CPUQuotaPerSecUSec,CPUWeight,IOWeight,RuntimeMaxUSec,Nice,"
    "LimitNOFILE"
)
SYSTEMCTL = "systemctl show"


def listing(quick: bool) -> list[Row]:
    counts = [1, 10, 100] if quick else [1, 10, 100, 300]
    rows: list[Row] = []
    there = 0
    for count in counts:
        _open(range(there, count))
        there = count
        rows += _measure(count, 5 if quick else 20)
    lists = [row for row in rows if row.key.startswith("list")]
    slope = {whose: _slope(lists, counts, whose) for whose in (OURS, SYSTEMCTL, "tmux ls")}
    each = Row("each", "list, for each session more", "ms", {whose: [value] for whose, value in slope.items()})
    each.aim_ratio(SYSTEMCTL, 1.2)
    each.notes.append(f"from {counts[0]} to {counts[-1]} sessions, interpreter and imports thus told apart")
    _close(range(there))
    return [*rows, each]


def _slope(rows: list[Row], counts: list[int], whose: str) -> float:
    return (rows[-1].median(whose) - rows[0].median(whose)) / (counts[-1] - counts[0])


def _measure(count: int, times: int) -> list[Row]:
    found = json.loads(call(KILDSVC, "list", "--json"))
    assert sum(session["state"] == "running" for session in found) == count, "list tells of all"
    every: dict[str, Callable[[], float]] = {
        OURS: lambda: milliseconds(KILDSVC, "list", "--json"),
        SYSTEMCTL: lambda: milliseconds("systemctl", "--user", "show", "kild-*.service", "-p", PROPERTIES),
        "tmux ls": lambda: milliseconds(*Tmux().listing()),
        "status": lambda: milliseconds(KILDSVC, "status", "list0"),
        "systemctl show of one": lambda: milliseconds("systemctl", "--user", "show", "kild-list0", "-p", PROPERTIES),
        BARE: lambda: milliseconds(*bare()),
    }
    figures = interleaved(times, every)
    plural = "s" if count > 1 else ""
    names = (OURS, SYSTEMCTL, "tmux ls", BARE)
    row = Row(f"list{count}", f"list of {count} session{plural}", "ms", {name: figures[name] for name in names})
    ratio = row.beyond() / row.median(SYSTEMCTL)
    row.aim("≤ 1.2 × systemctl, beyond interpreter start", ratio, "×", 1.2)
    one = {OURS: figures["status"], SYSTEMCTL: figures["systemctl show of one"], BARE: figures[BARE]}
    return [row, Row(f"status{count}", f"status of one of {count} session{plural}", "ms", one)]


def _open(numbers: range) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [peer.opening(f"list{i}", "sleep", "1000") for i in numbers for peer in (Kildsvc(), Tmux())]
        list(pool.map(lambda argv: call(*argv), jobs))


def _close(numbers: range) -> None:
    call(KILDSVC, "stop", "--all")
    for peer in (Kildsvc(), Tmux()):
        peer.close(*(f"list{i}" for i in numbers))
