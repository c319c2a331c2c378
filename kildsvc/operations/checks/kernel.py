"""The kernel: what it can limit and keep in."""

import ctypes
from pathlib import Path

from kildsvc import userns
from kildsvc.cgroup import Group
from kildsvc.errors import KildError
from kildsvc.limits import TABLE
from kildsvc.operations.checks.found import Found, ok, warn
from kildsvc.operations.limit import DELEGATE, UNIFY
from kildsvc.systemd.manager import Manager

_CREATE_RULESET = 444  # the number of the system call, everywhere but on alpha
# Since 6.12: signals stay inside.
_SCOPED_ABI = 6


def cgroups() -> Found:
    wanted = {limit.controller for limit in TABLE.values() if limit.controller}
    with Manager() as reached:
        delegated = set(Group(reached.control_group).read("cgroup.controllers").split())
    missing = sorted(wanted - delegated)
    if not missing:
        return ok(f"cgroup v2, with {', '.join(sorted(wanted))}")
    there = set(Group("/").read("cgroup.controllers").split())
    text = f"your systemd has no {', '.join(missing)} controller"
    if not Path("/sys/fs/cgroup/cgroup.controllers").exists():
        text += "; this is cgroup v1"
    return warn(text, DELEGATE if set(missing) & there else UNIFY)


def namespaces() -> Found:
    try:
        userns.require()
    except KildError as error:
        return warn(error.message.removeprefix("no sandbox: "), error.hint)
    return ok("user namespaces can be used")


def landlock() -> Found:
    abi = ctypes.CDLL(None, use_errno=True).syscall(_CREATE_RULESET, None, 0, 1)
    if abi >= _SCOPED_ABI:
        return ok(f"Landlock {abi}: signals of a sandboxed session stay inside")
    text = f"Landlock {abi} is too old" if abi > 0 else "there is no Landlock"
    return warn(f"{text}: a sandboxed session can signal your other processes", "boot Linux 6.12 or newer")
