"""Nobody is attached: a flood, and what the journal costs."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path

from bench.figures import Row
from bench.measure import MARKER, Client, Word, cpu_seconds, interleaved, make_output
from bench.peers import KILDSVC, MULTIPLEXERS, WORK, Kildsvc, Peer, call

# All of it fits the budget of a burst (4 MiB): nothing is left out of the journal.
JOURNALED_MB = 4
JOURNALS = Path("/var/log/journal")


def flood(quick: bool) -> list[Row]:
    """The agent's own clock, from its first byte to when the last one is taken from it."""
    path = make_output(20 if quick else 100)
    megabytes = path.stat().st_size / 1e6
    word = Word("took")
    agent = f"s=$EPOCHREALTIME; cat {path}; echo $s $EPOCHREALTIME >{word.path}; exec sleep 1000"

    def run(peer: Peer) -> Callable[[], float]:
        def action() -> float:
            call(*peer.opening("flood", "bash", "-c", agent))
            start, end = word.wait()
            peer.close("flood")
            return megabytes / (end - start)

        return action

    figures = interleaved(3 if quick else 7, {peer.name: run(peer) for peer in MULTIPLEXERS})
    row = Row("flood", f"{megabytes:.0f} MB, nobody attached", "MB/s", figures)
    row.aim_ratio("tmux", 2)
    row.notes.append("kildsvc journals meanwhile: 4 MiB at once and 1 MiB a second of a flood, the rest is announced")
    return [row]


def journal(quick: bool) -> list[Row]:
    path = make_output(JOURNALED_MB)
    megabytes = path.stat().st_size / 1e6
    entries: list[float] = []
    disk: dict[str, list[float]] = {"kildsvc": [], "script": []}
    go, done = Word("go"), Word("done")
    agent = f"stty -onlcr; read go <{go.path}; cat {path}; echo 1 >{done.path}; exec sleep 1000"
    journald = int(call("pgrep", "-x", "systemd-journal"))
    peer = Kildsvc()

    def ours() -> float:
        call(*peer.opening("journal", "bash", "-c", agent))
        shim, _ = peer.pids("journal")
        before, cpu = _used(), cpu_seconds(shim) + cpu_seconds(journald)
        go.say()
        done.wait()
        time.sleep(1)  # what is not a whole batch waits 250 ms for more
        spent = cpu_seconds(shim) + cpu_seconds(journald) - cpu
        after = _used()
        stored = len(call(KILDSVC, "logs", "--raw", "journal"))
        if stored < path.stat().st_size:
            raise RuntimeError(f"the journal has {stored} bytes of {path.stat().st_size}")
        entries.append((after[1] - before[1]) / megabytes)
        disk["kildsvc"].append((after[0] - before[0]) / 1e6 / megabytes)
        peer.close("journal")
        return spent * 1000 / megabytes

    def script() -> float:
        target = WORK / "typescript"
        with Client(["script", "-q", "-c", f"bash -c '{agent}'", str(target)]) as client:
            go.say()
            client.take_until(MARKER)
            done.wait()
            disk["script"].append(target.stat().st_blocks * 512 / 1e6 / megabytes)
            return cpu_seconds(client.pid) * 1000 / megabytes

    row = Row(
        "journal", "CPU per MB recorded", "ms", interleaved(3 if quick else 10, {"kildsvc": ours, "script": script})
    )
    row.notes.append("kildsvc's is that of shim and journald together; output is kept twice, raw and as clean text")
    return [
        row,
        Row("disk", "disk per MB recorded", "MB", disk, notes=["journald compresses"]),
        Row("entries", "journal entries per MB", "entries", {"kildsvc": entries}),
    ]


def _used() -> tuple[int, int]:
    """Bytes and entries in the user's journal. Its files grow by 8 MB: what counts is where the last object lies."""
    used = count = 0
    for path in JOURNALS.glob("*/user-*.journal"):
        with open(path, "rb") as file:
            header = file.read(160)
        tail, _, entries = struct.unpack_from("<3Q", header, 136)
        used, count = used + tail, count + entries
    return used, count
