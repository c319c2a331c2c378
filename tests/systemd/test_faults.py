"""What the fault program (tests/faults) and the fuzz tests have found, each by itself."""

from box import Box, wait_until

WAIT_THEN = "until [ -e ~/out ]; do sleep .05; done; exit 7"


def keep_alive(box: Box, name: str) -> int:
    box.kildsvc("open", name, "--", "bash", "-c", WAIT_THEN)
    return box.agent_pid(name)


def ends_with_7(box: Box, name: str, pid: int) -> None:
    """It is the same agent, and its shim still sees how it ends."""
    session = box.json("status", name)
    assert (session["state"], session["pid"]) == ("running", pid)
    box.sh("touch ~/out")
    assert box.wait_ended(name)["exit_code"] == 7


def test_a_few_escapes_that_stand_for_megabytes_reach_the_journal(box: Box, name: str) -> None:
    # Such an entry was too large for journald, was tried again for ever, and nothing after it was sent.
    script = "for i in {1..4000}; do printf '\\033[500Cx\\n'; done; sleep .5; echo the end; exit 3"
    box.kildsvc("open", name, "--grace", "0", "--", "bash", "-c", script)
    assert box.wait_ended(name)["exit_code"] == 3
    assert box.kildsvc("logs", name).stdout.endswith("the end\n")
    assert "ended: exit 3" in box.journal(name)


