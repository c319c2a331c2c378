"""attach: the agent's own terminal, for several at once, and the caller's own given back."""

import hashlib
import os
import signal
import struct

import pytest
from box import Box, wait_until
from pty_client import Terminal

DETACH = b"\0\x11"


def attach(box: Box, name: str, *options: str, rows: int = 24, cols: int = 80) -> Terminal:
    return Terminal(box.argv(box.kild, "attach", name, *options), rows, cols)


@pytest.mark.smoke
def test_type_and_read(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "--norc", "-i")
    with attach(box, name) as terminal:
        terminal.read_until(rb"detaches")
        terminal.type(b"echo $((40+2))\r")
        terminal.read_until(rb"[\r\n]42\r\n")
        terminal.type(b"exit 5\r")
        assert terminal.wait() == 5
        assert b"exit code 5" in terminal.seen
        assert terminal.modes() == terminal.before
    assert box.wait_ended(name)["exit_code"] == 5


def test_ctrl_c_reaches_the_agent(box: Box, name: str) -> None:
    box.kildsvc(
        "open", name, "--", "bash", "-c", "trap 'echo got it; exit 3' INT; echo ready; while :; do sleep .05; done"
    )
    with attach(box, name) as terminal:
        terminal.read_until(rb"ready")
        terminal.type(b"\x03")
        terminal.read_until(rb"got it")
        assert terminal.wait() == 3


@pytest.mark.parametrize("keys", [DETACH, b"\x1b[32;5u\x1b[113;5u", b"\x1b[27;5;32~\x1b[27;5;113~"])
def test_detach(box: Box, name: str, keys: bytes) -> None:
    box.kildsvc("open", name, "--", "cat")
    with attach(box, name) as terminal:
        terminal.read_until(rb"detaches")
        terminal.type(keys)
        assert terminal.wait() == 0
        assert b"detached" in terminal.seen
        assert terminal.modes() == terminal.before
    assert box.json("status", name)["state"] == "running"


def test_a_partial_chord_is_passed_on(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "stty raw -echo; echo ready; head -c 3 | od -An -tx1; sleep 1000")
    with attach(box, name) as terminal:
        terminal.read_until(rb"ready")
        terminal.type(b"\0ab")
        terminal.read_until(rb"00 61 62")


def test_the_screen_so_far_is_shown(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "seq 5; sleep 1000")
    with attach(box, name) as terminal:
        terminal.read_until(rb"1\r\n2\r\n3\r\n4\r\n5\r\n")


def test_several_clients_and_a_read_only_one(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "cat")
    with attach(box, name) as one, attach(box, name) as two, attach(box, name, "--read-only") as watcher:
        for terminal in (one, two, watcher):
            terminal.read_until(rb"detaches")
        wait_until("two are attached", lambda: "2 attached" in box.show(name, "StatusText")["StatusText"])
        one.type(b"from one\r")
        for terminal in (one, two, watcher):
            terminal.read_until(rb"from one\r\nfrom one")
        watcher.type(b"not heard\r")
        two.type(b"from two\r")
        assert b"not heard" not in watcher.read_until(rb"from two\r\nfrom two")


TELL_SIZE = """
import os, signal
signal.signal(signal.SIGWINCH, lambda *_: print(*os.get_terminal_size()[::-1], flush=True))
while True:
    signal.pause()
"""


def test_the_size_follows_who_typed_last(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "/usr/bin/python3", "-c", TELL_SIZE)
    with attach(box, name, rows=30, cols=90) as one:
        one.read_until(rb"30 90")
        with attach(box, name, rows=40, cols=120) as two:
            two.read_until(rb"40 120")
            one.type(b"x")
            one.read_until(rb"30 90")
            two.resize(41, 121)
            two.read_until(rb"41 121")
        with attach(box, name, "--read-only", rows=10, cols=10) as watcher:
            watcher.read_until(rb"41 121")
        assert b"10 10" not in one.drain()


