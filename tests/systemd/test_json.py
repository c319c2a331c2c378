"""--json: a contract that programs rely on. The schema in the package describes it, and this pins it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from box import REPO, Box, wait_until

SCHEMA = json.loads((REPO / "kildsvc" / "session.schema.json").read_text())
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def fits(value: Any, schema: dict[str, Any], where: str = "") -> None:
    """The part of JSON Schema that ours uses."""
    assert value == schema.get("const", value), where
    assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r}"
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert any(isinstance(value, TYPES[kind]) for kind in kinds), f"{where}: {value!r} is not {kinds}"
    if isinstance(value, bool):
        assert "boolean" in kinds, where
    if isinstance(value, str) and "pattern" in schema:
        assert re.search(schema["pattern"], value), where
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema["required"]) <= value.keys(), where
        for key, inner in value.items():
            assert key in schema["properties"], f"{where}.{key} is not in the schema"
            fits(inner, schema["properties"][key], f"{where}.{key}")
    for inner in value if isinstance(value, list) else ():
        fits(inner, schema.get("items", {}), f"{where}[]")


def check(value: Any, kind: str) -> None:
    fits(value, SCHEMA["$defs"][kind], kind)


@pytest.mark.smoke
def test_sessions_in_every_state(box: Box, name: str) -> None:
    box.kildsvc("open", f"{name}-run", "--label", "team=web", "--note", "n", "--", "sh", "-c", "echo x; sleep 1000")
    box.kildsvc("open", f"{name}-end", "--", "sh", "-c", "sleep .3; exit 3")
    box.kildsvc("open", f"{name}-stop", "--", "sleep", "1000")
    box.kildsvc("stop", f"{name}-stop")
    box.kildsvc("wait", f"{name}-end", check=False)
    box.kildsvc("mark", f"{name}-run", "working", "on it")
    wait_until("its output is known", lambda: box.json("status", f"{name}-run")["last_output"])
    sessions = {one["name"].rpartition("-")[2]: one for one in box.json("list")}
    for session in sessions.values():
        check(session, "session")
    running, ended = sessions["run"], sessions["end"]
    assert (running["labels"], running["note"], running["clients"]) == ({"team": "web"}, "n", 0)
    assert (running["mark"]["state"], running["mark"]["text"]) == ("working", "on it")
    assert [one["command"] for one in running["children"]] == ["sleep 1000"]
    assert running["took_terminal"] is False
    assert 0 <= running["idle"] <= running["duration"] < 60
    assert running["started"] <= running["last_output"]
    assert (ended["exit_code"], ended["pid"], ended["idle"], ended["unit"]) == (
        3,
        None,
        None,
        f"kild-{name}-end.service",
    )
    assert 0.2 < ended["duration"] < 10
    assert sessions["stop"]["signal"] == "TERM"


def test_every_json_command_gives_json_and_nothing_else(box: Box, name: str) -> None:
    """One document, or one per line; errors included; stderr stays empty where stdout tells."""
    box.kildsvc("open", name, "--", "sleep", "1000")
    commands: list[tuple[list[str], str | None]] = [
        (["status", name], "session"),
        (["status", "nobody"], "error"),
        (["list"], None),
        (["list", "--state", "nonsense"], "error"),
        (["list", "--label", "x"], "error"),
        (["wait", name, "--timeout", "1ms"], "wait"),
        (["wait", "nobody"], "error"),
        (["wait", name, "--for", "output=("], "error"),
        (["wait", "a/b"], "error"),
        (["events", "--no-follow"], "error"),
        (["events", "--since", "whenever"], "error"),
        (["mark", name, "nonsense"], "error"),
        (["mark", name, "done"], None),
        (["open", name, "--", "true"], "error"),
        (["open", f"{name}-2", "--", "sleep", "1000"], None),
        (["open", f"{name}-3", "--", "sh", "-c", "exit 3"], None),
        (["stop", name, f"{name}-2"], None),
        (["stop", "nobody"], "error"),
        (["destroy", name], None),
        (["destroy", name], "error"),
        (["nonsense"], "error"),
    ]
    for arguments, kind in commands:
        at = arguments.index("--") if "--" in arguments else len(arguments)
        done = box.kildsvc(*arguments[:at], "--json", *arguments[at:], check=False)
        value = json.loads(done.stdout)
        assert done.stderr == "" or "log out" in done.stderr, arguments
        if kind:
            check(value, kind)
    stopped = box.json("stop", f"{name}-2")
    assert stopped[0].pop("was_running") is False
    check(stopped[0], "session")
    for line in box.kildsvc("events", "--json", "--no-follow", "--since", "1 hour ago", name).stdout.splitlines():
        check(json.loads(line), "event")


def test_filters(box: Box, name: str) -> None:
    box.sh("mkdir -p ~/work/sub")
    box.kildsvc(
        "open", f"{name}-a", "--label", "k=1", "--label", "x=y", "--cwd", "/home/dev/work", "--", "sleep", "1000"
    )
    box.kildsvc("open", f"{name}-b", "--label", "k=2", "--cwd", "/home/dev/work/sub", "--", "sleep", "1000")
    box.kildsvc("open", f"{name}-c", "--cwd", "/", "--", "bash", "-c", "read x")
    box.kildsvc("stop", f"{name}-b")

    def names(*options: str) -> str:
        return "".join(sorted(one["name"][-1] for one in box.json("list", *options)))

    assert names() == "abc"
    assert names("--state", "running") == names("--state", "alive") == "ac"
    assert names("--state", "stopped", "--state", "running") == "abc"
    assert (names("--label", "k=1"), names("--label", "k=1", "--label", "x=z"), names("--label", "k=2")) == (
        "a",
        "",
        "b",
    )
    assert (names("--cwd", "/home/dev/work"), names("--cwd", "/home/dev/wor")) == ("ab", "")
    assert names("--agent", "bash") == "c"
    assert names("--agent", "sleep", "--state", "running") == "a"
    # Labels are remembered.
    box.kildsvc("open", f"{name}-b")
    assert names("--label", "k=2", "--state", "running") == "b"


def test_watch_updates_on_events(box: Box, name: str) -> None:
    watcher = box.popen("bash", "-c", "exec $0 list --watch --json >/tmp/watch", box.kild)

    def last() -> Any:
        lines = box.sh("cat /tmp/watch 2>/dev/null || :").splitlines()
        return [json.loads(line) for line in lines][-1:]

    wait_until("it watches", lambda: last() == [[]])
    box.kildsvc("open", name, "--", "sleep", "1000")
    wait_until("it runs", lambda: [one["state"] for one in last()[0]] == ["running"])
    box.kildsvc("mark", name, "waiting")
    wait_until("the mark", lambda: (last()[0][0]["mark"] or {}).get("state") == "waiting")
    box.kildsvc("stop", name)
    wait_until("it has ended", lambda: [one["state"] for one in last()[0]] == ["stopped"])
    box.kildsvc("destroy", name)
    wait_until("it is gone", lambda: last() == [[]])

    def quiet() -> bool:
        before = box.sh("wc -l </tmp/watch")
        box.run("sleep", "2")
        return box.sh("wc -l </tmp/watch") == before

    wait_until("nothing happens, and it does nothing", quiet)
    box.sh("pkill -f 'list --watc[h]'")
    assert watcher.wait(30) != 0


def test_activity(box: Box, name: str) -> None:
    box.kildsvc(
        "open", name, "--", "bash", "-c", "stty -icanon; printf '\\033]0;title\\a'; sleep 1; while :; do :; done"
    )
    session = wait_until("it works", lambda: box.json("status", name)["took_terminal"] and box.json("status", name))
    assert session["last_bell"] is None, "the end of a title is no bell"
    assert session["last_input"] is None
    busy = wait_until("CPU time is told", lambda: (box.json("status", name)["cpu_since_output"] or 0) > 0.5)
    assert busy
    shown = box.kildsvc("status", name).stdout
    assert re.search(r"silent: +\d+ s", shown)
    assert re.search(r"cpu: .* since the last output", shown)
    assert box.json("status", name)["state"] == "running"


def test_mark_from_inside(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "bash", "-c", f"{box.kild} mark waiting 'needs you'; sleep 1000")
    wait_until("the mark", lambda: box.json("status", name)["mark"])
    assert "waiting: needs you" in box.kildsvc("status", name).stdout
    assert "waiting" in box.kildsvc("list").stdout
    assert box.kildsvc("mark", "nobody", "done", check=False).returncode == 4
    box.kildsvc("stop", name)
    assert box.kildsvc("mark", name, "done", check=False).returncode == 3
    box.kildsvc("open", name, "--", "sleep", "1000")
    assert box.json("status", name)["mark"] is None, "a mark is of its run"


@pytest.mark.parametrize("command", ["list", "status {}", "events --since '1 hour ago' --no-follow", "list --json"])
def test_a_closed_stdout_is_quiet(box: Box, name: str, command: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    script = f"{{ sleep .5; {box.kild} {command.format(name)} 2>/tmp/err; }} | true; sleep 1; cat /tmp/err"
    assert box.sh(script) == ""


@pytest.mark.smoke
def test_python(box: Box, name: str) -> None:
    """The same operations, with types, for a program."""
    program = """
