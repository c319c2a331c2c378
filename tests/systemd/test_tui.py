"""The journal of a program that repaints its screen reads like its transcript."""

from pathlib import Path

import pytest
import standin
from box import Box, wait_until

PROGRAM = Path(standin.__file__).read_text()
LINES = standin.transcript()


def private_kilobytes(box: Box, name: str) -> int:
    shim = box.shim_pid(name)
    files = f"/proc/{shim}/smaps_rollup /proc/$(pgrep -P {shim})/smaps_rollup"
    return int(box.sh(f"awk '/^Private/ {{s += $2}} END {{print s}}' {files}"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("style", ["ink", "above-by-region", "alternate"])
def test_every_line_once_and_in_order(box: Box, name: str, style: str) -> None:
    name = f"{name}-{style}"
    box.run("sh", "-c", "mkdir -p ~/work; cat >~/work/standin.py", stdin=PROGRAM)
    play = (
        f"stty rows 40 cols 80; python3 ~/work/standin.py {style} 40 20 | tee ~/work/bytes; touch ~/out; sleep 1000"
    )
    box.kildsvc("open", name, "--", "bash", "-c", play)
    wait_until("it has played", lambda: box.sh("cat ~/out && echo yes", check=False), 60)
    memory = private_kilobytes(box, name)
    box.kildsvc("stop", name)
    shown = box.run("journalctl", "--user", "-u", f"kild-{name}", "-o", "cat", "--no-pager").stdout
    assert "blob data" not in box.run("journalctl", "--user", "-u", f"kild-{name}", "--no-pager").stdout
    lines = shown.splitlines()
    wanted = set(LINES)
    assert [line for line in lines if line in wanted] == LINES
    print(f"{style}: {len(lines)} lines, {memory} kB")
    assert len(lines) <= len(LINES) * 1.25, "20 % are others"
    assert memory <= 7 * 1024
    raw = box.kildsvc("logs", name, "--raw").stdout
    assert raw == box.sh("cat ~/work/bytes").replace("\n", "\r\n")


@pytest.mark.timeout(120)
def test_the_shim_is_killed_in_the_midst_of_frames(box: Box, name: str) -> None:
    box.run("sh", "-c", "mkdir -p ~/work; cat >~/work/standin.py", stdin=PROGRAM)
    box.kildsvc("open", name, "--", "bash", "-c", "python3 ~/work/standin.py ink 24 30; exit 3")
    box.crash_shim(name, 5)
    assert box.wait_ended(name, 60)["exit_code"] == 3
    lines = box.kildsvc("logs", name).stdout.splitlines()
    wanted = set(LINES)
    assert [line for line in lines if line in wanted] == LINES
    assert len(lines) <= len(LINES) * 1.25


@pytest.mark.timeout(120)
def test_a_flood_of_repaints_is_bounded_announced_and_survived(box: Box, name: str) -> None:
    box.run("sh", "-c", "mkdir -p ~/work; cat >~/work/standin.py", stdin=PROGRAM)
    play = "for i in {1..20}; do python3 ~/work/standin.py ink 24 1e9; done; echo the end; sleep 1000"
    box.kildsvc("open", name, "--", "bash", "-c", play)
    shim = box.shim_pid(name)
    wait_until("the flood is over", lambda: box.kildsvc("logs", name, "-n", "1").stdout == "the end\n", 90)
    assert box.shim_pid(name) == shim
    assert private_kilobytes(box, name) <= 8 * 1024
    assert "bytes of repaints not shown" in box.journal(name)