def test_agent_killed_by_a_signal(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    with attach(box, name) as terminal:
        terminal.read_until(rb"detaches")
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        box.run("kill", "-KILL", str(box.agent_pid(name)))
        assert terminal.wait() == 137
        assert b"SIGKILL" in terminal.seen


def test_stopped_by_another(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    with attach(box, name) as terminal:
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        box.kildsvc("stop", name)
        assert terminal.wait() == 143
        assert b"was stopped" in terminal.seen


@pytest.mark.smoke
def test_goes_on_when_the_shim_is_killed(box: Box, name: str) -> None:
    count = "read x; for i in {1..800}; do echo line $i; sleep .01; done; exit 4"
    box.kildsvc("open", name, "--", "bash", "-c", count)
    with attach(box, name) as terminal:
        # Attached before anything is printed: what was there is drawn, not printed line by line.
        terminal.read_until(rb"detaches")
        terminal.type(b"\r")
        terminal.read_until(rb"line 1\r\n")
        box.crash_shim(name, 3)
        assert terminal.wait(60) == 4
        lines = [line for line in terminal.seen.split(b"\r\n") if line.startswith(b"line ")]
    # Each line once, in order: the attachment goes on where it was.
    assert lines == [b"line %d" % i for i in range(2, 801)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_client_told_to_go_gives_the_terminal_back(box: Box, name: str, number: signal.Signals) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "printf '\\033[?1049h\\033[?1000h\\033[?2004h'; sleep 1000")
    with attach(box, name) as terminal:
        terminal.read_until(rb"1049h")
        wait_until("raw", lambda: terminal.modes() != terminal.before)
        box.run("pkill", f"-{number.name}", "-f", f"kildsvc attach {name}")
        assert terminal.wait() == 128 + number
        assert terminal.modes() == terminal.before
        for mode in (b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?2004l"):
            assert mode in terminal.seen
    assert box.json("status", name)["state"] == "running"


def test_the_window_is_closed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "cat")
    with attach(box, name) as terminal:
        terminal.read_until(rb"detaches")
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        terminal.hang_up()
        wait_until("detached", lambda: "attached" not in box.show(name, "StatusText")["StatusText"])
    assert box.json("status", name)["state"] == "running"
    assert not box.processes(f"kildsvc attach {name}")


def test_a_client_is_killed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "cat")
    with attach(box, name) as terminal:
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        box.run("pkill", "-KILL", "-f", f"kildsvc attach {name}")
        terminal.wait()
    wait_until("noticed", lambda: "attached" not in box.show(name, "StatusText")["StatusText"])
    assert box.json("status", name)["state"] == "running"


def test_a_stalled_client_slows_nobody(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "read x; seq 3000000; echo finished; read x")
    with attach(box, name) as stalled:
        stalled.read_until(rb"detaches")
        wait_until("attached", lambda: "1 attached" in box.show(name, "StatusText")["StatusText"])
        box.run("pkill", "-STOP", "-f", f"kildsvc attach {name}")
        with attach(box, name) as live:
            live.read_until(rb"detaches")
            live.type(b"go\r")
            live.read_until(rb"finished", 40)
        box.run("pkill", "-CONT", "-f", f"kildsvc attach {name}")
        stalled.read_until(rb"finished", 40)


def test_open_with_attach(box: Box, name: str) -> None:
    with Terminal(
        box.argv(box.kild, "open", name, "--attach", "--", "sh", "-c", "echo hi; sleep .5; exit 9"), 33, 99
    ) as terminal:
        terminal.read_until(rb"hi")
        assert terminal.wait() == 9


def test_not_running(box: Box, name: str) -> None:
    assert box.kildsvc("attach", name, check=False).returncode == 125
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.kildsvc("stop", name)
    done = box.kildsvc("attach", name, check=False)
    assert done.returncode == 125
    assert "is not running" in done.stderr


def test_large_paste_arrives_whole(box: Box, name: str) -> None:
    # 300 KB is far more than the terminal's input queue holds: the agent reads it slowly, nothing is dropped.
    box.kildsvc(
        "open",
        name,
        "--",
        "bash",
        "-c",
        "stty raw -echo; echo ready; sleep .5; head -c 300000 | sha256sum; sleep 1000",
    )
    data = os.urandom(150000).hex().encode()
    with attach(box, name) as terminal:
        terminal.read_until(rb"ready")
        terminal.type(data[:1])
        view = memoryview(data)[1:]
        while view:
            view = view[os.write(terminal.fd, view[:4096]) :]
        terminal.read_until(hashlib.sha256(data).hexdigest().encode(), 30)


SEND = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
data = b''
try:
    sock.sendall(bytes.fromhex(sys.argv[2]))
    sock.shutdown(socket.SHUT_WR)
except OSError:
    pass
try:
    while part := sock.recv(65536):
        data += part
except OSError:
    pass  # closed with our bytes unread
sys.stdout.buffer.write(data[:2000])
"""


def send_raw(box: Box, name: str, data: bytes, user: str = "run") -> str:
    path = f"/run/user/1000/kildsvc/{name}/sock"
    call = box.run if user == "run" else box.root
    return call("/usr/bin/python3", "-c", SEND, path, data.hex(), check=False).stdout


def test_garbage_on_the_socket(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "cat")
    shim = box.shim_pid(name)
    hello = struct.pack("<BI", 1, 15) + struct.pack("<HBHHQ", 1, 0, 24, 80, 0)
    for data in [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(5000),
        b"\x01\xff\xff\xff\xff",
        struct.pack("<BI", 2, 5) + b"early",
        hello + b"\x02\xff\xff\xff\x7f",
        hello + struct.pack("<BI", 99, 3) + b"abc",
        hello[:10],
        struct.pack("<BI", 1, 3) + b"abc",
    ]:
        send_raw(box, name, data)
    assert "speaks protocol" in send_raw(box, name, struct.pack("<BI", 1, 15) + struct.pack("<HBHHQ", 77, 0, 1, 1, 0))
    assert box.shim_pid(name) == shim
    assert box.json("status", name)["state"] == "running"


def test_another_user_is_refused(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "cat")
    hello = struct.pack("<BI", 1, 15) + struct.pack("<HBHHQ", 1, 0, 24, 80, 0)
    # root passes the directory's permissions; the shim itself looks at who it is.
    assert "belongs to another user" in send_raw(box, name, hello, "root")


# Takes its shim's place at the socket, and answers every HELLO with what it was given.
IMPOSTOR = r"""import os, socket, sys
path = os.environ["XDG_RUNTIME_DIR"] + "/kildsvc/" + os.environ["KILD_SESSION"] + "/sock"
os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("bound", flush=True)
answers = [b"\x10\x05\0\0\0[1,2]", b"\x10\xff\xff\xff\xff", b"\x15\x02\0\0\0{}"]
while True:
    for answer in answers:
        client = listener.accept()[0]
        client.recv(100)
        client.sendall(answer)
        client.recv(100)"""


def test_an_agent_in_its_shims_place(box: Box, name: str) -> None:
    """It can spoil its own session's attach, with one clear line; nothing else."""
    box.sh('mkdir -p ~/work; printf %s "$1" >~/work/impostor.py', IMPOSTOR)
    box.kildsvc("open", name, "--", "python3", "-u", "/home/dev/work/impostor.py")
    wait_until("it listens", lambda: "bound" in box.kildsvc("logs", name).stdout)
    for command in (["screen", name], ["send", name, "x"], ["wait", name, "--for", "output=x"], ["attach", name]):
        for _ in range(3):
            done = box.kildsvc(*command, check=False)
            assert done.returncode != 0
            assert done.stderr.startswith("kildsvc: what answers at this session's socket is not a shim"), done.stderr
            assert done.stderr.count("\n") == 1
    assert box.json("status", name)["state"] == "running"