def test_a_number_of_many_digits_before_a_question(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", f"printf '\\033[%05000dA\\033[6n' 1; {WAIT_THEN}")
    ends_with_7(box, name, box.agent_pid(name))


def test_more_connections_than_there_may_be(box: Box, name: str) -> None:
    pid = keep_alive(box, name)
    # The last ones are gone before the shim can refuse them.
    box.run(
        "python3",
        "-c",
        """if 1:
        import os, signal, socket, sys
        kept = [socket.socket(socket.AF_UNIX) for _ in range(600)]
        for sock in kept:
            sock.connect(sys.argv[1])
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        for _ in range(100):  # as many as its queue holds
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.connect_ex(sys.argv[1])
            sock.close()
        os.kill(int(sys.argv[2]), signal.SIGCONT)
        """,
        box.sh("echo $XDG_RUNTIME_DIR").strip() + f"/kildsvc/{name}/sock",
        str(box.shim_pid(name)),
    )
    ends_with_7(box, name, pid)


def test_no_descriptors_left(box: Box, name: str) -> None:
    pid = keep_alive(box, name)
    shim = box.shim_pid(name)
    used = box.sh(f"ls /proc/{shim}/fd | wc -l").strip()
    box.run("prlimit", "--pid", str(shim), f"--nofile={used}:")
    screen = box.popen(box.kild, "screen", name)
    box.sh("echo still there >/dev/pts/0", check=False)
    try:
        # The client waits in the queue: the shim asks for a descriptor again and again, but not all the time.
        box.sh(f"sleep 1.2; [ $(cut -d' ' -f14 /proc/{shim}/stat) -lt 100 ]")
        assert box.shim_pid(name) == shim
        box.run("prlimit", "--pid", str(shim), "--nofile=1024:")
        assert screen.wait(20) == 0
    finally:
        screen.kill()
        screen.wait()
    ends_with_7(box, name, pid)


def test_stopped_with_no_room_in_the_runtime_directory(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", f"(trap '' TERM HUP; exec sleep 4242) & {WAIT_THEN}")
    runtime = box.sh("echo $XDG_RUNTIME_DIR").strip()
    total, free = (int(n) for n in box.sh(f"stat -f -c '%c %d' {runtime}").split())
    box.root("mount", "-o", f"remount,nr_inodes={total - free}", runtime)
    try:
        box.kildsvc("stop", name)
        assert box.json("status", name)["state"] == "stopped"
        assert not box.processes("sleep 4242")
    finally:
        box.root("mount", "-o", f"remount,nr_inodes={total}", runtime)


def test_a_session_runs_while_its_shim_is_started_again(box: Box, name: str) -> None:
    pid = keep_alive(box, name)
    # systemd runs the reaper before it starts the shim again: here it takes its time.
    box.sh(f"cd $XDG_RUNTIME_DIR/kildsvc/{name}/*.shim; printf 'sleep 2\\nexit 0\\n' >reap.sh")
    box.run("kill", "-KILL", str(box.shim_pid(name)))
    wait_until("the reaper runs", lambda: box.show(name, "SubState")["SubState"] == "stop-post")
    session = box.json("status", name)
    assert (session["state"], session["pid"]) == ("running", pid)
    assert box.show(name, "SubState")["SubState"] == "stop-post"
    wait_until("it is back", lambda: box.show(name, "SubState")["SubState"] == "running")
    ends_with_7(box, name, pid)


def test_what_is_typed_to_a_shim_that_is_killed_goes_to_the_next(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", "read word; echo it was $word; sleep 1000")
    shim = box.shim_pid(name)
    box.run("kill", "-STOP", str(shim))
    sender = box.popen(box.kild, "send", name, "hello", "--enter")
    # In the socket's queue, where nobody answers.
    waits = "cd /proc/$(pgrep -o -f 'kildsvc send') && grep -q poll wchan && ls -l fd | grep socket:"
    wait_until("it waits", lambda: box.sh(waits, check=False))
    box.run("kill", "-KILL", str(shim))
    assert sender.wait(20) == 0
    wait_until("it was read", lambda: "it was hello" in box.kildsvc("logs", name).stdout)


def test_the_manager_is_executed_anew_while_a_verb_waits(box: Box, name: str) -> None:
    opener = box.popen(
        box.kild, "open", name, "--grace", "3s", "--", "bash", "-c", "trap 'sleep 3' TERM; sleep 1000 & wait; wait"
    )
    wait_until("the agent is there", lambda: box.processes("sleep 1000"))
    box.run("systemctl", "--user", "daemon-reexec")
    assert opener.wait(30) == 0
    assert box.json("status", name)["state"] == "running"
    stopper = box.popen(box.kild, "stop", name)
    wait_until("it is being stopped", lambda: box.show(name, "ActiveState")["ActiveState"] == "deactivating")
    box.run("systemctl", "--user", "daemon-reexec")
    assert stopper.wait(30) == 0
    assert box.json("status", name)["state"] == "stopped"


def test_what_a_killed_open_leaves_is_in_nobodys_way(box: Box, name: str) -> None:
    # The keeper alone: it is started first.
    start = (
        "call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StartTransientUnit"
    )
    keeper = "kildkeep-" + name.replace("-", "\\x2d") + ".slice"
    what = ["ssa(sv)a(sa(sv))", keeper, "fail", "1", "After", "as", "1", f"kild-{name}.service", "0"]
    box.run("busctl", "--user", *start.split(), *what)
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.kildsvc("destroy", "--force", name)
    # A lock and the beginning of a run.
    box.sh(f"cd $XDG_RUNTIME_DIR/kildsvc && mkdir {name} && touch .{name}.lock {name}/1.json")
    assert box.kildsvc("destroy", name, check=False).returncode == 4
    assert name not in box.sh("ls -A $XDG_RUNTIME_DIR/kildsvc")


def test_an_agent_that_is_up_is_known_to_be_however_late(box: Box, name: str) -> None:
    """When its shim could not write that down; it matters while that one is started again."""
    ready = f"/run/user/1000/kildsvc/{name}/ready"
    opener = box.popen(box.kild, "open", name, "--grace", "2s", "--", "sh", "-c", "read key; echo $key; read key")
    stored = "NFileDescriptorStore"
    wait_until("the agent is there, and held", lambda: box.show(name, stored) == {stored: "5"})
    shim = str(box.shim_pid(name))
    used = box.sh(f"ls /proc/{shim}/fd | wc -l").strip()
    box.run("prlimit", "--pid", shim, f"--nofile={used}:")
    assert opener.wait(30) == 0
    assert int(box.sh(f"cat {ready}")) == 0
    box.run("prlimit", "--pid", shim, "--nofile=1024:")
    box.kildsvc("send", name, "hello", "--enter")
    wait_until("it is written down", lambda: int(box.sh(f"cat {ready}")) == box.agent_pid(name))
