"""--sandbox: every promise is tried to be broken, from inside; and what an agent needs still works."""

import json
import re
from typing import Any

import pytest
from box import REPO, Box, wait_until
from pty_client import Terminal

ATTACKS = (REPO / "tests" / "attacks.py").read_text()
ALL = set(re.findall(r'^    "(.+?)": ', ATTACKS.partition("WORK")[0], re.M))
# What a workspace does not promise: it can be read, and there is a network.
READS = {"read an SSH key", "use the SSH agent", "read another home", "read what others printed", "connect by TCP"}
# In a home directory that ends with the session.
HOME = {"write to the home directory", "write to .bashrc"}
# These are kept in by Landlock's scopes only.
SCOPED = {"signal another", "signal its own shim", "trace its own shim", "use an abstract socket"}
SCOPED_ABI = 6

OUTSIDE = """
import os, socket, time
tcp = socket.create_server(("127.0.0.1", 7777))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0outside")
abstract.listen(9)
os.mkdir("/tmp/agent")
servers = []
for path in ("/run/daemon.sock", "/tmp/agent/sock"):
    servers.append(socket.socket(socket.AF_UNIX))
    servers[-1].bind(path)
    os.chmod(path, 0o666)
    servers[-1].listen(9)
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 3)
    time.sleep(600)
"""
SET_UP = """
mkdir -p /home/other /srv/open; echo x >/home/other/file; chmod 777 /srv/open
cp -p /usr/bin/id /usr/local/bin/root-id; chmod u+s /usr/local/bin/root-id
[ -e /run/daemon.sock ] || python3 -c "$0"
"""


def outside(box: Box) -> None:
    """What there is to be reached: a key, another home, files, servers."""
    box.root("sh", "-c", SET_UP, OUTSIDE)
    box.sh(
        """mkdir -p ~/.ssh ~/.config/systemd/user ~/work/sub; echo key >~/.ssh/id; touch /tmp/outside /dev/shm/outside
        echo x >/tmp/outside; echo x >/dev/shm/outside"""
    )


# There is no git on every machine: a repository as far as a sandbox looks at it.
REPOSITORY = 'mkdir -p "$1"/sub "$1"/.git/hooks; echo "[core]" >"$1"/.git/config; '


def wait_done(box: Box, name: str) -> None:
    """Until the session has said that it is done."""
    box.kildsvc("wait", name, "--for", "output=^done$", "--timeout", "60s", timeout=90)


def printed(box: Box, name: str) -> str:
    wait_done(box, name)
    text: str = wait_until(
        "it is in the journal", lambda: "done" in (out := box.kildsvc("logs", name).stdout) and out
    )
    return text


def attack(box: Box, name: str, profile: str, facts: dict[str, Any]) -> dict[str, Any]:
    path = f"/home/dev/work/{profile}"
    box.run("sh", "-c", f"{REPOSITORY} cat >$1/attacks.py", "sh", path, stdin=ATTACKS)
    box.kildsvc(
        "open", f"{name}-{profile}", "--sandbox", profile, "--cwd", path, "--env", "SSH_AUTH_SOCK=/tmp/agent/sock",
        "--", "sh", "-c", 'python3 attacks.py "$0"; echo done; sleep 1000', json.dumps(facts),
    )  # fmt: skip
    wait_done(box, f"{name}-{profile}")
    report: dict[str, Any] = json.loads(box.sh(f"cat {path}/report"))
    return report


@pytest.mark.smoke
@pytest.mark.timeout(120)
def test_every_way_out_is_shut(box: Box, name: str) -> None:
    outside(box)
    box.kildsvc("open", f"{name}-victim", "--", "sh", "-c", "echo victim speaks; sleep 1000")
    facts = {"victim": f"{name}-victim", "pid": box.agent_pid(f"{name}-victim"), "port": 7777, "kildsvc": box.kild}
    reports = {profile: attack(box, name, profile, facts) for profile in ("off", "workspace")}
    before = box.sh("ls -A ~; cat ~/.bashrc")
    reports["strict"] = attack(box, name, "strict", facts)
    out = {profile: set(report["out"]) for profile, report in reports.items()}
    # Without a sandbox all of it succeeds: these are ways out.
    assert ALL - out["off"] == set()
    shut = ALL if reports["off"]["landlock"] >= SCOPED_ABI else ALL - SCOPED
    assert out["workspace"] & shut == READS
    assert out["strict"] & shut == HOME
    assert box.sh("ls -A ~; cat ~/.bashrc") == before, "a home directory of its own"
    # And work goes on.
    assert [reports[profile]["failed"] for profile in reports] == [[], [], []]
    sessions = {one["sandbox"]: one["mark"]["state"] for one in box.json("list", "--agent", "sh") if one["mark"]}
    assert sessions == {"off": "working", "workspace": "working", "strict": "working"}
    assert "sandbox: strict" in box.kildsvc("status", f"{name}-strict").stdout


