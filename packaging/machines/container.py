"""Machines that share the host's kernel: systemd-nspawn."""

import os
import re
import signal
import socket
import struct
from pathlib import Path

from machines.base import Ended
from machines.supervisor import Supervisor

PACKAGES = {
    "/usr/bin/systemd-nspawn": "systemd-container",
    "/usr/bin/nsenter": "util-linux",
    "/usr/bin/setpriv": "util-linux",
    "/usr/bin/mount": "mount",
}

# nspawn exits with 133 when the machine asks for a reboot.
BOOT = r"""
for controller in $(<"$CG/cgroup.controllers"); do
  echo +$controller >"$CG/cgroup.subtree_control" || echo "controller $controller not available, ignoring"
done
binds=("${@/#/--bind=}")
boot=0 code=133
while [ $code = 133 ]; do
  boot=$((boot + 1)) code=0; mkdir "$CG/boot$boot"
  (echo $BASHPID >"$CG/boot$boot/cgroup.procs"; exec systemd-nspawn -q -D "$STATE/fs/root" -M "$NAME" --boot \
    --console=read-only --register=no --keep-unit --private-network --link-journal=no --resolv-conf=off \
    --timezone=off --notify-ready=yes "${binds[@]}" -- systemd.unit=kild-machine.target) || code=$?
done
exit $code
"""


def leader_on_host(nspawn: int, leader: str) -> int:
    """nspawn tells its child's pid as it sees it, in the inner PID namespace."""
    for child in Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split():
        ids = re.search(r"^NSpid:\s(.*)", Path(f"/proc/{child}/status").read_text(), re.MULTILINE)
        if ids and ids[1].split()[1] == leader:
            return int(child)
    raise Ended(f"no process {leader} below systemd-nspawn")


class Container(Supervisor):
    kind = "container"
    boot = BOOT

    def prepare(self) -> dict[str, str]:
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.notify.bind(str(self.state / "notify"))
        self.watch(self.notify, self.on_notify_readable)
        return {"NOTIFY_SOCKET": str(self.state / "notify"), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}

    def on_notify_readable(self) -> None:
        data, ancillary, _, _ = self.notify.recvmsg(4096, socket.CMSG_SPACE(12))
        lines = data.decode(errors="replace").splitlines()
        leader = next((line for line in lines if line.startswith("X_NSPAWN_LEADER_PID=")), None)
        if leader:
            sender, _, _ = struct.unpack("3i", ancillary[0][2])
            self.leader = leader_on_host(sender, leader.partition("=")[2])
            self.begin_boot()
            leader_fd = os.pidfd_open(self.leader)
            self.watch(leader_fd, lambda: self.on_leader_exit(leader_fd))
        if "READY=1" in lines and not self.ready:
            self.check()

    def on_leader_exit(self, leader_fd: int) -> None:
        """A reboot or a poweroff: nspawn tells which by starting again or by its exit."""
        self.selector.unregister(leader_fd)
        os.close(leader_fd)
        self.begin_boot()

    def restart(self) -> None:
        os.kill(self.leader, signal.SIGRTMIN + 5)  # systemd(1): starts reboot.target
