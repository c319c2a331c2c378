"""A booted machine as the tests see it: commands in, results out. Every call has a deadline."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
# Not by its #! line: where `env` finds python3 there may be a slow wrapper (pyenv's takes 0.1 s).
MACHINE = [sys.executable, "-S", str(REPO / "packaging" / "machine")]
DEADLINE = 30.0

Result = subprocess.CompletedProcess[str]


def wait_until(what: str, condition: Callable[[], Any], deadline_sec: float = DEADLINE) -> Any:
    """For facts of which no event tells: asks until it is so, and fails loudly when it never is."""
    deadline = time.monotonic() + deadline_sec
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {deadline_sec} s: {what}")
        time.sleep(0.02)  # what is waited for needs the CPU too


class Box:
    """One machine; the user inside is 'dev'."""

    def __init__(self, name: str, release: str = "host", vm: bool = False) -> None:
        self.name = name
        self.release = release
        self.options = ["--vm"] if vm else []
        self.patience = 6 if vm else 1  # times every deadline: its processor is emulated
        # Where the machine has the same Debian as we, it runs what is installed in our own environment.
        self.kild = str(Path(sys.prefix) / "bin" / "kildsvc") if release == "host" else "/usr/local/bin/kildsvc"

    def up(self, *options: str) -> None:
        bind = f"{sys.prefix}" if self.release == "host" else f"{REPO}/kildsvc:/srv/kildsvc/kildsvc"
        self._machine(
            "up", "--quiet", "--owner", str(os.getpid()), "--release", self.release, "--bind", bind, *options
        )
        if self.release != "host":
            script = "import sys; sys.path.insert(0, '/srv/kildsvc'); from kildsvc.__main__ import main; main()"
            self.root(
                "sh", "-c", f'printf "#!/usr/bin/python3\\n%s\\n" "$0" >{self.kild}; chmod +x {self.kild}', script
            )

    def down(self) -> None:
        subprocess.run([*MACHINE, "--name", self.name, "down"], capture_output=True, timeout=DEADLINE, check=False)

    def reboot(self) -> None:
        self._machine("reboot")

    def _machine(self, *arguments: str) -> None:
        done = subprocess.run(
            [*MACHINE, *self.options, "--name", self.name, *arguments],
            capture_output=True,
            text=True,
            timeout=120 * self.patience,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def argv(self, *command: str) -> list[str]:
        return [*MACHINE, "--name", self.name, "run", *command]

    def run(self, *command: str, check: bool = True, timeout: float = DEADLINE, stdin: str | None = None) -> Result:
        return self._call(self.argv(*command), check, timeout * self.patience, stdin)

    def root(self, *command: str, check: bool = True, timeout: float = DEADLINE) -> Result:
        return self._call([*MACHINE, "--name", self.name, "root", *command], check, timeout * self.patience, None)

    def sh(self, script: str, *arguments: str, check: bool = True, timeout: float = DEADLINE) -> str:
        return self.run("bash", "-c", script, "bash", *arguments, check=check, timeout=timeout).stdout

    def kildsvc(self, *arguments: str, check: bool = True, timeout: float = DEADLINE) -> Result:
        return self.run(self.kild, *arguments, check=check, timeout=timeout)

    def python(self, script: str, *arguments: str, timeout: float = DEADLINE) -> str:
        """A program that uses the API: many calls for the price of one start."""
        head = "import sys; sys.path.insert(0, '/srv/kildsvc')\n" if self.release != "host" else ""
        python = str(Path(self.kild).parent / "python") if self.release == "host" else "python3"
        return self.run(python, "-c", head + script, *arguments, timeout=timeout).stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.kildsvc(*arguments, "--json", check=False).stdout)

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.argv(*command), **options)

    def show(self, name: str, *properties: str) -> dict[str, str]:
        """Unit properties as systemctl tells them: another witness than the code under test."""
        out = self.run("systemctl", "--user", "show", f"kild-{name}", *(f"-p{p}" for p in properties)).stdout
        return dict(line.split("=", 1) for line in out.splitlines())

    def wait_ended(self, name: str, deadline_sec: float = DEADLINE) -> dict[str, Any]:
        """The session as status --json gives it once its unit has ended."""

        def ended() -> Any:
            state = self.show(name, "ActiveState")["ActiveState"]
            return state in ("inactive", "failed") and self.json("status", name)

        value: dict[str, Any] = wait_until(f"{name} ends", ended, deadline_sec * self.patience)
        return value

    def journal(self, name: str) -> str:
        return self.run("journalctl", "--user", "-u", f"kild-{name}", "-o", "cat", "--no-pager").stdout

    def agent_pid(self, name: str) -> int:
        pid = self.json("status", name)["pid"]
        assert isinstance(pid, int)
        return pid

    def shim_pid(self, name: str) -> int:
        return int(self.show(name, "MainPID")["MainPID"])

    def crash_shim(self, name: str, times: int = 1) -> None:
        """SIGKILL, and back when another shim has taken over; all inside, so that nothing is missed."""
        self.sh(
            """for i in $(seq $2); do
                pid=$(systemctl --user show -P MainPID $1); kill -KILL $pid || exit 1
                until [ "$(systemctl --user show -P MainPID $1)" != $pid -a \
                        "$(systemctl --user show -P ActiveState $1)" = active ]; do :; done
            done""",
            f"kild-{name}",
            str(times),
        )

    def cut_off(self) -> None:
        """Power loss, as far as a session can tell: the whole manager is gone without a word."""
        self.root("systemctl", "kill", "-s", "KILL", "user@1000.service")
        self.restart_manager()

    def restart_manager(self) -> None:
        self.root("systemctl", "restart", "user@1000.service")
        wait_until(
            "the manager is back",
            lambda: self.run("systemctl", "--user", "is-system-running", check=False).stdout == "running\n",
        )

    def processes(self, pattern: str) -> list[int]:
        out = self.run("pgrep", "-u", "dev", "-f", pattern, check=False).stdout
        return [int(line) for line in out.split()]

    @staticmethod
    def _call(argv: list[str], check: bool, timeout: float, stdin: str | None) -> Result:
        raw = subprocess.run(
            argv,
            input=stdin.encode() if stdin is not None else None,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        # Not text=True: that would turn the terminal's \r\n into \n.
        out, err = (data.decode(errors="surrogateescape") for data in (raw.stdout, raw.stderr))
        done = Result(argv, raw.returncode, out, err)
        if check:
            assert done.returncode == 0, f"{argv[6:]} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done