import asyncio, kildsvc, sys
name = sys.argv[1]

async def first_words():
    words = []
    async for event in kildsvc.events(name, since=sys.argv[2]):
        words.append(event.event)
        if event.event == "ended":
            return words

session = kildsvc.open(name, ["sh", "-c", "sleep 1; exit 3"], labels={"a": "b"}, note="n")
assert session.status().state == "running"
kildsvc.mark(name, "working")
(alive,) = kildsvc.wait(name, timeout=0.01)
assert (alive.status, alive.exit_code) == ("alive", None)
assert [one.name for one in kildsvc.sessions(states=["running"], labels={"a": "b"})] == [name]
result = session.wait()
assert (result.status, result.exit_code) == ("exited", 3)
assert asyncio.run(first_words()) == ["opened", "ready", "mark", "ended"]
session.destroy()
try:
    kildsvc.status(name)
except kildsvc.NoSuchSession as error:
    assert error.code == "NO_SUCH_SESSION"
    print("good")
"""
    python = str(Path(box.kild).with_name("python")) if box.release == "host" else "/usr/bin/python3"
    path = "" if box.release == "host" else "PYTHONPATH=/srv/kildsvc "
    since = box.run("date", "+%F %T").stdout.strip()
    assert box.sh(f'{path}exec {python} -W error -c "$1" "$2" "$3"', program, name, since) == "good\n"
