"""Measures the core verbs against peers, interleaved, and prints medians and ratios. Runs inside a machine.

core.py KILDSVC [--quick]
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

KILDSVC = sys.argv[1]
QUICK = "--quick" in sys.argv
WORK = Path.home() / "bench"


def call(*argv: str, check: bool = True) -> str:
    return subprocess.run(argv, check=check, capture_output=True, text=True).stdout


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def interleaved(times: int, **actions: Callable[[], float]) -> dict[str, list[float]]:
    """Each action in turn, so that noise hits all alike."""
    results: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(times):
        for name, action in actions.items():
            results[name].append(action())
    return results


def row(label: str, figure: str, goal: str) -> None:
    print(f"{label:<58}{figure:<34}{goal}", flush=True)


def spread(values: list[float], scale: float = 1000, unit: str = "ms") -> str:
    low, median, high = (scale * pick(values) for pick in (min, statistics.median, max))
    return f"{median:.1f} {unit} ({low:.1f}–{high:.1f}, n={len(values)})"


def failed_open() -> float:
    """From the agent's last instruction to the end of the command that tells of it."""
    died = WORK / "died"
    subprocess.run(
        [KILDSVC, "open", "fails", "--", "sh", "-c", f"date +%s%N >{died}; exit 1"], capture_output=True, check=False
    )
    return time.time() - int(died.read_text()) / 1e9


def make_output(megabytes: int) -> Path:
    """What agents print: coloured listings, prose, progress."""
    path = WORK / "output"
    block = b"".join(
        b"\x1b[3%dmmodule_%04d.py\x1b[0m:%d: def handler(request, context): # %s\n"
        % (i % 8, i, i * 7, b"word " * (i % 9))
        for i in range(2000)
    )
    with open(path, "wb") as file:
        while file.tell() < megabytes << 20:
            file.write(block)
    return path


def detached_rates(path: Path, times: int) -> None:
    took, part = WORK / "took", WORK / "took.part"
    script = f"s=$(date +%s%N); cat {path}; e=$(date +%s%N); echo $((e - s)) >{part}; mv {part} {took}"

    def wait_for_took() -> float:
        while not took.exists():
            time.sleep(0.05)  # coarse on purpose: the figure is taken inside
        value = int(took.read_text()) / 1e9
        took.unlink()
        return path.stat().st_size / value / 1e6

    def ours() -> float:
        call(KILDSVC, "open", "flood", "--grace", "1ms", "--", "sh", "-c", f"{script}; sleep 1000")
        rate = wait_for_took()
        call(KILDSVC, "destroy", "--force", "flood")
        return rate

    def tmux() -> float:
        call("tmux", "new-session", "-d", script)
        return wait_for_took()

    def dtach() -> float:
        call("dtach", "-n", str(WORK / "dtach"), "sh", "-c", script)
        return wait_for_took()

    rates = interleaved(times, ours=ours, tmux=tmux, dtach=dtach)
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        row(f"detached output, {name}", spread(values, 1, "MB/s"), "")
    row("  ours / tmux", f"{median['ours'] / median['tmux']:.2f} ×", "≥ 2 ×")
    row("  ours / dtach", f"{median['ours'] / median['dtach']:.2f} ×", "")


def pids(name: str) -> list[int]:
    shim = int(call("systemctl", "--user", "show", "-P", "MainPID", f"kild-{name}"))
    return [shim, int(call("pgrep", "-P", str(shim)))]


def private_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def switches(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)


def idle() -> None:
    call(KILDSVC, "open", "idle", "--", "sleep", "1000")
    both = pids("idle")
    time.sleep(1)  # the first flush is over
    before = sum(map(switches, both))
    time.sleep(10)
    row("wake-ups of an idle session in 10 s", str(sum(map(switches, both)) - before), "0")
    row("private memory, shim + waiter", f"{sum(map(private_kilobytes, both)) / 1024:.1f} MB", "≤ 6 MB")
    call(KILDSVC, "destroy", "--force", "idle")


def listing(count: int, times: int) -> None:
    def open_all() -> None:
        jobs = [
            subprocess.Popen(
                [KILDSVC, "open", f"s{i}", "--grace", "1ms", "--", "sleep", "1000"], stdout=subprocess.DEVNULL
            )
            for i in range(count)
        ]
        for job in jobs:
            job.wait()

    seconds = timed(open_all)
    row(f"{count} sessions opened in parallel", f"{count / seconds:.1f} /s", "≥ 10 /s")
    properties = "ActiveState,SubState,StatusText,MainPID,ExecMainStartTimestamp,Result,ExecMainStatus"
    results = interleaved(
        times,
        list=lambda: timed(lambda: call(KILDSVC, "list", "--json")),
        start=lambda: timed(lambda: call(KILDSVC, "--version")),
        systemctl=lambda: timed(lambda: call("systemctl", "--user", "show", "kild-*", "-p", properties)),
    )
    assert len(json.loads(call(KILDSVC, "list", "--json"))) == count
    median = {name: statistics.median(values) for name, values in results.items()}
    row(f"list of {count}", spread(results["list"]), "")
    row("  of which kildsvc --version", spread(results["start"]), "")
    row(f"systemctl --user show of {count}", spread(results["systemctl"]), "")
    row(
        "  list beyond start / systemctl",
        f"{(median['list'] - median['start']) / median['systemctl']:.2f} ×",
        "≤ 1.2 ×",
    )
    row(f"{count} sessions stopped", f"{timed(lambda: call(KILDSVC, 'stop', '--all')):.2f} s", "")


def main() -> None:
    WORK.mkdir(exist_ok=True)
    os.chdir(WORK)
    row("what", "median (min–max, n)", "goal")
    row("death of an agent → open has told it", spread([failed_open() for _ in range(5 if QUICK else 20)]), "≤ 60 ms")
    idle()
    detached_rates(make_output(30 if QUICK else 100), 3 if QUICK else 5)
    listing(30 if QUICK else 100, 5 if QUICK else 15)


if __name__ == "__main__":
    main()
