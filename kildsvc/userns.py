"""User namespaces, without which a user manager protects nothing: whether there are any, and which are ours."""

import os
from pathlib import Path

from kildsvc.errors import KildError

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
# Who forbids them: the switch, the value that forbids, the one that allows.
_SWITCHES = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)


class NoSandbox(KildError):
    code = "NO_SANDBOX"


def require() -> None:
    """Makes a user namespace and mounts in it, as systemd will. Raises NoSandbox with the reason."""
    import ctypes  # not above: every open imports this module

    libc = ctypes.CDLL(None, use_errno=True)
    pid = os.fork()
    if pid == 0:
        try:
            uid = os.getuid()
            failed = libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS)
            if not failed:
                Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
                # AppArmor lets a namespace be made, and then nothing be done with it.
                failed = libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
            os._exit(ctypes.get_errno() if failed else 0)
        except OSError as error:
            os._exit(error.errno or 1)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        reason, remedy = explain({name: _read(name) for name, _, _ in _SWITCHES})
        raise NoSandbox(f"no sandbox: user namespaces cannot be used: {reason or os.strerror(code)}", remedy)


def _read(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""


def explain(switches: dict[str, str]) -> tuple[str, str]:
    """Which switch of the kernel forbids it, and what to do."""
    for name, forbids, allows in _SWITCHES:
        if switches.get(name) == forbids:
            return f"{name} is {forbids}", f"as root: sysctl {name}={allows}"
    return "", "or give --sandbox=off"


def current() -> dict[str, str]:
    """The namespaces we are in ourselves."""
    return {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("user", "mnt", "net")}
