"""Command lines that run a command in a machine. When their process is killed, the command gets SIGHUP."""

import os
import sys
from pathlib import Path

from machines.base import PATH


def enter(kind: str, leader: int, as_root: bool, command: list[str]) -> list[str]:
    settings = [f"TERM={os.environ.get('TERM', 'dumb')}", "LANG=C.UTF-8"]
    settings += [f"COLORTERM={os.environ['COLORTERM']}"] if "COLORTERM" in os.environ else []
    if as_root:
        identity, settings = [], ["-C", "/root", f"PATH={PATH}", *settings]
    else:
        identity = ["--reuid=1000", "--regid=1000", "--init-groups"]
        runtime = "XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus"
        settings = ["-C", "/home/dev", "PATH=/usr/local/bin:/usr/bin:/bin", *runtime.split(), *settings]
    inside = ["setpriv", "--pdeathsig", "HUP", "--reset-env", *identity, "env", *settings, *command]
    nsenter = ["nsenter", "-t", str(leader)]
    if kind == "vm":
        # The port on which the machine takes commands is open in qemu's network namespace only.
        return [*nsenter, "-n", "--", sys.executable, "-SI", str(Path(__file__).with_name("call.py")), *inside]
    # -r: where we ourselves are in a chroot, the root of the machine's mount namespace is not the machine's root.
    return [*nsenter, "-m", "-u", "-i", "-n", "-p", "-C", "-r", "--", *inside]
