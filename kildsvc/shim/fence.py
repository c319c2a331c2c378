"""The sandbox from inside: it holds, or there is no agent.

systemd leaves out silently what it cannot do in a user manager, and a drop-in may have undone what was asked.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same on every machine
_SCOPED_ABI = 6  # Linux 6.12
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


def problem(expected: dict[str, Any]) -> str:
    """What does not hold of the sandbox this session was promised; "" when all does."""
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    if status.get("NoNewPrivs") != "1":
        return "privileges can be gained"
    if status.get("Seccomp") != "2":
        return "system calls are not filtered"
    for kind, outside in expected["outside"].items():
        if os.readlink(f"/proc/self/ns/{kind}") == outside:
            return f"its {kind} namespace is the one outside"
    for path in expected["absent"]:
        if os.path.lexists(path):
            return f"'{path}' can be reached"
    for path in expected["readonly"]:
        if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            return f"'{path}' can be written to"
    return ""


def scope() -> None:
    """Where the kernel can: from here on no signal, no ptrace and no abstract socket reaches what is outside of
    this process and its children, not even the shim. A user namespace alone does not keep signals in."""
    import ctypes  # only the agent's process pays for it

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE_RULESET, None, 0, 1) < _SCOPED_ABI:
        return
    # struct landlock_ruleset_attr: no file and no network rules, only the scope.
    rules = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    fd = libc.syscall(_CREATE_RULESET, rules, ctypes.sizeof(rules), 0)
    if fd < 0 or libc.syscall(_RESTRICT_SELF, fd, 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    os.close(fd)
