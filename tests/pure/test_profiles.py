"""Sandbox profiles, and what they mean on a disk."""

import os
from pathlib import Path
from typing import Any

import pytest

from kildsvc import activity, userns, workspace
from kildsvc.errors import UsageError
from kildsvc.sandbox import AGENTS, BUILT_IN, Places, expectations, find_profile
from kildsvc.systemd.manager import _encode
from kildsvc.systemd.sandbox import sandbox

PLACES = Places(
    home="/home/dev",
    runtime="/run/user/1000",
    session="/run/user/1000/kildsvc/demo",
    run="c0ffee",
    output="/home/dev/.local/state/kildsvc/output/demo",
    write=("/src/app", "/src/app/.git"),
    read=("/home/dev/.gitconfig",),
    keep=("/src/app/.git/hooks",),
    empty=("/mnt",),
    hide=("/home/dev/.Xauthority",),
    homes=("/home", "/root"),
)
OUTSIDE = {"user": "user:[1]", "mnt": "mnt:[2]", "net": "net:[3]"}


def properties(name: str) -> dict[str, Any]:
    found = sandbox(BUILT_IN[name], PLACES)
    values = {name: value for name, _, value in found}
    assert len(values) == len(found)
    return values


def test_off_is_no_sandbox() -> None:
    assert find_profile("off", {}) is None
    assert find_profile("workspace", {}) == BUILT_IN["workspace"]


def test_a_profile_is_made_from_others() -> None:
    tables: dict[str, dict[str, Any]] = {
        "workspace": {"write": ["/data"]},
        "lab": {"base": "strict", "network": True, "read": ["/r"], "hide": ["/h"]},
        "more": {"base": "lab", "write": ["/w"]},
        "plain": {},
    }
    workspace, more, plain = (find_profile(name, tables) for name in ("workspace", "more", "plain"))
    assert workspace and more and plain
    assert workspace.write == (*BUILT_IN["workspace"].write, "/data")
    assert (more.name, more.network, more.home) == ("more", True, False)
    assert (more.read[-1], more.write, more.hide[-1]) == ("/r", ("/w",), "/h")
    assert (plain.name, plain.write) == ("plain", workspace.write), "based on workspace, as the user has it"


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("nosuch", {}),
        ("a", {"a": {"base": "nosuch"}}),
        ("a", {"a": {"base": "off"}}),
        ("a", {"a": {"base": "a"}}),
        ("a", {"a": {"base": "b"}, "b": {"base": "a"}}),
        ("strict", {"strict": {"base": "lab"}, "lab": {"base": "strict"}}),
    ],
)
def test_a_profile_of_nothing_is_refused(name: str, tables: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        find_profile(name, tables)


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_every_sandbox_has(name: str) -> None:
    found = properties(name)
    for setting in ("PrivateUsers", "NoNewPrivileges", "PrivateTmp", "ProtectControlGroups", "RestrictSUIDSGID"):
        assert found[setting] is True
    assert found["RestrictNamespaces"] == 0
    assert {"/run", PLACES.runtime, "/dev/shm", "/mnt"} <= {path for path, _ in found["TemporaryFileSystem"]}
    written = {path for path, _, _, _ in found["BindPaths"]}
    assert written == {"/run/user/1000/systemd/notify", PLACES.session, PLACES.output, *PLACES.write}
    kept = {path for path, _, _, _ in found["BindReadOnlyPaths"]}
    assert {f"{PLACES.session}/c0ffee.shim", f"{PLACES.session}/c0ffee.json", *PLACES.keep} <= kept
    assert found["PrivateNetwork"] is (name == "strict")
    assert list(_encode("a(sv)", sandbox(BUILT_IN[name], PLACES)))


def test_the_shim_is_told_what_must_hold() -> None:
    strict = expectations(BUILT_IN["strict"], PLACES, OUTSIDE)
    assert strict["outside"] == OUTSIDE
    assert {"/run/user/1000/bus", "/run/user/1000/systemd/private", "/home/dev/.ssh"} <= set(strict["absent"])
    workspace = expectations(BUILT_IN["workspace"], PLACES, OUTSIDE)
    assert "net" not in workspace["outside"]
    assert {"/", "/home/dev", "/sys/fs/cgroup", *PLACES.keep} <= set(workspace["readonly"])


def test_the_agents_settings_lie_in_what_is_theirs() -> None:
    for state in AGENTS.values():
        assert {os.path.dirname(path) for path in state.settings} <= set(state.directories)


@pytest.mark.parametrize(
    ("program", "prefix"),
    [
        ("/h/.local/share/x/bin/x", "/h/.local/share/x"),
        ("/h/.local/share/claude/versions/1.2", "/h/.local/share/claude/versions"),
        ("/h/.local/bin/x", "/h/.local/bin"),
        ("/h/bin/x", "/h/bin"),
        ("/h/x", "/h/x"),
        ("/h/.npm-global/lib/node_modules/@a/b/cli.js", "/h/.npm-global/lib/node_modules"),
        ("/h/.venvs/x/bin/x", "/h/.venvs/x"),
    ],
)
def test_where_a_program_is_installed(program: str, prefix: str) -> None:
    assert workspace._prefix(program, "/h") == prefix


def test_a_work_tree_is_found_from_inside(tmp_path: Path) -> None:
    home, top = tmp_path / "home", tmp_path / "home" / "app"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "config").touch()
    (top / "sub").mkdir()
    found, write, keep = workspace._work_tree(str(top / "sub"), str(home))
    assert (found, write) == (str(top), [f"{top}/.git"])
    assert set(keep) == {f"{top}/.git/config", f"{top}/.git/hooks"}
    # Not one of the whole home directory.
    (home / ".git").mkdir()
    (home / "other").mkdir()
    assert workspace._work_tree(str(home / "other"), str(home)) == (str(home / "other"), [], [])


