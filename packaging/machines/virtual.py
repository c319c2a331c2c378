"""Machines with a kernel of their own: QEMU, without KVM. Theirs are all cgroup controllers, and the clock."""

import socket
import subprocess
from pathlib import Path

from machines.inside import enter
from machines.kernel import find_kernel
from machines.supervisor import Supervisor

PACKAGES = {
    "/usr/bin/qemu-system-x86_64": "qemu-system-x86",
    "/usr/bin/nsenter": "util-linux",
    "/usr/bin/setpriv": "util-linux",
    "/usr/bin/mount": "mount",
    "/usr/sbin/mkfs.ext4": "e2fsprogs",
    "/usr/sbin/ip": "iproute2",
}

# The guest sees the root read-only by 9p and lays its own disk over it (see kernel.INIT): what is bound into the root
# is there too, and what the guest writes stays in the guest. A generator costs it up to a second, and no unit that
# they would make is wanted. A CPU with less to offer is emulated faster. no_timer_check: on a busy host the emulated
# timer may be late for the kernel's test of it, which then panics. tsc=reliable: in its test the CPU's counter fails
# for the same reason, and every look at the clock would cost a way out of the machine (a quarter of the boot).
BOOT = r"""
cd "$STATE/fs/root"; cp -rT "$GUEST" .
for unit in $MASKED_IN_VM; do ln -sf /dev/null etc/systemd/system/$unit; done
for kind in system system-environment user user-environment; do
  for path in usr/lib/systemd/$kind-generators/*; do
    [ -e "$path" ] || continue; mkdir -p etc/systemd/$kind-generators
    ln -sf /dev/null "etc/systemd/$kind-generators/${path##*/}"
  done
done
mkdir -p etc/tmpfiles.d; ln -sf /dev/null etc/tmpfiles.d/tmp.conf; mount -t tmpfs -o mode=1777 machine tmp
for bind; do
  source=${bind%%:*} target=.${bind#*:}
  if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}"; touch "$target"; fi
  mount --bind "$source" "$target"
done
cd ..; truncate -s 4G disk; mkfs.ext4 -q -F disk; ip link set lo up
exec qemu-system-x86_64 -accel tcg,thread=multi -cpu qemu64 -M q35 -m 1024 -smp 2 -nodefaults -display none \
  -kernel "$KERNEL/vmlinuz" -initrd "$KERNEL/initrd" \
  -append "console=ttyS0 quiet no_timer_check tsc=reliable mitigations=off systemd.unit=kild-machine.target" \
  -virtfs local,path=root,mount_tag=root,security_model=passthrough,readonly=on,multidevs=remap \
  -drive file=disk,if=virtio,format=raw,cache=unsafe -device virtio-rng-pci \
  -netdev user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:1-:1 -device virtio-net-pci,netdev=net,romfile= \
  -chardev file,id=console,path="$STATE/console",append=on -serial chardev:console \
  -chardev socket,id=events,path="$STATE/events" -serial chardev:events </dev/null
"""
MASKED = (
    "systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-modules-load.service kmod-static-nodes.service "
    "modprobe@.service systemd-sysusers.service systemd-random-seed.service systemd-hwdb-update.service "
    "sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount"
)


class Virtual(Supervisor):
    kind = "vm"
    boot = BOOT
    boot_sec = 300.0  # 20 s on an idle machine
    wants = "kild-agent.socket kild-agent.service kild-ready.service"
    namespaces = ("--net",)

    def prepare(self) -> dict[str, str]:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self.state / "events"))
        listener.listen()
        self.watch(listener, lambda: self.on_qemu_connects(listener))
        guest = Path(__file__).with_name("guest")
        return {"GUEST": str(guest), "KERNEL": str(find_kernel()), "MASKED_IN_VM": MASKED}

    def on_qemu_connects(self, listener: socket.socket) -> None:
        self.selector.unregister(listener)
        serial, _ = listener.accept()
        listener.close()
        self.told = b""
        self.watch(serial, lambda: self.on_serial_readable(serial))

    def on_serial_readable(self, serial: socket.socket) -> None:
        """The unit kild-ready tells that the machine is up, and that it goes down or reboots."""
        *words, self.told = (self.told + serial.recv(4096)).split(b"\r\n")
        for word in words:
            if word == b"leaving":
                self.begin_boot()
            elif word == b"ready":
                assert self.child
                self.leader = self.child.pid
                self.check()

    def restart(self) -> None:
        subprocess.Popen(enter(self.kind, self.leader, True, ["systemctl", "reboot"]), stdin=subprocess.DEVNULL)
