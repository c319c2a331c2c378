"""The screen after detaching and re-attaching is what it would have been had one stayed. tmux is the judge."""

import json
import re
from dataclasses import dataclass

import pytest
from box import Box, wait_until
from pty_client import Terminal

FLAGS = (
    "#{cursor_x},#{cursor_y} alt=#{alternate_on} shown=#{cursor_flag} appkeys=#{keypad_cursor_flag}"
    " keypad=#{keypad_flag} mouse=#{mouse_any_flag}#{mouse_button_flag}#{mouse_standard_flag} sgr=#{mouse_sgr_flag}"
    " origin=#{origin_flag} wrap=#{wrap_flag} region=#{scroll_region_upper}-#{scroll_region_lower}"
    " title=#{pane_title}"
)


def cells(capture: str) -> list[str]:
    """`capture-pane -e` with the style of each cell spelled out; of a blank only what can be seen."""
    styles: dict[str, str] = {}  # goes on from line to line
    drawing = False  # the line-drawing character set, which a restored screen spells in Unicode
    lines = []
    for line in capture.split("\n"):
        out = []
        for code, char in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
            if char in ("\x0e", "\x0f"):
                drawing = char == "\x0e"
            elif char:
                char = char.translate(str.maketrans("jklmnqtuvwx", "┘┐┌└┼─├┤┴┬│")) if drawing else char
                visible = {k: v for k, v in styles.items() if char != " " or k in ("bg", "4", "7", "9")}
                out.append(char + "".join(f"<{v}>" for _, v in sorted(visible.items())))
            else:
                apply_style(styles, code)
        # tmux tells nothing of the colour of cells that were erased and not written to since.
        while out and out[-1][0] == " ":
            out.pop()
        lines.append("".join(out))
    return lines


def apply_style(styles: dict[str, str], codes: str) -> None:
    for group in re.findall(r"[34]8;5;\d+|[34]8;2;\d+;\d+;\d+|\d+", codes or "0"):
        number = int(group.split(";")[0])
        if number == 0:
            styles.clear()
        elif number in (39, 49):
            styles.pop("fg" if number == 39 else "bg", None)
        elif 30 <= number <= 38 or 90 <= number <= 97:
            styles["fg"] = group
        elif 40 <= number <= 48 or 100 <= number <= 107:
            styles["bg"] = group
        else:
            styles[group] = group


@dataclass
class Pane:
    """A terminal that knows its cells: tmux."""

    box: Box
    name: str
    rows: int = 24
    cols: int = 80

    def start(self, *command: str) -> "Pane":
        size = ["-x", str(self.cols), "-y", str(self.rows)]
        self.tmux("new-session", "-d", "-s", self.name, *size, *command)
        self.tmux("set-option", "-g", "status", "off")
        self.tmux("resize-window", "-t", self.name, *size)
        return self

    def tmux(self, *arguments: str) -> str:
        return self.box.run("tmux", "-L", "judge", *arguments).stdout

    def shows(self) -> str:
        """Every cell with its style, cursor, modes, title."""
        lines = cells(self.tmux("capture-pane", "-p", "-e", "-N", "-t", self.name))[: self.rows]
        return "\n".join(lines) + "\n" + self.flags()

    def flags(self) -> str:
        return self.tmux("display-message", "-p", "-t", self.name, FLAGS)

    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def history(self) -> str:
        return self.tmux("capture-pane", "-p", "-S", "-", "-t", self.name)

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", "-t", self.name, *names)


@pytest.fixture(autouse=True)
def no_panes(request: pytest.FixtureRequest) -> None:
    box = request.getfixturevalue("box")
    box.run("tmux", "-L", "judge", "kill-server", check=False)


def attach(box: Box, name: str, pane: str, rows: int = 24, cols: int = 80) -> Pane:
    result = Pane(box, pane, rows, cols).start(box.kild, "attach", name)
    wait_until("attached", lambda: "attached" in box.show(name, "StatusText")["StatusText"])
    return result