def test_links_in_a_repository_lead_nowhere(tmp_path: Path) -> None:
    """What a linked work tree may write to, as a hostile earlier run would like to have it."""
    common, own, top = tmp_path / "main/.git", tmp_path / "main/.git/worktrees/t", tmp_path / "t"
    for path in (own, top, tmp_path / "secret", common / "refs"):
        path.mkdir(parents=True)
    (top / ".git").write_text(f"gitdir: {own}\n")
    (own / "gitdir").write_text(f"{top}/.git\n")
    (own / "commondir").write_text("../..\n")
    (common / "objects").symlink_to(tmp_path / "secret")
    _, write, keep = workspace._work_tree(str(top), "/home/dev")
    assert write == [str(own), f"{common}/refs"]
    assert keep == [f"{top}/.git", str(common), f"{own}/commondir", f"{own}/gitdir"]
    (own / "gitdir").write_text("/elsewhere/.git\n")
    assert workspace._work_tree(str(top), "/home/dev") == (str(top), [], [f"{top}/.git"])


@pytest.mark.parametrize(
    ("switches", "remedy"),
    [
        ({"kernel.unprivileged_userns_clone": "0"}, "as root: sysctl kernel.unprivileged_userns_clone=1"),
        ({"user.max_user_namespaces": "0"}, "as root: sysctl user.max_user_namespaces=15000"),
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1", "user.max_user_namespaces": "9"},
            "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({}, "or give --sandbox=off"),
    ],
)
def test_who_forbids_user_namespaces(switches: dict[str, str], remedy: str) -> None:
    assert userns.explain(switches)[1] == remedy


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ('{"state": "done", "text": "\\u001b]0;x\\u0007", "at": 5}', "?]0;x?"),
        ('{"state": "evil", "text": "", "at": 5}', None),
        ('{"state": "done", "text": 7, "at": 5}', None),
        ('{"state": "done", "text": "", "at": "x"}', None),
        ('{"state": "done", "text": "", "at": 1e999}', None),
        ('{"state": "done", "text": "", "at": NaN}', None),
        ('{"state": ["done"], "text": "", "at": 5}', None),
        ("[1]", None),
        ("[" * 9000, None),
    ],
)
def test_what_a_session_writes_is_not_shown_as_it_is(tmp_path: Path, told: str, text: str | None) -> None:
    (tmp_path / "mark").write_text(told)
    (tmp_path / "run").write_text("\033[31m")
    mark = activity.read(tmp_path).mark
    assert (mark.text if mark else None) == text
    assert activity.read_run(tmp_path)[0] is None
