"""kildsvc-debug(7): what it says can be done."""

import re

from box import REPO, Box, wait_until

PAGE = (REPO / "packaging" / "man" / "kildsvc-debug.7.md").read_text()


def commands(title: str, name: str) -> str:
    text = PAGE.split(f"\n# {title}\n")[1].split("\n# ")[0]
    lines = [line[4:].removeprefix("$ ") for line in text.splitlines() if line.startswith("    ")]
    return re.sub(r"\bNAME\b", name, "\n".join(lines))


def test_a_session_is_replayed_by_hand(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sh", "-c", "echo pid $$; exec sleep 1000")
    script = commands("REPLAYING A SESSION BY HAND", name)
    assert "kildsvc attach replay" in script
    script = script.replace("kildsvc attach replay", f"{box.kild} status --json replay")
    shown = box.sh(f"set -e\n{script}\nls")
    assert '"state": "running"' in shown
    wait_until("the journal has its output", lambda: re.search(r"^pid [0-9]+$", box.journal("replay"), re.M))
    assert shown.splitlines()[-1] == name, "left behind"
    assert box.processes("sleep 1000") == [box.agent_pid(name)]


def test_a_shim_is_talked_to(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "1000")
    said = box.sh(commands("TALKING TO A SHIM", name))
    assert said.startswith("16 b'{") and f'"pid": {box.agent_pid(name)}' in said
