"""File systems to boot from, other than the host's own: made once, by mmdebstrap."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machines.base import CONTAINED, Failure, cache, locked, require, run_logged

RELEASES = ("bookworm", "trixie", "sid")
INCLUDE = (
    "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,polkitd,passwd,procps,util-linux,"
    "python3,python3-click,python3-pystemd,python3-dbus-next"
)
ROOT_MB = 700  # a root is 220 MB, and mmdebstrap holds its packages beside it while it unpacks them

BUILD_PACKAGES = {
    "/usr/bin/mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def build(release: str) -> Path:
    """Finds or makes the root of a release; waits while another build runs."""
    if release not in RELEASES:
        raise Failure(f"unknown release '{release}': choose from {', '.join(RELEASES)}")
    roots = cache() / "roots"
    root = roots / f"{release}-{hashlib.sha256(INCLUDE.encode()).hexdigest()[:12]}"
    if not root.is_dir():
        require(BUILD_PACKAGES)
        with locked(roots):
            for leftover in roots.glob("building-*"):
                shutil.rmtree(leftover)
            if not root.is_dir():
                debootstrap(release, root)
    return root


def debootstrap(release: str, root: Path) -> None:
    mirror = os.environ.get("KILDSVC_MIRROR") or find_mirror()
    disk = os.statvfs(root.parent)
    free_mb = disk.f_bavail * disk.f_frsize >> 20
    if free_mb < ROOT_MB:
        raise Failure(
            f"'{root.parent}' has {free_mb} MB free, {ROOT_MB} MB are needed: free some or set KILDSVC_CACHE"
        )
    log = root.parent / f"{release}.log"
    if sys.stderr.isatty():
        print(f"machine: making the root of '{release}', about half a minute; log: {log}", file=sys.stderr)
    work = Path(tempfile.mkdtemp(prefix="building-", dir=root.parent))
    try:
        work.chmod(0o755)  # apt downloads as its own user, _apt
        (work / "tmp").mkdir()
        command = f"mmdebstrap --mode=root --variant=apt --include={INCLUDE} {release}".split()
        code = run_logged([*CONTAINED, *command, str(work / "root"), mirror], log, TMPDIR=str(work / "tmp"))
        if code != 0:
            errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("E: ")]
            cause = errors[0].removeprefix("E: ") if errors else f"mmdebstrap ended with code {code}"
            raise Failure(f"no root of '{release}': {cause}: check network, mirror '{mirror}' and space; log: {log}")
        (work / "root").rename(root)
    finally:
        shutil.rmtree(work)


def find_mirror() -> str:
    columns = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", columns, "Created-By: Packages"]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("Debian|Debian|"):
            return line.split("|")[2]
    raise Failure("apt knows no Debian mirror: run 'apt-get update' first, or set KILDSVC_MIRROR")
