"""Notes, labels and names of sessions, and what their agents say of themselves."""

import json
from pathlib import Path

from box import Box, wait_until
from test_json import check


def test_notes(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--note", "first", "--", "sleep", "1000")
    assert box.kildsvc("note", name).stdout == "first\n"
    assert box.kildsvc("note", name, " two\n", "words ").stdout == ""
    assert box.json("status", name)["note"] == "two words"
    box.kildsvc("stop", name)
    box.kildsvc("open", name)
    assert box.json("note", name) == {"name": name, "note": "two words"}, "it outlives the run"
    box.kildsvc("note", name, "")
    assert box.kildsvc("note", name).stdout == ""
    assert box.kildsvc("note", "nobody", "x", check=False).returncode == 4
    assert not box.sh("ls $XDG_RUNTIME_DIR/kildsvc/nobody", check=False)


def test_labels(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--label", "a=1", "--label", "b=2", "--", "sleep", "1000")
    box.kildsvc("label", name, "a=x=y", "c=", "b-", "never-")
    assert box.kildsvc("label", name).stdout == "a=x=y\nc=\n"
    assert box.json("list", "--label", "a=x=y")[0]["labels"] == {"a": "x=y", "c": ""}
    for bad in ("a", "=x"):
        done = box.kildsvc("label", name, "d=1", bad, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert box.json("label", name) == {"name": name, "labels": {"a": "x=y", "c": ""}}


def test_rename(box: Box, name: str) -> None:
    old, new = f"{name}-old", f"{name}-new"
    # Another session had the name before, and was the last of the two to end.
    box.kildsvc("open", old, "--note", "n", "--grace", "0", "--", "sh", "-c", "echo mine; exit 3")
    box.kildsvc("wait", old, check=False)
    box.kildsvc("open", new, "--grace", "0", "--", "sh", "-c", "echo not mine; exit 4")
    box.kildsvc("wait", new, check=False)
    taken = box.kildsvc("rename", old, new, check=False)
    assert (taken.returncode, "already" in taken.stderr) == (1, True)
    box.kildsvc("destroy", new)
    before = box.json("status", old)
    check(box.json("rename", old, new), "session")

    assert box.kildsvc("status", old, check=False).returncode == 4
    assert box.show(old, "LoadState") == {"LoadState": "not-found"}
    assert not box.sh(f"ls -d $XDG_RUNTIME_DIR/kildsvc/{old} ~/.local/state/kildsvc/*/{old}*", check=False)
    # And another one has the old name after it.
    box.kildsvc("open", old, "--grace", "0", "--", "sh", "-c", "echo nor this; exit 5")
    box.kildsvc("wait", old, check=False)
    after = box.json("status", new)
    same = ("state", "exit_code", "run", "note", "command", "cwd")
    assert [after[key] for key in same] == [before[key] for key in same]
    assert abs(after["ended"] - before["ended"]) < 1
    assert {one["name"]: one["exit_code"] for one in box.json("list")} == {old: 5, new: 3}
    assert box.kildsvc("logs", new).stdout == box.kildsvc("logs", new, "--run", "all").stdout == "mine\n"
    assert box.kildsvc("logs", new, "-n", "1", "--run", before["run"]).stdout == "mine\n"
    assert box.kildsvc("screen", new).stdout == "mine\n"
    assert box.json("wait", new)["exit_code"] == 3
    assert box.json("wait", new, "--for", "output=mine")["match"] == "mine"
    assert box.kildsvc("wait", new, "--for", "ready").stdout.startswith(f"KILD:WAIT name={new} status=exited")

    box.kildsvc("open", new, "--grace", "0")
    box.kildsvc("wait", new, check=False)
    assert box.kildsvc("logs", new, "--run", "all").stdout == "mine\nmine\n"


def test_a_running_session_keeps_its_name(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    done = box.kildsvc("rename", name, f"{name}-2", check=False)
    assert (done.returncode, "its unit cannot change" in done.stderr) == (1, True)
    assert box.json("status", name)["state"] == "running"
    for arguments, code in (([name, "a/b"], 2), (["nobody", "x"], 4), ([name, name], 1)):
        assert box.kildsvc("rename", *arguments, check=False).returncode == code
    assert box.sh("ls -A $XDG_RUNTIME_DIR/kildsvc | grep -v linger-warned") == f"{name}\n"


CLAUDE = r"""#!/bin/bash
# Stands in for claude: a transcript where and as it would write one.
id=0a6afc57-2f31-4cb4-8ff0-01247f50c64c now=$(date -u +%FT%T.%3NZ)
file=$CLAUDE_CONFIG_DIR/projects/${PWD//[^A-Za-z0-9]/-}/$id.jsonl
mkdir -p "${file%/*}"
common='"sessionId":"'$id'","cwd":"'$PWD'","isSidechain":false,"timestamp":"'$now'"'
usage='{"input_tokens":2,"cache_creation_input_tokens":100,"cache_read_input_tokens":1200,"output_tokens":40}'
echo '{"type":"user","message":{"role":"user","content":"hello"},'$common'}' >>"$file"
for block in '{"type":"thinking","thinking":""}' '{"type":"text","text":"Which file\ndo you mean?"}'; do
    echo '{"type":"assistant",'$common',"message":{"id":"msg_1","model":"claude-opus-4-7","usage":'$usage',
        "content":['$block']}}' | tr -d '\n' >>"$file"
    echo >>"$file"
done
printf '{"type":"assist' >>"$file"
sleep 1000
"""


def test_an_agents_own_word(box: Box, name: str) -> None:
    box.run("bash", "-c", "mkdir -p ~/work/my_app.v2; cat >~/work/claude; chmod +x ~/work/claude", stdin=CLAUDE)
    where = ["--cwd", "/home/dev/work/my_app.v2", "--env", "CLAUDE_CONFIG_DIR=/home/dev/work/config"]
    box.kildsvc("open", name, *where, "--", "/home/dev/work/claude")
    session = wait_until(
        "it has spoken", lambda: (one := box.json("status", name))["word"] and one["word"]["last_message"] and one
    )
    check(session, "session")
    word = session["word"]
    assert (word["model"], word["messages"], word["partial"]) == ("claude-opus-4-7", 2, False)
    assert (word["input_tokens"], word["cached_tokens"], word["output_tokens"]) == (1302, 1200, 40)
    assert (word["last_message"], word["cost"]) == ("Which file do you mean?", None)
    assert session["started"] - 3 < word["last_activity"]
    shown = box.kildsvc("status", name).stdout
    for line in ("model: claude-opus-4-7", "messages: 2", "tokens: 1.3k in, 40 out", "says: Which file do you mean?"):
        assert line in " ".join(shown.split()), shown
    plain, wide = box.kildsvc("list").stdout, box.kildsvc("list", "--wide").stdout
    assert "claude-opus-4-7" in wide and "Which file do you mean?" in wide and "opus" not in plain
    words = {one["name"]: one["word"] for one in box.json("list")}
    assert words[name] == word
    box.kildsvc("stop", name)
    assert box.json("status", name)["word"] == word, "while its unit is loaded its environment is known"


def test_what_is_changed_from_python(box: Box, name: str) -> None:
    program = f"""
import kildsvc
session = kildsvc.open({name!r}, ["sleep", "1000"])
print(kildsvc.note({name!r}, "a note"), kildsvc.label({name!r}, {{"a": "1", "b": "2"}}, ["b"]))
print(kildsvc.label({name!r}, remove=["a"]), kildsvc.note({name!r}))
try:
    kildsvc.rename({name!r}, "other")
except kildsvc.KildError as error:
    print(error.code)
session.stop()
print(kildsvc.rename({name!r}, "other").state)
"""
    out = box.run(str(Path(box.kild).with_name("python")), "-W", "error", "-c", program).stdout.splitlines()
    assert out == ["a note {'a': '1', 'b': '2'}", "{'b': '2'} a note", "ALREADY_RUNNING", "stopped"]


def test_config_on_the_command_line(box: Box) -> None:
    box.sh("mkdir -p ~/work; printf 'grace = \"1s\"\\n' >~/work/.kildsvc.toml")
    shown = json.loads(box.sh(f"cd ~/work; {box.kild} config show --json"))
    assert {"key": "grace", "value": "1s", "origin": "/home/dev/work/.kildsvc.toml:1"} in shown["settings"]
    assert "# ~/work/.kildsvc.toml:1\n" in box.sh(f"cd ~/work; {box.kild} config show")
    file = box.kildsvc("config", "path").stdout.strip()
    try:
        done = box.run("env", "EDITOR=sh -c 'echo x = 1 >$0'", box.kild, "config", "edit", check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"{file}:1: unknown setting 'x'" in done.stderr
        assert box.sh(f"cat {file}") == "x = 1\n"
    finally:
        box.run("rm", "-f", file)
    assert box.kildsvc("config", check=False).returncode == 2
