"""Notifications: each event once, to the desktop and to the user's command, whatever happens to who tells them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, wait_until

# A desktop's notification service, as far as the bus can tell.
DESKTOP = """
import asyncio
from dbus_next.aio import MessageBus
from dbus_next.service import ServiceInterface, method
class Notifications(ServiceInterface):
    @method()
    def Notify(self, app: "s", replaces: "u", icon: "s", title: "s", body: "s", actions: "as", hints: "a{sv}",
               timeout: "i") -> "u":
        with open("/home/dev/work/shown", "a") as file:
            print(title, body, sep="|", file=file)
        return 7
async def main():
    bus = await MessageBus().connect()
    bus.export("/org/freedesktop/Notifications", Notifications("org.freedesktop.Notifications"))
    await bus.request_name("org.freedesktop.Notifications")
    await bus.wait_for_disconnect()
asyncio.run(main())
"""
COMMAND = """#!/bin/bash
echo "$KILD_NAME|$KILD_EVENT|$KILD_EXIT_CODE|$KILD_STATUS|${KILD_SESSION-none}|$#|$1" >>~/work/told
[ "$KILD_NAME" != slow ] || { touch ~/work/slow; sleep 1; echo slow is done >>~/work/told; }
exit 1
"""
SETTINGS = '[notify]\ncommand = ["~/work/tell"]\n'


@pytest.fixture(autouse=True)
def told(box: Box) -> Iterator[None]:
    box.run("bash", "-c", "mkdir -p ~/work ~/.config/kildsvc; cat >~/work/tell; chmod +x ~/work/tell", stdin=COMMAND)
    box.run("bash", "-c", "cat >~/.config/kildsvc/config.toml", stdin=SETTINGS)
    yield
    box.kildsvc("setup", "--remove")
    box.sh("rm -rf ~/.config/kildsvc ~/.config/systemd")


def lines(box: Box, file: str) -> list[str]:
    return box.sh(f"cat ~/work/{file} 2>/dev/null || :").splitlines()


def wait_told(box: Box, text: str, file: str = "told") -> None:
    wait_until(f"{text} in {file}", lambda: any(text in line for line in lines(box, file)))


def test_each_event_once(box: Box) -> None:
    python = str(Path(box.kild).with_name("python"))
    desktop = box.popen(python, "-c", DESKTOP)
    try:
        wait_until("it is on the bus", lambda: "Notif" in box.sh("busctl --user --no-legend list | grep Notif || :"))
        box.kildsvc("setup", "--notify")
        box.python(
            "import kildsvc, sys\n"
            "kildsvc.open('a', ['bash', '-c', sys.argv[1]], grace=0)\n"
            "kildsvc.open('quiet', ['sh', '-c', 'read x; exit 4'], grace=0, notify=False)\n",
            r"read x; printf '\a'; read y; exit 3",
        )
        box.kildsvc("send", "a", "--enter", "")
        wait_told(box, "a|bell")
        box.kildsvc("mark", "a", "waiting", '<b>$(touch ~/work/owned)`&\x1b[2J"')
        wait_told(box, "a|waiting")
        # Neither repeated nor lost: not by a restart, nor while it is down, nor when it is killed.
        box.sh("systemctl --user restart kildsvc-notify; systemctl --user stop kildsvc-notify")
        box.sh("for name in quiet a; do $1 send $name --enter ''; $1 wait $name; done || :", box.kild)
        box.sh("systemctl --user start kildsvc-notify")
        wait_told(box, "a|ended")
        box.sh("c='systemctl --user'; u=kildsvc-notify; $c kill -s KILL $u; $c stop $u; $c start $u")
        # What it has begun to tell when it is stopped, it tells to the end.
        box.kildsvc("open", "slow", "--grace", "0", "--", "true")
        wait_until("it is at it", lambda: box.sh("ls ~/work/slow 2>/dev/null || :"))
        box.sh("systemctl --user restart kildsvc-notify")
        assert lines(box, "told")[-1] == "slow is done"
        box.python(
            "import kildsvc\n"
            "kildsvc.open('halted', ['sleep', '1000'], grace=0).stop()\n"
            "kildsvc.open('last', ['sh', '-c', 'kill -9 $$'], grace=0)"
        )
        wait_told(box, "last|ended")
        waiting = 'waiting: <b>$(touch ~/work/owned)`& [2J"'
        assert Counter(lines(box, "told")) == Counter(
            [
                "a|bell|||none|1|a: the agent rang the bell",
                f"a|waiting|||none|1|a: {waiting}",
                "a|ended|3|exited|none|1|a: ended: exit 3",
                "slow|ended|0|exited|none|1|slow: ended: exit 0",
                "slow is done",
                "last|ended|137|killed|none|1|last: ended: signal KILL",
            ]
        )
        assert Counter(lines(box, "shown")) == Counter(
            [
                "a|the agent rang the bell",
                'a|waiting: &lt;b&gt;$(touch ~/work/owned)`&amp; [2J"',
                "a|ended: exit 3",
                "slow|ended: exit 0",
                "last|ended: signal KILL",
            ]
        )
        assert not box.sh("ls ~/work/owned 2>/dev/null || :")
    finally:
        desktop.terminate()
        desktop.wait()


def test_nobody_can_be_told(box: Box, name: str) -> None:
    """No desktop, and a command that is not there: said in the journal, and nothing else happens."""
    box.run("bash", "-c", "cat >~/.config/kildsvc/config.toml", stdin='[notify]\non = ["bell"]\ncommand = ["/no"]\n')
    box.kildsvc("setup", "--notify")
    box.kildsvc("open", name, "--", "bash", "-c", r"read x; printf '\a'; read y; exit 3")
    box.kildsvc("send", name, "--enter", "")
    said = "journalctl --user -u kildsvc-notify -o cat --since -1min"
    wait_until("it says so", lambda: f"{name}: '/no' was not told: /no: No such file" in box.sh(said))
    assert f"{name}: the desktop was not told: exit code 1, ignoring" in box.sh(said)
    box.run("bash", "-c", "cat >~/.config/kildsvc/config.toml", stdin=f"{SETTINGS}desktop = false\nall = false\n")
    assert box.kildsvc("notify", "--test", check=False).returncode == 1
    assert lines(box, "told") == ["test|bell|||none|1|test: this is a test"]
    second = box.kildsvc("notify", check=False)
    assert (second.returncode, "another 'kildsvc notify'" in second.stderr) == (1, True)
    box.kildsvc("open", "chosen", "--notify", "--grace", "0", "--", "true")
    wait_told(box, "chosen|ended")
    box.kildsvc("send", name, "--enter", "")
    assert box.wait_ended(name)["exit_code"] == 3
    box.kildsvc("open", "chosen", "--grace", "0")
    wait_until("it is remembered", lambda: len(lines(box, "told")) == 3)
    assert not [line for line in lines(box, "told") if name in line]
