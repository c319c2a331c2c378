"""The contestants: how each opens, joins and ends a session. All with their defaults, but for what is said here.

tmux without its status line, so that its sessions have all 24 rows, as the others' have; a server is running before
anything is measured. screen without its start-up message. dtach redraws nothing by itself and is told so (-r none).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kildsvc

KILDSVC = str(Path(sys.prefix) / "bin" / "kildsvc")
WORK = Path.home() / "bench"
ROWS, COLS = 24, 80
# Without what was set for this program itself.
_PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
ENVIRONMENT = {**_PLAIN, "TERM": "xterm-256color", "SCREENDIR": str(WORK / "screens"), "SHELL": "/bin/sh"}
_TMUX = ["tmux", "-L", "bench", "-f", str(WORK / "tmux.conf")]
_SCREEN = ["screen", "-c", str(WORK / "screenrc")]


def call(*argv: str, check: bool = True) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{argv} gave {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def prepare() -> None:
    (WORK / "screens").mkdir(parents=True, exist_ok=True, mode=0o700)
    (WORK / "tmux.conf").write_text("set -g status off\n")
    (WORK / "screenrc").write_text("startup_message off\n")
    call(*_TMUX, "new-session", "-d", "-s", "keeper", "sleep", "infinity")


def clean_up() -> None:
    call(*_TMUX, "kill-server", check=False)


class Kildsvc:
    name = "kildsvc"

    def opening(self, session: str, *command: str) -> list[str]:
        # The grace period is a promise about the agent, not work: where it is not the subject it is left out.
        return [KILDSVC, "open", session, "--grace", "1ms", "--", *command]

    def joining(self, session: str) -> list[str]:
        return [KILDSVC, "attach", session]

    def close(self, *sessions: str) -> None:
        for session in sessions:
            kildsvc.destroy(session, force=True)

    def pids(self, session: str) -> list[int]:
        shim = int(call("systemctl", "--user", "show", "-P", "MainPID", f"kild-{session}"))
        return [shim, int(call("pgrep", "-P", str(shim)))]


class Tmux:
    name = "tmux"

    def opening(self, session: str, *command: str) -> list[str]:
        return [*_TMUX, "new-session", "-d", "-s", session, "-x", str(COLS), "-y", str(ROWS), *command]

    def joining(self, session: str) -> list[str]:
        return [*_TMUX, "attach", "-t", session]

    def close(self, *sessions: str) -> None:
        for session in sessions:
            call(*_TMUX, "kill-session", "-t", session, check=False)

    def pids(self, session: str) -> list[int]:
        return [int(call(*_TMUX, "display", "-p", "#{pid}"))]  # one server for all

    def listing(self) -> list[str]:
        return [*_TMUX, "ls"]


class Screen:
    name = "screen"

    def opening(self, session: str, *command: str) -> list[str]:
        return [*_SCREEN, "-dmS", session, *command]

    def joining(self, session: str) -> list[str]:
        return [*_SCREEN, "-r", session]

    def close(self, session: str) -> None:
        call(*_SCREEN, "-S", session, "-X", "quit", check=False)

    def pids(self, session: str) -> list[int]:
        lines = call(*_SCREEN, "-ls", session, check=False).splitlines()
        return [int(line.strip().partition(".")[0]) for line in lines if line.startswith("\t")]


class Dtach:
    name = "dtach"

    def opening(self, session: str, *command: str) -> list[str]:
        return ["dtach", "-n", self._socket(session), *command]

    def joining(self, session: str) -> list[str]:
        return ["dtach", "-a", self._socket(session), "-r", "none"]

    def close(self, session: str) -> None:
        for pid in self.pids(session):
            call("pkill", "-KILL", "-P", str(pid), check=False)  # its own end follows

    def pids(self, session: str) -> list[int]:
        return [int(pid) for pid in call("pgrep", "-f", f"^dtach -n {self._socket(session)} ", check=False).split()]

    def _socket(self, session: str) -> str:
        return str(WORK / f"{session}.dtach")


class SystemdRun:
    name = "systemd-run"

    def opening(self, session: str, *command: str) -> list[str]:
        return ["systemd-run", "--user", "--quiet", "--collect", f"--unit=bench-{session}", *command]

    def close(self, session: str) -> None:
        call("systemctl", "--user", "stop", f"bench-{session}", check=False)


Peer = Kildsvc | Tmux | Screen | Dtach
MULTIPLEXERS: list[Peer] = [Kildsvc(), Tmux(), Screen(), Dtach()]
