"""The kernel of the virtual machines: Debian's, with an initramfs that knows just what they have."""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from machines.base import Failure, cache, locked, run_logged

# The cloud kernel has no 9p.
META_PACKAGE = "linux-image-amd64"
# A module's softdeps, like ext4's crc32c, have to be named here.
MODULES = "virtio_pci virtio_blk virtio_net virtio_rng 9pnet_virtio crc32c_generic ext4 9p overlay autofs4"

# cache=loose: the guest never asks again for what it has read.
INIT = r"""#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root /disk /new
/bin/busybox mount -t proc proc /proc; /bin/busybox --install -s /bin
mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose root /root
mount -t ext4 /dev/vda /disk; mkdir -p /disk/upper /disk/work
mount -t overlay -o lowerdir=/root,upperdir=/disk/upper,workdir=/disk/work machine /new
ifconfig lo up; ifconfig eth0 10.0.2.15
for mount in proc sys dev; do mount --move /$mount /new/$mount; done
exec switch_root /new /lib/systemd/systemd
"""


def find_kernel() -> Path:
    """The directory with vmlinuz and initrd; makes it, or waits while another does."""
    if os.uname().machine != "x86_64":
        raise Failure("virtual machines are for x86_64 only")
    recipe = " ".join([META_PACKAGE, MODULES, INIT])
    kernels = cache() / "kernels"
    kernel = kernels / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    if not kernel.is_dir():
        with locked(kernels):
            for leftover in kernels.glob("building-*"):
                shutil.rmtree(leftover)
            if not kernel.is_dir():
                make_kernel(kernel)
    return kernel


def make_kernel(kernel: Path) -> None:
    if sys.stderr.isatty():
        print("machine: making the kernel of virtual machines, about ten seconds", file=sys.stderr)
    log = kernel.parent / "kernel.log"
    work = Path(tempfile.mkdtemp(prefix="building-", dir=kernel.parent))
    try:
        work.chmod(0o755)  # apt downloads as its own user, _apt
        unpack([kernel_package(), "busybox-static"], work, log)
        (work / "made").mkdir()
        next(work.glob("root/boot/vmlinuz-*")).rename(work / "made/vmlinuz")
        modules = {path.name.split(".")[0].replace("-", "_"): path for path in work.glob("root/lib/modules/**/*.ko*")}
        files = {"init": INIT.encode(), "bin/busybox": (work / "root/bin/busybox").read_bytes()}
        for number, (name, data) in enumerate(with_dependencies(modules).items()):
            files[f"modules/{number:02}-{name}.ko"] = data
        (work / "made/initrd").write_bytes(archive(files))
        (work / "made").rename(kernel)
    finally:
        shutil.rmtree(work)


def kernel_package() -> str:
    command = ["apt-cache", "depends", META_PACKAGE]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Depends: (linux-image-[0-9]\S+)", told)
    if not found:
        raise Failure(f"apt knows no '{META_PACKAGE}': run 'apt-get update'")
    return found[1]


def unpack(packages: list[str], work: Path, log: Path) -> None:
    script = 'cd "$0"; apt-get download "$@"; for deb in *.deb; do dpkg -x "$deb" root; done'
    code = run_logged(["bash", "-euc", script, str(work), *packages], log)
    if code != 0:
        lines = log.read_text(errors="replace").splitlines() or [f"code {code}"]
        cause = next((line for line in lines if line.startswith("E: ")), lines[-1])
        raise Failure(f"no kernel: {cause}: check network and space; log: {log}")


def with_dependencies(paths: dict[str, Path]) -> dict[str, bytes]:
    """Modules in the order to load them. One that there is not is part of the kernel."""
    loaded: dict[str, bytes] = {}

    def load(name: str) -> None:
        if name in loaded or name not in paths:
            return
        data = paths[name].read_bytes()
        if paths[name].suffix == ".xz":
            data = lzma.decompress(data)
        depends = re.search(rb"\0depends=([^\0]*)", data)
        for other in depends[1].decode().split(",") if depends else []:
            load(other.replace("-", "_"))
        loaded[name] = data

    for name in MODULES.split():
        load(name)
    return loaded


def archive(files: dict[str, bytes]) -> bytes:
    """An initramfs: a cpio archive of the format 'newc'."""
    directories = sorted({path.split("/")[0] for path in files if "/" in path})
    entries = [(path, 0o040755, b"") for path in directories]
    entries += [(path, 0o100755, data) for path, data in files.items()]
    out = bytearray()
    for number, (path, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + path.encode() + b"\0"
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return bytes(out)