@pytest.mark.smoke
def test_a_life_inside(box: Box, name: str) -> None:
    """Attach, crash and recovery of the shim, exit code, last output, restart, another run: as outside."""
    script = (
        "echo started; read x; echo got $x; until [ -e go ]; do sleep .05; done; touch /srv/open/x && exit 9; exit 7"
    )
    box.root("mkdir", "-p", "-m", "777", "/srv/open")
    box.sh(REPOSITORY + 'printf "#!/bin/sh\n%s\n" "$2" >$1/agent; chmod +x $1/agent', "/home/dev/work", script)
    box.kildsvc("open", name, "--sandbox", "strict", "--cwd", "/home/dev/work", "--", "./agent")
    pid = box.agent_pid(name)
    with Terminal(box.argv(box.kild, "attach", name)) as terminal:
        terminal.read_until(rb"started")
        terminal.type(b"this\r")
        terminal.read_until(rb"got this")
        box.crash_shim(name)
        # Transient units are written out as text, and read again.
        box.run("systemctl", "--user", "daemon-reload")
        box.crash_shim(name)
        assert box.agent_pid(name) == pid
        box.sh("touch ~/work/go")
        assert terminal.wait() == 7
    assert box.wait_ended(name)["exit_code"] == 7
    assert box.sh(f"ls -A ~/.local/state/kildsvc/output/{name}") == "last\n"
    box.sh("rm ~/work/go")
    box.run("systemctl", "--user", "restart", f"kild-{name}")
    box.kildsvc("send", name, "again", "--enter")
    box.sh("touch ~/work/go")
    assert box.wait_ended(name)["exit_code"] == 7, "it is outside now"
    # Remembered, until another is asked for.
    script = "touch /srv/open/x; exit 3"
    done = box.kildsvc("open", name, "--cwd", "/home/dev/work", "--", "sh", "-c", script, check=False)
    assert (done.returncode, "exit code 3" in done.stderr, "Read-only" in done.stderr) == (5, True, True), done.stderr
    box.kildsvc("open", name, "--sandbox", "off", "--", "sh", "-c", "touch /srv/open/x && sleep 1000")
    assert box.json("status", name)["sandbox"] == "off"


REFUSED = [
    (["--sandbox", "workspace", "--cwd", "/home/dev"], "'/home/dev' as a whole"),
    (["--sandbox", "strict", "--cwd", "/"], "'/' as a whole"),
    (["--sandbox", "strict", "--cwd", "/tmp"], "'/tmp' as a whole"),
    (["--sandbox", "workspace", "--cwd", "/home/dev/.local"], "'/home/dev/.local' as a whole"),
    (["--sandbox", "workspace", "--cwd", "/home/dev/work", "--write", "/home"], "'/home' as a whole"),
    (["--sandbox", "workspace", "--cwd", "/home/dev/work", "--write", "/no"], "does not exist"),
    (["--sandbox", "workspace", "--cwd", "/home/dev/work/a b"], "no blanks"),
    (["--sandbox", "nosuch", "--cwd", "/home/dev/work"], "there are workspace, strict, off"),
    (["--cwd", "/home/dev/work", "--write", "/srv"], "there is none"),
]


