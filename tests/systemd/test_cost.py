"""What a session costs, in what can be counted: never in seconds, which are the machine's."""

import json
import os

from box import Box, wait_until
from pty_client import Terminal

MEGABYTES = 20
PRINT = "yes 'a line of what an agent prints, as long as most' | head -c %d000000"


def io(box: Box, pid: int) -> dict[str, int]:
    """Bytes and calls of read(2), readv(2), write(2) and writev(2) so far, as the kernel counts them."""
    lines = box.root("cat", f"/proc/{pid}/io").stdout.splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def switches(box: Box, *pids: int) -> int:
    files = [f"/proc/{pid}/status" for pid in pids]
    return sum(int(n) for n in box.run("awk", "/^voluntary_ctxt/ {print $2}", *files).stdout.split())


def kilobytes(box: Box, field: str, *pids: int) -> int:
    files = [f"/proc/{pid}/smaps_rollup" for pid in pids]
    return int(box.run("awk", f"/^{field}/ {{s += $2}} END {{print s}}", *files).stdout)


def test_a_flood_takes_few_calls(box: Box, name: str) -> None:
    """A terminal hands out 4095 bytes at most; a read or write of less than a quarter of that is a call too many."""
    box.kildsvc("open", name, "--", "bash", "-c", f"read key; {PRINT % MEGABYTES}; echo finished; read key")
    shim = box.shim_pid(name)
    with Terminal(box.argv(box.kild, "attach", name)) as terminal:
        terminal.read_until(rb"detaches")
        [client] = box.processes(f"kildsvc attach {name}$")
        before = io(box, shim), io(box, client)
        terminal.type(b"\r")
        end = b""
        while b"finished" not in end:
            end = end[-10:] + os.read(terminal.fd, 65536)
        after = io(box, shim), io(box, client)
    reads, read = (after[0][key] - before[0][key] for key in ("syscr", "rchar"))
    writes, written = (after[1][key] - before[1][key] for key in ("syscw", "wchar"))
    assert read >= MEGABYTES * 1e6
    assert read / reads >= 1000
    assert written / writes >= 1000


def test_who_watches_a_flood_is_waited_for_but_not_for_long(box: Box, name: str) -> None:
    """One that takes nothing at all holds the agent up for a second, by the agent's own clock, and not for good."""
    flood = f"s=$EPOCHREALTIME; {PRINT % 3}; echo $s $EPOCHREALTIME >>~/out"
    box.kildsvc("open", name, "--", "bash", "-c", f"read key; {flood}; {flood}; read key")
    with Terminal(box.argv(box.kild, "attach", name)) as terminal:
        terminal.read_until(rb"detaches")
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        box.run("pkill", "-STOP", "-f", f"kildsvc attach {name}$")
        box.kildsvc("send", name, "--enter", "go")
        wait_until("printed twice", lambda: box.sh("cat ~/out", check=False).count("\n") == 2, 60)
    start, end = box.sh("head -n1 ~/out").split()
    assert float(end) - float(start) >= 0.9


def test_nothing_wakes_an_idle_session(box: Box, name: str) -> None:
    """Of a shim that looked after something four times a second there would be twelve. A silence of 30 s is told."""
    box.kildsvc("open", name, "--", "sh", "-c", "echo hello; exec sleep 1000")
    shim = box.shim_pid(name)
    waiter = int(box.run("pgrep", "-P", str(shim)).stdout)
    wait_until("it is journaled", lambda: "hello" in box.journal(name))
    before = switches(box, shim, waiter)
    box.run("sleep", "3")
    assert switches(box, shim, waiter) - before <= 3
    assert kilobytes(box, "Private_", shim, waiter) <= 6 * 1024
    # With what both share since the fork, and the ring.
    assert kilobytes(box, "Pss_(Anon|Shmem)", shim, waiter) <= 8 * 1024


COUNT = """
import json, kildsvc
from kildsvc.systemd.manager import Manager
calls = 0

def counted(call):
    def one_more(*arguments):
        global calls
        calls += 1
        return call(*arguments)
    return one_more

Manager._get, Manager._call = counted(Manager._get), counted(Manager._call)
found = {}
for count in (1, 4):
    while len(kildsvc.sessions()) < count:
        kildsvc.open(f"counted{len(kildsvc.sessions())}", ["sleep", "1000"], grace=0)
    calls = 0
    kildsvc.sessions()
    found[count] = calls
print(json.dumps(found))
"""


def test_a_list_asks_systemd_little(box: Box) -> None:
    """Two questions of each session, and two in all."""
    one, four = json.loads(box.python(COUNT)).values()
    assert (four - one) / 3 <= 2
    assert one <= 2 + 2
