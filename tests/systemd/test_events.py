"""events: each thing that happens once, in order, to everybody who listens; and again from any point on."""

import json
import subprocess
import time
from typing import Any

import pytest
from box import Box, wait_until
from pty_client import Terminal


class Subscriber:
    """`kildsvc events --json` as a process of its own."""

    def __init__(self, box: Box, *arguments: str) -> None:
        self._box = box
        self._file = f"/tmp/events-{time.monotonic_ns()}"
        script = 'echo $$ >"$0.pid"; exec "$@" --json >"$0" 2>&1'
        self._process = box.popen("bash", "-c", script, self._file, box.kild, "events", *arguments)
        # It listens when its journalctl does.
        self._pid = wait_until("it runs", lambda: box.sh(f"cat {self._file}.pid 2>/dev/null || :").strip())
        wait_until("it listens", lambda: box.sh(f"pgrep -P {self._pid} -fx 'journalctl .*--follow.*' || :"))

    def seen(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._box.sh(f"cat {self._file}").splitlines()]

    def words(self) -> list[tuple[str, str]]:
        return [(event["name"], event["event"]) for event in self.seen()]

    def wait_for(self, word: str, count: int = 1, deadline_sec: float = 30) -> None:
        def there() -> bool:
            return [event for _, event in self.words()].count(word) >= count

        wait_until(f"{count} {word} in {self.words()}", there, deadline_sec)

    def close(self) -> None:
        self._box.run("kill", self._pid)
        self._process.wait(30)


@pytest.mark.smoke
def test_a_life(box: Box, name: str) -> None:
    first, second = Subscriber(box), Subscriber(box, name)
    box.kildsvc("open", name, "--", "bash", "-c", "read x; printf '\\a'; read y; exit 3")
    with Terminal(box.argv(box.kild, "attach", name)) as terminal:
        terminal.read_until(b"attached to")
        terminal.type(b"\n")
        first.wait_for("bell")
        box.kildsvc("mark", name, "waiting", "for", "you")
        box.crash_shim(name)
        first.wait_for("recovered")
        terminal.type(b"\n")
        assert terminal.wait() == 3
    box.kildsvc("destroy", name)
    for subscriber in (first, second):
        subscriber.wait_for("removed")
    words = [event for _, event in first.words()]
    assert words[:4] == ["opened", "ready", "attached", "bell"]
    assert words[4] == "mark"
    assert "recovered" in words
    assert words[-2:] == ["ended", "removed"]
    assert words.count("ended") == words.count("opened") == 1
    assert second.seen() == first.seen()
    ended = first.seen()[-2]
    assert (ended["exit_code"], ended["status"], ended["run"] != "") == (3, "exited", True)
    mark = first.seen()[4]
    assert (mark["mark"], mark["text"]) == ("waiting", "waiting: for you")
    first.close()
    second.close()


def test_from_any_cursor_on(box: Box, name: str) -> None:
    began = box.run("date", "+%F %T.%6N").stdout.strip()
    for code in (0, 3):
        box.kildsvc("open", f"{name}-{code}", "--", "sh", "-c", f"sleep .3; exit {code}")
        box.kildsvc("wait", f"{name}-{code}", check=False)

    def past(since: str, *names: str) -> list[Any]:
        out = box.kildsvc("events", "--no-follow", "--json", "--since", since, *names).stdout
        return [json.loads(line) for line in out.splitlines()]

    whole = wait_until("all is there", lambda: len(past(began)) == 6 and past(began))
    assert [event["event"] for event in whole] == ["opened", "ready", "ended"] * 2
    for at in range(len(whole)):
        assert past(whole[at]["cursor"]) == whole[at + 1 :]
    assert past(began, f"{name}-3") == whole[3:]
    late = Subscriber(box, "--since", whole[1]["cursor"])
    late.wait_for("ended", 2)
    assert late.seen() == whole[2:]
    late.close()
    bad = box.kildsvc("events", "--since", "whenever", check=False)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)


def test_bus_journald_and_manager_are_restarted(box: Box, name: str) -> None:
    subscriber = Subscriber(box, name)
    box.kildsvc("open", name, "--", "sleep", "1000")
    box.root("systemctl", "restart", "systemd-journald")
    box.run("systemctl", "--user", "restart", "dbus.service")
    box.root("systemctl", "kill", "-s", "KILL", "systemd-journald")
    box.run("systemctl", "--user", "daemon-reexec")
    box.run("systemctl", "--user", "daemon-reload")
    box.kildsvc("mark", name, "done")
    box.kildsvc("stop", name)
    subscriber.wait_for("ended")
    assert [event for _, event in subscriber.words()] == ["opened", "ready", "mark", "ended"]
    subscriber.close()