def test_what_protects_nothing_is_refused(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/work/'a b' ~/.local")
    for options, message in REFUSED:
        done = box.kildsvc("open", name, *options, "--", "sleep", "1000", check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr
    assert box.json("list") == []


def test_no_user_namespaces(box: Box, name: str) -> None:
    """Told before anything is made."""
    box.sh("mkdir -p ~/work")
    opener = [
        box.kild,
        "open",
        name,
        "--json",
        "--sandbox",
        "workspace",
        "--cwd",
        "/home/dev/work",
        "--",
        "sleep",
        "9",
    ]
    confined = ["systemd-run", "--user", "--quiet", "--pipe", "--wait", "-p", "RestrictNamespaces=yes"]
    done = box.run(*confined, *opener, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "NO_SANDBOX"
    assert box.json("list") == []


UNDONE = [
    ("TemporaryFileSystem=", "/bus' can be reached"),
    ("NoNewPrivileges=no\nSystemCallFilter=\nRestrictNamespaces=no\nRestrictSUIDSGID=no", "sandbox does not hold"),
    ("ProtectHome=no\nProtectSystem=no", "can be written to"),
    ("ProtectControlGroups=no\nProtectKernelTunables=no", "'/sys/fs/cgroup' can be written to"),
    ("PrivateNetwork=no", "its net namespace is the one outside"),
]


def test_a_sandbox_that_does_not_hold_has_no_agent(box: Box, name: str) -> None:
    """A drop-in undoes a part of it: the shim notices, whatever systemd made of it."""
    undo = """mkdir -p ~/work ~/.config/systemd/user/kild-.service.d; cd ~/.config/systemd/user/kild-.service.d
        printf '[Service]\n%s\n' "$1" >undo.conf; systemctl --user daemon-reload"""
    try:
        for setting, message in UNDONE:
            box.sh(undo, setting)
            command = ("open", name, "--sandbox", "strict", "--cwd", "/home/dev/work", "--", "touch", "ran")
            done = box.kildsvc(*command, check=False)
            assert (done.returncode, message in done.stderr) == (5, True), done.stderr
        assert box.sh("ls ~/work") == ""
        assert box.json("list") == []
    finally:
        box.sh("rm -r ~/.config/systemd/user/kild-.service.d; systemctl --user daemon-reload")


@pytest.mark.parametrize("profile", ["workspace", "strict"])
def test_a_linked_work_tree(box: Box, name: str, profile: str) -> None:
    """Commits go into the repository; its hooks, its config and the other work trees do not change."""
    box.sh(
        """mkdir ~/work; cd ~/work; git config --global user.email a@b; git config --global user.name n
        git init -q main; cd main; git commit -q --allow-empty -m one; git worktree add -q ../tree"""
    )
    script = """
        try() { "$@" 2>/dev/null </dev/null && echo "out: $*"; }
        echo x >file; git add file; git commit -q -m two && git branch other && git log --oneline | wc -l
        m=../main; try touch $m/file; try touch $m/.git/hooks/post-commit; try cp /dev/null $m/.git/config
        try touch $m/.git/commondir; try mv $m/.git $m/git; try git config a.b c
        try mv .git git; echo gitdir: evil >new; try mv -f new .git
        own=$(git rev-parse --git-dir); try mv -f new $own/commondir; try rm -f $own/commondir; try mv $own $own.x
        echo done; sleep 1000"""
    box.kildsvc("open", name, "--sandbox", profile, "--cwd", "/home/dev/work/tree", "--", "sh", "-c", script)
    shown = printed(box, name)
    assert shown.replace("out: touch ../main/file\n", "" if profile == "strict" else "!") == "2\ndone\n"
    assert box.sh("ls -A ~/work/main") == ".git\n"
    assert "two" in box.sh("git -C ~/work/main log --oneline tree")


def test_a_forged_work_tree_opens_nothing(box: Box, name: str) -> None:
    box.sh(
        """mkdir -p ~/work/tree ~/.ssh/worktrees/x ~/.ssh/objects; cd ~/work/tree
        echo 'gitdir: ../../.ssh/worktrees/x' >.git; echo ../.. >~/.ssh/worktrees/x/commondir"""
    )
    box.kildsvc(
        "open", name, "--sandbox", "workspace", "--cwd", "/home/dev/work/tree", "--", "sh", "-c",
        "touch ~/.ssh/objects/y ~/.ssh/worktrees/x/y; echo done; sleep 1000",
    )  # fmt: skip
    wait_done(box, name)
    assert box.sh("find ~/.ssh -name y; rm -r ~/.ssh/worktrees ~/.ssh/objects") == ""


def test_a_session_cannot_trick_who_asks_about_it(box: Box, name: str) -> None:
    """Its own directory is its to write: pipes and links there neither stop nor mislead us."""
    box.sh("mkdir -p ~/work ~/.ssh; echo key >~/.ssh/id")
    box.kildsvc("open", f"{name}-victim", "--", "cat")
    script = f"""cd $XDG_RUNTIME_DIR/kildsvc/{name}; rm -f run sock mark; mkfifo run mark
        ln -s ../{name}-victim/sock sock; ln -s /home/dev/.ssh dir
        cd /home/dev/.local/state/kildsvc/output/{name}; mkfifo last; echo done; sleep 1000"""
    box.kildsvc("open", name, "--sandbox", "workspace", "--cwd", "/home/dev/work", "--", "sh", "-c", script)
    wait_until("it is done", lambda: "done" in box.journal(name))
    assert {one["name"] for one in box.json("list")} == {name, f"{name}-victim"}
    assert box.kildsvc("send", name, "for nobody else", check=False).returncode != 0
    box.kildsvc("stop", name)
    assert box.json("status", name)["state"] == "stopped"
    box.kildsvc("destroy", name)
    assert box.sh("cat ~/.ssh/id") == "key\n"
    assert box.kildsvc("logs", f"{name}-victim").stdout == ""


@pytest.mark.parametrize("profile", ["workspace", "strict"])
def test_an_agent_installed_at_home(box: Box, name: str, profile: str) -> None:
    """It is found with its interpreter and its own files, keeps its state, and cannot change what it runs next."""
    box.sh(
        """mkdir -p ~/work ~/tools/bin ~/.local/bin ~/.local/share/claude/bin ~/.local/share/claude/lib
        mkdir -p ~/.local/share/other ~/.claude; echo '{}' >~/.claude/settings.json
        ln -sf ../share/claude/bin/claude ~/.local/bin/claude; ln -sf /usr/bin/python3 ~/tools/bin/snake
        cd ~/.local/share/claude; echo data >lib/data; printf %s "$1" >bin/claude; chmod +x bin/claude""",
        """#!/usr/bin/env snake
import os, time
home = os.path.expanduser("~")
print(open(os.path.dirname(os.path.realpath(__file__)) + "/../lib/data").read().strip())
def attempt(what, *arguments):
    try:
        what(*arguments)
        print("did", what.__name__, *(os.path.basename(a) for a in arguments))
    except OSError as error:
        print("no", what.__name__, *(os.path.basename(a) for a in arguments))
def write(path):
    open(path, "a").write(" ")
attempt(write, home + "/.claude/history")
attempt(write, home + "/.claude.json")
attempt(write, home + "/.claude/settings.json")
write(home + "/.claude/new")
attempt(os.replace, home + "/.claude/new", home + "/.claude/settings.json")
attempt(write, __file__)
attempt(os.listdir, home + "/.local/share/other")
print("done", flush=True)
time.sleep(1000)
""",
    )
    path = "/home/dev/.local/bin:/home/dev/tools/bin:/usr/bin:/bin"
    box.run(
        "env", f"PATH={path}", box.kild, "open", name, "--sandbox", profile, "--cwd", "/home/dev/work", "--", "claude"
    )
    shown = printed(box, name)
    assert shown.splitlines() == [
        "data",
        "did write history",
        "did write .claude.json",
        "no write settings.json",
        "no replace new settings.json",
        "no write claude",
        f"{'did' if profile == 'workspace' else 'no'} listdir other",
        "done",
    ]
    assert box.sh("cat ~/.claude.json").strip() == "{}"
    box.sh("rm -rf ~/.claude ~/.claude.json ~/tools ~/.local/bin ~/.local/share")


def test_a_profile_of_ones_own(box: Box, name: str) -> None:
    box.sh(
        """mkdir -p ~/work/extra ~/work/app ~/.config/kildsvc; cat >~/.config/kildsvc/config.toml <<'END'
agents.sh.sandbox = "lab"
[sandboxes.lab]
base = "strict"
network = true
write = ["~/work/extra"]
read = ["~/.profile"]
hide = ["/srv", "/etc/hostname"]
END"""
    )
    try:
        outside(box)
        script = """cat ~/.profile >/dev/null && touch ~/work/extra/made && echo good; ls -A ~ /srv; cat /etc/hostname
            python3 -c 'import socket; socket.create_connection(("127.0.0.1", 7777)); print("connected")'
            echo done; sleep 1000"""
        box.kildsvc("open", name, "--cwd", "/home/dev/work/app", "--", "sh", "-c", script)
        shown = printed(box, name)
        assert box.json("status", name)["sandbox"] == "lab"
        assert "good" in shown
        assert "connected" in shown
        assert "open" not in shown
        assert "/etc/hostname: Permission denied" in shown
        assert ".bashrc" not in shown
    finally:
        box.sh("rm -r ~/.config/kildsvc")
