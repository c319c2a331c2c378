"""A sandbox, as the properties of StartTransientUnit that user managers really honour. Pure.

Measured on systemd 252 and 257. Not here: IPAddressDeny and ProtectProc (no effect), PrivateDevices and
CapabilityBoundingSet (the unit fails), ProtectKernelLogs (fails in containers), LockPersonality (gdb needs it).
"""

from kildsvc.sandbox import Places, Profile
from kildsvc.systemd.properties import Property

_REC = 0x4000  # MS_REC
# Of /run only this is left: the sockets there belong to daemons that act for whoever asks (D-Bus, docker, libvirt).
_RUN = ("/run/systemd/journal", "/run/systemd/userdb", "/run/current-system", "/run/opengl-driver")
# Name resolution, and servers that can be reached through the network just as well.
_RUN_NETWORK = (
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/run/nscd",
    "/run/postgresql",
    "/run/mysqld",
    "/run/redis",
)
# Nothing a program at work calls; a debugger (ptrace) does its work.
_NO_CALLS = "@mount @module @raw-io @reboot @swap @clock @cpu-emulation @obsolete @keyring bpf perf_event_open"
# AF_VSOCK, for one, passes by every network namespace.
_FAMILIES = ["AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"]


def sandbox(profile: Profile, places: Places) -> list[Property]:
    own = f"{places.session}/{places.run}"
    empty = [("/run", "ro"), (places.runtime, "mode=0700"), ("/dev/shm", "mode=1777")]
    empty += [(path, "ro") for path in places.empty]
    if not profile.home:
        empty += [*((path, "ro") for path in places.homes), (places.home, "mode=0700")]
    # A mount point can be neither renamed nor replaced, so each place that matters is one.
    write = [_bind(path) for path in (f"{places.runtime}/systemd/notify", places.session, places.output)]
    write += [_bind(path, missing_ok=True) for path in places.write]
    read = [_bind(f"{own}.json"), _bind(f"{own}.shim")]
    read += [_bind(path, missing_ok=True) for path in _RUN + (_RUN_NETWORK if profile.network else ())]
    read += [_bind(path, missing_ok=True) for path in (*places.read, *places.keep)]
    for place, name in places.links:
        (write if place in places.write else read).append((place, name, True, _REC))
    return [
        # Without a user namespace a user manager ignores most of what follows. It also keeps ptrace and
        # /proc/PID/mem, root and environ to the processes of this session.
        ("PrivateUsers", "b", True),
        ("NoNewPrivileges", "b", True),
        ("ProtectSystem", "s", "strict"),
        ("ProtectHome", "s", "read-only" if profile.home else "no"),
        ("PrivateTmp", "b", True),
        ("PrivateIPC", "b", True),
        ("PrivateNetwork", "b", not profile.network),
        ("TemporaryFileSystem", "a(ss)", empty),
        ("BindPaths", "a(ssbt)", write),
        ("BindReadOnlyPaths", "a(ssbt)", read),
        ("InaccessiblePaths", "as", [f"-{path}" for path in places.hide]),
        # The user's cgroups are the user's to write: a session would leave its own, and with it every limit.
        ("ProtectControlGroups", "b", True),
        ("ProtectKernelTunables", "b", True),
        ("RestrictNamespaces", "t", 0),
        ("RestrictSUIDSGID", "b", True),
        ("RestrictAddressFamilies", "(bas)", (True, _FAMILIES)),
        ("SystemCallFilter", "(bas)", (False, _NO_CALLS.split())),
        ("SystemCallErrorNumber", "i", 1),  # EPERM, rather than SIGSYS
    ]


def _bind(path: str, missing_ok: bool = False) -> tuple[str, str, bool, int]:
    return path, path, missing_ok, _REC
