"""What only a kernel of one's own can show: the cgroup controllers at work, and a clock that jumps."""

import pytest
from box import Box

pytestmark = pytest.mark.vm

USER_CGROUP = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service"


def test_the_user_manager_has_the_controllers(box: Box) -> None:
    told = box.run("cat", f"{USER_CGROUP}/cgroup.controllers").stdout.split()
    assert {"cpu", "io", "memory", "pids"} <= set(told)


def test_a_session_is_seen_and_leaves_nothing(box: Box, name: str) -> None:
    box.kildsvc("open", name, "--", "sleep", "infinity")
    told = box.json("status", name)
    assert told["state"] == "running"
    assert told["memory"] > 0 and told["tasks"] >= 3, "shim, waiter, agent"
    box.kildsvc("stop", name)
    assert box.processes("sleep infinity") == []
    assert box.sh(f"find {USER_CGROUP} -path '*kild-*'") == ""