def test_its_reader_of_the_journal_is_killed(box: Box, name: str) -> None:
    subscriber = Subscriber(box, name)
    box.kildsvc("open", name, "--", "sleep", "1000")
    subscriber.wait_for("ready")
    box.sh("pkill -KILL journalctl")
    box.kildsvc("stop", name)
    subscriber.wait_for("ended")
    assert [event for _, event in subscriber.words()] == ["opened", "ready", "ended"]
    subscriber.close()


def test_an_end_that_nobody_could_record(box: Box, name: str) -> None:
    subscriber = Subscriber(box, name)
    box.kildsvc("open", name, "--", "sleep", "1000")
    subscriber.wait_for("ready")
    box.cut_off()
    subscriber.wait_for("ended")
    ended = subscriber.seen()[-1]
    assert (ended["status"], ended["exit_code"], ended["signal"]) == ("dead", None, None)
    # Once, also for those who read of it later.
    box.kildsvc("open", name, "--", "sleep", "1000")
    subscriber.wait_for("ready", 2)
    assert [event for _, event in subscriber.words()] == ["opened", "ready", "ended", "opened", "ready"]
    late = box.kildsvc("events", name, "--json", "--no-follow", "--since", "1 hour ago").stdout.splitlines()
    assert [json.loads(line)["event"] for line in late][-5:] == ["opened", "ready", "ended", "opened", "ready"]
    subscriber.close()


@pytest.mark.timeout(300)
def test_a_hundred_end_at_once(box: Box) -> None:
    subscribers = [Subscriber(box), Subscriber(box)]
    script = "until [ -e ~/out ]; do sleep .5; done; exit $0"
    box.python(
        "import kildsvc, sys\nfor i in range(1, 101):"
        " kildsvc.open(f's{i}', ['sh', '-c', sys.argv[1], str(i % 3)], grace=0.001)",
        script,
        timeout=150,
    )
    names = [f"s{i}" for i in range(1, 101)]
    waiter = box.popen(box.kild, "wait", *names, "--json", stdout=subprocess.PIPE)
    box.sh("touch ~/out")
    out = waiter.communicate(timeout=120)[0].decode()
    assert waiter.returncode == 1
    waited = {one["name"]: one["exit_code"] for one in map(json.loads, out.splitlines())}
    assert waited == {f"s{i}": i % 3 for i in range(1, 101)}
    for subscriber in subscribers:
        subscriber.wait_for("ended", 100)
        # The first may be silent for half a minute before the last is open.
        words = [one for one in subscriber.words() if one[1] != "idle"]
        for word in ("opened", "ready", "ended"):
            assert sorted(name for name, event in words if event == word) == sorted(names)
        assert len(words) == 300
        codes = {event["name"]: event["exit_code"] for event in subscriber.seen() if event["event"] == "ended"}
        assert codes == waited
        subscriber.close()


@pytest.mark.timeout(120)
def test_silence_is_told_once(box: Box, name: str) -> None:
    subscriber = Subscriber(box, name)
    box.kildsvc("open", name, "--", "sh", "-c", "echo hello; sleep 1000")
    subscriber.wait_for("idle", 1, 60)
    session = box.json("status", name)
    assert (session["state"], session["idle"] > 29) == ("running", True)
    assert [event for _, event in subscriber.words()] == ["opened", "ready", "idle"]
    # Then the shim sleeps for good: nothing wakes it, and silence is not told again after a crash.
    box.crash_shim(name)
    shim = box.shim_pid(name)
    before = box.sh(f"grep ctxt /proc/{shim}/status")
    box.run("sleep", "35", timeout=50)
    assert box.sh(f"grep ctxt /proc/{shim}/status") == before
    assert [event for _, event in subscriber.words()].count("idle") == 1
    subscriber.close()


def test_a_reader_leaves_with_much_unread(box: Box, name: str) -> None:
    """More than any buffer on the way holds: who has enough of the journal is not held up by the rest."""
    box.kildsvc("open", name, "--", "sh", "-c", "seq 200000; echo printed; sleep 1000")
    wait_until("all is in the journal", lambda: "printed" in box.journal(name))
    script = f"""
import asyncio
from kildsvc import journal
async def main():
    entries = journal.follow(journal.of_session("{name}"))
    await anext(entries)
    await asyncio.sleep(1)  # meanwhile journalctl writes until nothing more fits
    await entries.aclose()
asyncio.run(main())
print("left")"""
    assert box.run(box.kild.replace("bin/kildsvc", "bin/python"), "-c", script, timeout=20).stdout == "left\n"
