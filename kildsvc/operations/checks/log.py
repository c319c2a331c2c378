"""The journal: whether sessions can be read back, also after a reboot, and how much fits."""

import os
import re
import subprocess
from pathlib import Path

from kildsvc import journal
from kildsvc.operations.checks.found import Found, fail, ok, warn

# Ten sessions that print without a pause send this many entries a second together.
ENOUGH = 40
ASK_SEC = 10
_CONFIG = "/etc/systemd/journald.conf.d"
_RAISE = (
    f"as root: mkdir -p {_CONFIG} && printf '[Journal]\\nRateLimitIntervalSec=30s\\nRateLimitBurst=100000\\n'"
    f" >{_CONFIG}/kildsvc-rate.conf && systemctl restart systemd-journald"
)
_KEEP = (
    f"as root: mkdir -p /var/log/journal {_CONFIG} && printf '[Journal]\\nStorage=persistent\\n'"
    f" >{_CONFIG}/kildsvc-storage.conf && systemctl restart systemd-journald && journalctl --flush"
)
_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "min": 60.0, "h": 3600.0}


def readable() -> Found:
    """Raises JournalUnreadable, with the remedy."""
    last = next(journal.read([], "--lines=1"), None)
    return ok("your part of it can be read" if last else "it can be read; nothing of yours is in it yet")


def kept() -> Found:
    """Where journald keeps anything on the disk, it moves what it has in /run to there, directory and all."""
    machine = _read("/etc/machine-id").strip()
    if not machine:
        return fail(
            "there is no machine id", "as root: systemd-machine-id-setup && systemctl restart systemd-journald"
        )
    if Path("/run/log/journal", machine).is_dir():
        return warn("it is in memory only, and ends with this boot", _KEEP)
    if not Path("/var/log/journal", machine).is_dir():
        return fail("there is none", "as root: systemctl start systemd-journald")
    return ok("on the disk: it outlives a reboot")


def rate() -> Found:
    found = limit(_output("systemd-analyze", "cat-config", "systemd/journald.conf"))
    own = dict(
        line.split("=", 1)
        for line in _output("systemctl", "show", f"user@{os.getuid()}.service", "-pLogRateLimit*").splitlines()
        if "=" in line
    )
    # What the unit of the user's manager says stands above it; 0 says nothing.
    if (burst := own.get("LogRateLimitBurst", "0")).isdigit() and int(burst):
        found = int(burst), _seconds(own.get("LogRateLimitIntervalUSec", "")) or found[1]
    burst_now, seconds = found
    if not burst_now or not seconds:
        return ok("journald takes all there is")
    text = f"journald takes {burst_now} entries of yours in {seconds:g} s, and drops more"
    return ok(text) if burst_now / seconds >= ENOUGH else warn(text, _RAISE)


def limit(text: str) -> tuple[int, float]:
    """Burst and seconds, as the last that says so in journald's configuration; else as they are by default."""
    burst, seconds = 10_000, 30.0
    for key, value in re.findall(r"^\s*(RateLimitBurst|RateLimitInterval(?:Sec)?)\s*=\s*(\S+)\s*$", text, re.M):
        if key == "RateLimitBurst":
            burst = int(value) if value.isdigit() else burst
        else:
            seconds = _seconds(value) if _seconds(value) is not None else seconds  # type: ignore[assignment]
    return burst, seconds


def _seconds(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text)
    return float(match[1]) * _UNITS[match[2]] if match and match[2] in _UNITS else None


def _output(*command: str) -> str:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=ASK_SEC
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