def compare(box: Box, name: str, stayed: Pane, number: int, title: bool = True) -> None:
    """With the agent standing still, somebody who comes sees what somebody who stayed sees. Not always the title:
    ncurses programs restore a saved one more often than they save one, and so uncover the outer terminal's own."""

    def shown(pane: Pane) -> str:
        return pane.shows() if title else pane.shows().partition(" title=")[0]

    pid = str(box.agent_pid(name))
    box.sh("pkill -STOP -g $(ps -o tpgid= -p $1) ; kill -STOP $1", pid, check=False)
    expected = wait_until("the screen stands still", lambda: (a := shown(stayed)) == shown(stayed) and a)
    came = attach(box, name, f"came{number}")
    try:
        wait_until("same screen", lambda: shown(came) == expected, 10)
    except AssertionError:
        assert shown(came) == expected
    box.sh("kill -CONT $1; pkill -CONT -g $(ps -o tpgid= -p $1)", pid, check=False)
    came.tmux("kill-session", "-t", came.name)


PROGRAMS = {
    "vim": (
        "vim -u NONE -c 'set mouse=a number ruler' /usr/share/common-licenses/GPL-3",
        "Everyone is permitted",
        ["G", "10k", "V", "j"],
        ["Escape", ":q!", "Enter"],
    ),
    "less": (
        "less /usr/share/common-licenses/GPL-3",
        "Everyone is permitted",
        ["Space", "/software", "Enter"],
        ["q"],
    ),
    "man": ("man -l ~/work/ls.1", "LS\\(1\\)", ["Space"], ["q"]),
    "git log": ("git -C ~/work/repo log --graph --color=always", "commit", ["j", "j"], ["q"]),
    "htop": ("htop -d 50", "Load average", ["Down", "Down"], ["q"]),
    "top": ("top -d 50", "load average", [], ["q"]),
    "mc": ("mc -u", "Quit", ["Down", "Down", "F1"], ["Escape", "Escape", "F10"]),
    "dialog": (
        "dialog --checklist pick 15 50 6 1 one on 2 two off 3 three off",
        "three",
        ["Down", "Space"],
        ["Escape"],
    ),
    "python": ("python3 -q", ">>>", ["print('ä漢字' * 20)", "Enter", "1+"], ["C-c", "C-d"]),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_is_restored(box: Box, name: str, program: str) -> None:
    command, marker, keys, leave = PROGRAMS[program]
    box.sh(
        """mkdir -p ~/work/repo && cd ~/work/repo && git init -q . && for i in $(seq 40); do
        git -c user.name=n -c user.email=e commit -q --allow-empty -m "commit number $i"; done
        { printf '.TH LS 1\\n.SH NAME\\nls\\n'; for i in $(seq 40); do
        printf '.PP\\nParagraph \\\\fB%d\\\\fR of \\\\fIa page\\\\fR.\\n' $i; done; } >~/work/ls.1"""
    )
    script = f"read x; seq 30; printf '\\033[33mbefore\\033[0m\\n'; {command}; echo after; sleep 1000"
    box.kildsvc("open", name, "--rows", "24", "--cols", "80", "--", "bash", "-c", script)
    stayed = attach(box, name, "stayed")
    stayed.keys("Enter")
    wait_until(f"{program} is there", lambda: re.search(marker, stayed.text()))
    for key in keys:
        stayed.keys(key)
    compare(box, name, stayed, 1, title=False)
    for key in leave:
        stayed.keys(key)
    wait_until("the primary screen is back", lambda: "after" in stayed.text())
    compare(box, name, stayed, 2, title=False)


SEQUENCES = {
    "colours and styles": r"\033[1;31mbold red\033[0m \033[4;38;5;208munder\033[0m \033[7;48;2;10;20;30mrgb\033[0m",
    "cursor in the middle": r"\033[5;10Hhere\033[3;4H",
    "hidden cursor": r"text\033[?25l",
    "wide characters": r"漢字かな\r\n한글 ünï €",
    "mouse and paste": r"\033[?1002h\033[?1006h\033[?2004h\033[?1004h",
    "application keys": r"\033[?1h\033=",
    "scroll region": r"\033[5;10r\033[10;1Hin the region\n\n\n",
    "alternate over primary": r"primary text\r\n\033[?1049h\033[2J\033[3;3Halternate\033[?1000h",
    "back from alternate": r"one\r\n\033[?1049hgone\033[?1049ltwo",
    "title": r"\033]0;a title\007text",
    "tabs and erasures": r"a\tb\tc\r\n0123456789\033[5D\033[K\r\nxxxx\033[2D\033[P",
    "inserted lines": r"one\r\ntwo\r\nthree\033[2;1H\033[Lnew",
    "full screen of text": r"$(seq 200)",
    "no autowrap": r"\033[?7l",
}


@pytest.mark.timeout(90)
@pytest.mark.parametrize("what", SEQUENCES)
def test_a_sequence_is_restored(box: Box, name: str, what: str) -> None:
    data = SEQUENCES[what].replace("$(seq 200)", "'; seq 200; printf '")
    box.kildsvc(
        "open", name, "--rows", "24", "--cols", "80", "--", "bash", "-c", f"read x; printf '{data}'; sleep 1000"
    )
    stayed = attach(box, name, "stayed")
    stayed.keys("Enter")
    pid = str(box.agent_pid(name))
    wait_until("it has drawn", lambda: box.sh("ps -o args= --ppid $1; ps -o args= -p $1", pid).startswith("sleep"))
    compare(box, name, stayed, 1)


def test_history_above_the_screen(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--rows", "24", "--cols", "80", "--", "sh", "-c", "seq 300; sleep 1000")
    pane = attach(box, name, "late")
    wait_until("all is there", lambda: "300" in pane.text())
    lines = [line for line in pane.history().split() if line.isdigit()]
    assert lines == [str(n) for n in range(1, 301)]


def test_the_users_own_scrollback_is_kept(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "seq 5; sleep 1000")
    pane = Pane(box, "user").start("sh", "-c", f"echo my own line; {box.kild} attach {name}; sleep 1000")
    wait_until("attached", lambda: "5" in pane.text().split())
    pane.keys("C-Space", "C-q")
    wait_until("detached", lambda: "detached" in pane.text())
    assert "my own line" in pane.history()


def test_another_size_is_not_garbled(box: Box, name: str) -> None:
    box.kildsvc(
        "open", name, "--rows", "24", "--cols", "80", "--", "vim", "-u", "NONE", "/usr/share/common-licenses/GPL-3"
    )
    pane = attach(box, name, "wide", 40, 120)
    wait_until(
        "vim has drawn 40 rows", lambda: "Everyone is permitted" in pane.text() and pane.text().count("\n") == 40
    )
    reference = Pane(box, "reference", 40, 120).start("vim", "-u", "NONE", "/usr/share/common-licenses/GPL-3")
    wait_until("vim itself has drawn", lambda: "Everyone is permitted" in reference.text())
    # All but the last line, where only a vim that has just begun tells the file's size.
    assert pane.text().splitlines()[:-1] == reference.text().splitlines()[:-1]


def test_beyond_the_ring(box: Box, name: str) -> None:
    """A full-screen program that has printed more than the ring: modes, and the screen behind it, are still known."""
    flood = (
        "for i in $(seq 40000); do printf '\\033[%d;1H\\033[3%dmrow %d \\033[K' $((i % 20 + 1)) $((i % 8)) $i; done"
    )
    script = (
        f"read x; echo behind it; printf '\\033[?1049h\\033[?1000h\\033[?2004h'; {flood}; printf '\\033[m'; read x; "
    )
    script += "printf '\\033[?1049l\\033[?1000l'; sleep 1000"
    box.kildsvc("open", name, "--rows", "24", "--cols", "80", "--", "bash", "-c", script)
    stayed = attach(box, name, "stayed")
    stayed.keys("Enter")
    wait_until("it is done", lambda: "row 40000" in stayed.text())
    compare(box, name, stayed, 1)
    stayed.keys("Enter")
    wait_until("primary", lambda: "behind it" in stayed.text())
    compare(box, name, stayed, 2)


@pytest.mark.parametrize("way", ["detach", "exit", "TERM", "HUP", "shim"])
def test_the_outer_terminal_is_as_before(box: Box, name: str, way: str) -> None:
    modes = "\\033[?1049h\\033[?1002h\\033[?1006h\\033[?2004h\\033[?25l\\033[?1h\\033=\\033]0;mine\\007"
    box.kildsvc("open", name, "--", "bash", "-c", f"printf '{modes}'; read x; exit 3")
    pane = Pane(box, "user").start("bash", "--norc")
    pane.keys("printf '\\033]2;outer\\007'; clear; echo my prompt", "Enter")
    wait_until("the prompt", lambda: "my prompt" in pane.text())
    before = pane.flags().split(" ", 1)[1]
    stty = box.sh("stty -a </dev/$(tmux -L judge list-panes -t user -F '#{s|/dev/||:pane_tty}')")
    pane.keys(f"{box.kild} attach {name}", "Enter")
    wait_until("it has the terminal", lambda: "alt=1" in pane.shows() and "title=mine" in pane.shows())
    if way == "detach":
        pane.keys("C-Space", "C-q")
    elif way == "exit":
        pane.keys("Enter")
    elif way == "shim":
        box.run("systemctl", "--user", "kill", "-s", "KILL", f"kild-{name}")
    else:
        box.run("pkill", f"-{way}", "-f", f"kildsvc attach {name}")
    wait_until(
        "as before", lambda: pane.tmux("display-message", "-p", "-t", "user", FLAGS.split(" ", 1)[1]) == before
    )
    wait_until("back in the shell", lambda: "kildsvc: " in pane.text())
    assert "my prompt" in pane.history()
    line = "stty -a </dev/$(tmux -L judge list-panes -t user -F '#{s|/dev/||:pane_tty}')"
    wait_until("the shell edits its line again", lambda: box.sh(line) == stty)


def test_suspended_and_resumed(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "printf '\\033[?1049h\\033[3;3Hdrawn once'; sleep 1000")
    pane = Pane(box, "user").start("bash", "--norc", "-i")
    pane.keys(f"{box.kild} attach {name}", "Enter")
    wait_until("it has the terminal", lambda: "drawn once" in pane.text())
    box.run("pkill", "-TSTP", "-f", f"kildsvc attach {name}")
    wait_until("the shell is back", lambda: "alt=0" in pane.shows() and "Stopped" in pane.text())
    pane.keys("fg", "Enter")
    wait_until("drawn again", lambda: "alt=1" in pane.shows() and "drawn once" in pane.text())


def test_queries_are_answered_while_nobody_is_attached(box: Box, name: str) -> None:
    ask = r"""stty raw -echo; printf '\033[c\033[5n\033[2;3H\033[6n\033[>0q\033[?u\033[?2026$p\033]11;?\033\\'
        timeout --foreground 2 dd bs=1 count=200 2>/dev/null | od -An -c | tr -d ' \n' >~/out; sleep 1000"""
    box.kildsvc("open", name, "--grace", "3s", "--", "bash", "-c", ask)
    reply = box.sh("cat ~/out")
    for part in ["[?62;22c", "[0n", "[2;3R", "P>|kildsvc(", "[?0u", "[?2026;2$y", "]11;rgb:0000/0000/0000"]:
        assert part in reply.replace("033", ""), reply


def test_an_agent_may_say_odd_things_of_its_terminal(box: Box, name: str) -> None:
    """It has no size, and a switch of screens is spelled oddly; then more output than the ring holds."""
    odd = r"stty rows 0 cols 0; printf 'x\033[6n\033[?;1049h\033[?047h'; seq 300000; echo the end"
    box.kildsvc("open", name, "--", "bash", "-c", f"{odd}; exec sleep 1000")
    wait_until("all is printed", lambda: "the end" in box.kildsvc("screen", name).stdout, 60)
    assert box.show(name, "NRestarts") == {"NRestarts": "0"}


def test_while_one_is_attached_its_terminal_answers(box: Box, name: str) -> None:
    ask = r"""read x; stty raw -echo; printf '\033[>0q'
        timeout --foreground 2 dd bs=1 count=60 2>/dev/null | od -An -c >~/out; sleep 1000"""
    box.kildsvc("open", name, "--", "bash", "-c", ask)
    pane = attach(box, name, "asked")
    pane.keys("Enter")
    wait_until("it has an answer", lambda: "t   m   u   x" in box.sh("cat ~/out"))
    assert "k   i   l   d" not in box.sh("cat ~/out")


def test_a_replayed_query_does_not_reach_the_users_terminal(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", r"stty -echo; printf 'asks\033[c\033[6n'; cat | od -c; sleep 1000")
    attach(box, name, "late").keys("x", "Enter", "C-d")
    wait_until("it has read", lambda: "x" in box.kildsvc("screen", name).stdout)
    # One answer to each, from the time when nobody was there.
    assert box.kildsvc("screen", name).stdout.count("2   ;   2   2   c") == 1


def test_screen(box: Box, name: str) -> None:
    script = r"seq 30; printf '\033[31mred\033[0m'; until [ -e ~/out ]; do sleep .05; done; exit 2"
    box.kildsvc("open", name, "--rows", "10", "--cols", "40", "--", "bash", "-c", script)
    wait_until("it is there", lambda: "red" in box.kildsvc("screen", name).stdout)
    for _ in ("running", "ended"):
        assert box.kildsvc("screen", name).stdout.split() == [*(str(n) for n in range(22, 31)), "red"]
        assert box.kildsvc("screen", name, "--history", "5").stdout.split()[0] == "17"
        assert "\x1b[0;31mred" in box.kildsvc("screen", name, "--ansi").stdout
        shown = json.loads(box.kildsvc("screen", name, "--json").stdout)
        assert (shown["rows"], shown["cols"], shown["cursor"], shown["lines"][9]) == (10, 40, [9, 3], "red")
        box.sh("touch ~/out")
        box.wait_ended(name)


def test_send(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "--norc", "-i")
    box.kildsvc("send", name, "echo $((6*7))", "--enter", "--wait-output", "^42$|\n42")
    box.kildsvc("send", name, "--keys", "e c h o Space k e y s Enter", "--wait-output", "\nkeys")
    box.kildsvc("send", name, "sleep 100", "--enter")
    box.kildsvc("send", name, "--keys", "C-c", "--wait-output", r"\^C")
    box.run(box.kild, "send", name, stdin="echo from stdin\n")
    wait_until("stdin arrived", lambda: "from stdin" in box.kildsvc("screen", name).stdout)
    late = box.kildsvc("send", name, "true", "--enter", "--wait-output", "never", "--timeout", "300ms", check=False)
    assert (late.returncode, late.stderr.count("\n")) == (1, 1)
    assert box.kildsvc("send", name, "--keys", "NoKey", check=False).returncode == 2
    box.kildsvc("stop", name)
    assert box.kildsvc("send", name, "x", check=False).returncode == 3


def test_send_of_what_ends_the_agent(box: Box, name: str) -> None:
    """It was taken, however soon the agent is gone; to an agent that is gone nothing is sent."""
    for _ in range(8):
        box.kildsvc("open", name, "--grace", "0", "--", "bash", "-c", "read; exit 6")
        box.kildsvc("send", name, "--enter")
        assert box.wait_ended(name)["exit_code"] == 6
    assert box.kildsvc("send", name, "--enter", check=False).returncode == 3


def test_a_paste_is_bracketed_when_asked_for(box: Box, name: str) -> None:
    agent = r"stty raw -echo; printf '\033[?2004h'; dd bs=1 count=21 2>/dev/null | od -An -c >~/out; sleep 1000"
    box.kildsvc("open", name, "--", "bash", "-c", agent)
    box.kildsvc("send", name, "--paste", "two\nlines")
    reply = wait_until("it has read", lambda: box.sh("cat ~/out"))
    assert "".join(reply.split()) == r"033[200~two\rlines033[201~"


@pytest.mark.timeout(60)
def test_two_clients_of_different_sizes(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "vim", "-u", "NONE", "/usr/share/common-licenses/GPL-3")
    with Terminal(box.argv(box.kild, "attach", name), 30, 100) as one:
        one.read_until(rb"Everyone is permitted")
        with Terminal(box.argv(box.kild, "attach", name), 20, 60) as two:
            two.read_until(rb"Everyone is permitted")
            wait_until("20 rows", lambda: json.loads(box.kildsvc("screen", name, "--json").stdout)["rows"] == 20)
            one.type(b"j")
            wait_until("30 rows", lambda: json.loads(box.kildsvc("screen", name, "--json").stdout)["rows"] == 30)
