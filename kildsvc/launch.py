"""What one run of a session is started with. Pure."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Launch:
    """All the shim must know. Holds secrets (env): goes to a 0600 file on tmpfs and nowhere else."""

    name: str
    run: str
    unit: str
    agent: str
    title: str
    executable: str
    argv: list[str]
    env: dict[str, str]
    cwd: str
    rows: int
    cols: int
    umask: int
    limits: dict[str, list[int]]
    last_output: str
    version: str
    grace_usec: int = 200_000
    runtime_usec: int = 0  # 0: not limited
    nice: int | None = None
    stop_usec: int = 10_000_000
    ring_bytes: int = 1 << 20
    takes_terminal: bool = False
    sandbox: dict[str, Any] | None = None  # what the shim must find true before it starts the agent
