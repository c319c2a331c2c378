"""TAB in real shells, and what a command costs before it does anything."""

import re
from pathlib import Path

from box import Box
from pty_client import Terminal

OPEN = """
import kildsvc
kildsvc.open("worker-1", ["sleep", "1000"], note="the first")
kildsvc.open("worker-2", ["sleep", "1000"])
kildsvc.open("finished", ["true"], grace=0).wait()
"""
PREPARE = {
    "bash": (
        ["--norc", "-i"],
        b"PS1='$ '; bind 'set show-all-if-ambiguous on'; source <(kildsvc completion bash); echo rea''dy\n",
    ),
    "zsh": (
        ["-f", "-i"],
        b"PS1='$ '; zle_highlight=(none); autoload -Uz compinit && compinit -u -D; "
        b"source <(kildsvc completion zsh); echo rea''dy\n",
    ),
}


def in_shell(box: Box, *command: str) -> list[str]:
    path = f"PATH={Path(box.kild).parent}:/usr/bin:/bin"
    return ["env", path, "TERM=xterm", "HOME=/home/dev", *command]


def test_completion(box: Box) -> None:
    box.python(OPEN)
    for shell in PREPARE:
        in_a_terminal(box, shell)
    in_fish(box)


def in_a_terminal(box: Box, shell: str) -> None:
    options, prepare = PREPARE[shell]
    with Terminal(box.argv(*in_shell(box, shell, *options)), cols=120) as terminal:
        terminal.type(prepare)
        terminal.read_until(b"ready\r")

        def tab(line: bytes, expected: bytes) -> bytes:
            terminal.type(line + b"\t")
            shown = terminal.read_until(expected)
            terminal.type(b"\x15")  # Ctrl+U: the line is taken back
            return shown

        tab(b"kildsvc sto", b"kildsvc stop ")
        tab(b"kildsvc logs f", b"logs finished ")
        tab(b"kildsvc open --sandb", b"--sandbox ")
        tab(b"kildsvc open x --agent=clau", b"--agent=claude ")
        tab(b"kildsvc list --state pau", b"--state paused ")
        shown = tab(b"kildsvc stop worker-", b"worker-1.*worker-2")  # both begin alike: they are shown
        assert b"finished" not in shown
        assert shell == "bash" or re.search(rb"worker-1 +-- running: sleep in ~, the first", shown)
        # Nobody to ask: nothing is offered, and nothing said into the line.
        terminal.type(b"export XDG_RUNTIME_DIR=/nonexistent; echo g''one\n")
        terminal.read_until(b"gone\r")
        terminal.read_until(rb"\$ ")
        shown = tab(b"kildsvc stop w", b"\x07")
        assert b"worker" not in shown and b"kildsvc:" not in shown


def in_fish(box: Box) -> None:
    script = 'kildsvc completion fish | source; for line in $argv; echo "== $line"; complete -C $line; end'
    lines = ["kildsvc attach ", "kildsvc open ", "kildsvc open x --agent=cl", "kildsvc config s"]
    found = box.run(*in_shell(box, "fish", "-c", script, *lines))
    assert found.stderr == ""
    assert found.stdout == (
        "== kildsvc attach \nworker-1\trunning: sleep in ~, the first\nworker-2\trunning: sleep in ~\n"
        "== kildsvc open \nfinished\tended: true in ~\n"
        "== kildsvc open x --agent=cl\n--agent=claude\n"
        "== kildsvc config s\nshow\tPrint the settings that hold in this...\n"
    )


def test_branches_profiles_and_sandboxes_are_completed(box: Box) -> None:
    out = box.sh(
        """mkdir -p work ~/.config/kildsvc; cd work; git init -q -b main
        git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x; git branch fix-it
        printf '[profiles.review]\\nmodel = "m"\\n[sandboxes.lab]\\nnetwork = false\\n' >~/.config/kildsvc/config.toml
        for word in "create --base" "open x --profile" "open x --sandbox" "open x --cwd" "open x --"; do
            set -- "$0" $word; n=$#; shift
            $0 __complete $n kildsvc "$@" "" | cut -f1,2 | tr '\\t\\n' '  '; echo
        done; rm -r ~/.config/kildsvc""".replace("$0", box.kild)
    )
    assert out.splitlines() == [
        "plain fix-it plain main ",
        "plain review ",
        "plain workspace plain strict plain off plain lab ",
        "dir  ",
        "command  ",
    ]


def test_a_manager_that_hangs_is_not_waited_for(box: Box) -> None:
    done = box.sh(
        """d=$(mktemp -d); mkdir $d/systemd
        python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); print(flush=True); time.sleep(60)' \
            $d/systemd/private >$d/up & until [ -s $d/up ]; do :; done
        XDG_RUNTIME_DIR=$d timeout 20 $1 __complete 2 kildsvc stop '' 2>&1; echo $?; kill $!""",
        box.kild,
    )
    assert done == "142\n"  # 128 + SIGALRM


# What no short command has use for; each costs between 2 and 30 ms.
HEAVY = {"asyncio", "dbus_next", "email", "ssl", "tomllib", "subprocess", "shutil", "tempfile", "logging", "lxml"}
HEAVY |= {"concurrent.futures", "multiprocessing", "sqlite3", "avt", "importlib.metadata", "argparse", "difflib"}
# Nor has one that is understood without click; inspect is known by what it loads itself.
HEAVY_TOO = {"click", "dis", "platform", "bz2"}
SHORT = {  # and the most of our own modules that each may load
    ("--version",): 9,
    ("list",): 27,
    ("status", "worker-1"): 30,
    ("attach", "nosuch"): 37,
    ("open", "worker-1"): 50,
    ("__complete", "2", "kildsvc", "stop", ""): 26,
}
NEEDS = {"attach": {"avt"}, "open": {"shutil"}, "__complete": HEAVY_TOO}


def test_short_commands_load_only_what_they_need(box: Box) -> None:
    box.python("import kildsvc; kildsvc.open('worker-1', ['sleep', '1000'])")
    python = str(Path(box.kild).parent / "python")
    for arguments, most in SHORT.items():
        done = box.run(python, "-X", "importtime", "-m", "kildsvc", *arguments, check=False)
        loaded = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.M))
        own = sorted(name for name in loaded if name.split(".")[0] == "kildsvc")
        assert (arguments, loaded & (HEAVY | HEAVY_TOO) - NEEDS.get(arguments[0], set())) == (arguments, set())
        assert len(own) <= most, (arguments, own)


COUNT = """
import kildsvc
from kildsvc.operations.sessions import list_sessions
from kildsvc.systemd.manager import Manager
for name in ("a", "b", "c"):
    kildsvc.open(name, ["sleep", "1000"])
asked, ask = [], Manager._get
Manager._get = lambda self, *what: asked.append(what) or ask(self, *what)
for full in (False, True):
    asked.clear()
    assert len(list_sessions(full=full)) == 3
    print(len(asked))
"""


def test_a_list_asks_little_of_the_manager(box: Box) -> None:
    """Beside the list itself and where the cgroups are: for a table one property of each session, in full two."""
    assert box.python(COUNT).split() == ["4", "7"]
