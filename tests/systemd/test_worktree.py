"""Sessions in git worktrees: made whole or not at all, and never removed with work or a process in them."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, Result, wait_until

FOREVER = ("sleep", "1000")
REPO = "/home/dev/work/my äpp"
TREES = "/home/dev/.local/share/kildsvc/worktrees"


@pytest.fixture(autouse=True)
def repo(box: Box) -> Iterator[None]:
    box.sh(
        """git config --global user.name Dev; git config --global user.email dev@example.org
        git config --global init.defaultBranch main; git config --global color.ui always
        git config --global protocol.file.allow always
        mkdir -p "$1"; cd "$1"; git init -q; echo .env >.gitignore; echo one >a; mkdir sub; echo two >sub/b
        git add -A; git commit -qm first; echo SECRET=1 >.env; ln -s /etc/hostname sub/.env""",
        REPO,
    )
    yield
    box.sh("rm -rf ~/.gitconfig ~/.local/share")


def create(box: Box, name: str, *arguments: str, cwd: str = REPO, check: bool = True) -> Result:
    return box.run("sh", "-c", 'cd "$0" && exec "$@"', cwd, box.kild, "create", name, *arguments, check=check)


def sh(box: Box, script: str) -> list[str]:
    """Lines that a script prints; it has `main` and `tree NAME` to go to a work tree, and `commit FILE TEXT`."""
    words = f"""set -e; main() {{ cd '{REPO}'; }}; tree() {{ cd '{TREES}/my äpp/'$1; }}
    commit() {{ echo "$2" >"$1"; git add -A; git commit -qm "$1"; }}
    """
    return box.sh(words + script).splitlines()


def everything(box: Box) -> str:
    """All there is of us and of the repository: units, files, branches, worktrees."""
    return box.sh(
        """systemctl --user list-units --all --plain --no-legend 'kild-*.service' 'kildkeep-*.slice'
        find $XDG_RUNTIME_DIR/kildsvc ~/.local/state/kildsvc -mindepth 1 ! -type d 2>/dev/null
        find $XDG_RUNTIME_DIR/kildsvc -mindepth 1 -type d 2>/dev/null
        find ~/.local/share ~/work \\( -name objects -o -name packed-refs \\) -prune -o -print | sort
        git -C "$1" for-each-ref; git -C "$1" worktree list; cat "$1/.git/config" """,
        REPO,
        check=False,
    )


# -- create --------------------------------------------------------------------------------------------------


def test_a_session_with_a_worktree(box: Box, name: str) -> None:
    before = everything(box)
    tree = f"{TREES}/my äpp/{name}"
    done = create(box, name, "--setup", "cp .env made; echo to err >&2; echo to out; pwd", "--", *FOREVER)
    assert done.stdout.startswith(f"{name}: running as kild-{name}.service, pid ")
    assert f"~/.local/share/kildsvc/worktrees/my äpp/{name} on kild/{name}, from main" in done.stdout
    assert done.stderr == f"to err\nto out\n{tree}\n"
    assert box.sh('cd "$1"; cat a sub/b .env made; readlink sub/.env; git branch --show-current', tree).split() == [
        "one", "two", "SECRET=1", "SECRET=1", "/etc/hostname", f"kild/{name}",
    ]  # fmt: skip
    session = box.json("status", name)
    assert session["cwd"] == tree
    assert session["worktree"] == {
        "path": tree, "repo": REPO, "branch": f"kild/{name}", "base": "main", "created_branch": True,
    }  # fmt: skip
    assert box.sh(f"readlink /proc/{session['pid']}/cwd") == tree + "\n"
    assert box.kildsvc("cd", name).stdout == tree + "\n"
    # Run again, it is there again; also with another command.
    box.kildsvc("stop", name)
    for command in ((), ("--", "sleep", "999")):
        box.kildsvc("open", name, *command)
        assert box.sh(f"readlink /proc/{box.agent_pid(name)}/cwd") == tree + "\n"
        box.kildsvc("stop", name)
    assert box.json("list")[0]["worktree"]["branch"] == f"kild/{name}"
    box.sh('rm "$1/made"', tree)
    box.kildsvc("destroy", name)
    box.sh("cd ~/.local/share; rmdir kildsvc/worktrees kildsvc; rmdir --ignore-fail-on-non-empty ../share")
    assert everything(box) == before


def test_nothing_is_left_of_what_failed(box: Box, name: str) -> None:
    box.sh(
        """cd "$1"; git branch old; git branch hooked; cd .git/hooks
        printf '#!/bin/sh\n[ "$(git branch --show-current)" != hooked ] || { echo not today; exit 1; }' >post-checkout
        chmod +x post-checkout""",
        REPO,
    )
    before = everything(box)
    for arguments, code, message in [
        (["--setup", "touch new; echo no network; exit 7", "--", *FOREVER], 1, "setup command failed: exit code 7"),
        (["--setup", "sleep 987 & exit 1", "--", *FOREVER], 1, "the setup command failed"),
        (["--", "sh", "-c", "touch x; git commit -q --allow-empty -m x; sleep 987 & exit 3"], 5, "exit code 3"),
        (["--", "./none"], 2, "'./none' does not exist"),
        (["--branch", "old", "--setup", "exit 1", "--", *FOREVER], 1, "setup"),
        (["--branch", "hooked", "--", *FOREVER], 1, "not today"),
        (["--cwd", "none", "--", *FOREVER], 2, "does not exist"),
    ]:
        done = create(box, name, *arguments, check=False)
        assert (done.returncode, done.stdout, message in done.stderr) == (code, "", True), done
        assert everything(box) == before
    assert not box.processes("sleep 987")


def test_nothing_is_left_of_what_was_interrupted(box: Box, name: str) -> None:
    before = everything(box)
    for signal, arguments in [
        ("INT", ["--setup", "sleep 987; true", "--", *FOREVER]),
        ("TERM", ["--setup", "sleep 987; true", "--", *FOREVER]),
        ("INT", ["--grace", "20s", "--", "sleep", "987"]),
    ]:
        maker = box.popen(box.kild, "create", name, "--repo", REPO, *arguments)
        wait_until("it is on its way", lambda: box.processes("^sleep 987"))
        box.run("pkill", f"-{signal}", "-f", f"kildsvc create {name}")
        assert maker.wait(30) == 130
        assert everything(box) == before
        assert not box.processes("^sleep 987")


def test_mistakes_are_found_before_anything_is_made(box: Box, name: str) -> None:
    box.sh(
        """mkdir -p ~/work/plain; git init -q ~/work/empty; git clone -q "$1" ~/work/loose
        git -C ~/work/loose checkout -q --detach; cd "$1"; git branch kild/used; git worktree add -q ~/work/wt -b busy
        mkdir -p ~/.local/share/kildsvc/worktrees/"my äpp"/there""",
        REPO,
    )
    box.kildsvc("open", "known", "--", *FOREVER)
    before = everything(box)
    setup = ("--setup", "touch ~/work/ran")
    for cwd, arguments, message in [
        ("/home/dev/work/plain", [name], "is not in a git repository"),
        ("/home/dev/work/empty", [name], "has no commit yet"),
        ("/home/dev/work/loose", [name], "no branch is checked out"),
        (REPO, [name, "--base", "nope"], "there is no branch 'nope'"),
        (REPO, [name, "--branch", "busy"], "is checked out in '/home/dev/work/wt'"),
        (REPO, [name, "--branch", "main", "--base", "busy"], f"is checked out in '{REPO}'"),
        (REPO, [name, "--branch", "a..b"], "does not take"),
        (REPO, ["used"], "branch 'kild/used' exists already"),
        (REPO, ["there"], "exists already"),
        (REPO, ["known"], "there is a session 'known' already, running"),
        (REPO, ["a/b"], "try 'a-b'"),
        (REPO, [name, "--copy", "../*"], "outside repository"),
    ]:
        done = create(box, *arguments, *setup, "--", *FOREVER, cwd=cwd, check=False)
        assert done.returncode in (1, 2) and message in done.stderr and done.stderr.count("\n") == 1, done
    done = create(box, name, *setup, "--", "no-such-command", check=False)
    assert (done.returncode, done.stderr.count("not found in your PATH")) == (2, 1)
    assert everything(box) == before


def test_two_at_once_one_wins(box: Box, name: str) -> None:
    makers = [box.popen(box.kild, "create", name, "--repo", REPO, "--", *FOREVER) for _ in range(3)]
    assert sorted(maker.wait(60) for maker in makers) == [0, 1, 1]
    assert box.json("status", name)["state"] == "running"
    assert len(sh(box, "main; git worktree list")) == 2


def test_every_kind_of_repository(box: Box) -> None:
    box.sh(
        """cd ~/work; git clone -q --bare "$1" lib.git; git clone -q --depth 1 "file://$1" shallow
        git clone -q "$1" super; git -C super submodule --quiet add ~/work/lib.git "mod ule"
        git -C super commit -qm module; git -C "$1" worktree add -q ~/work/linked -b linked""",
        REPO,
    )
    kinds = {
        "bare": ("lib.git", "lib", "main"),
        "shallow": ("shallow", "shallow", "main"),
        "super": ("super", "super", "main"),
        "module": ("super/mod ule", "mod ule", "main"),
        "linked": ("linked/sub", "my äpp", "linked"),
    }
    for kind, (place, _, _) in kinds.items():
        create(box, kind, "--branch", f"feature/ü-{kind}", "--", *FOREVER, cwd=f"/home/dev/work/{place}")
    for session in box.json("list"):
        kind, worktree = session["name"], session["worktree"]
        assert (worktree["path"], worktree["base"]) == (f"{TREES}/{kinds[kind][1]}/{kind}", kinds[kind][2])
    stats = box.json("stats")
    assert {(one["branch"], one["ahead"], one["dirty"]) for one in stats} == {(f"feature/ü-{k}", 0, 0) for k in kinds}
    for kind in kinds:
        box.kildsvc("destroy", "--force", kind)
    left = box.sh('cd ~/work; for i in */ super/mod*; do git -C "$i" for-each-ref; git -C "$i" worktree list; done')
    assert "feature" not in left and TREES not in left
    assert box.sh('ls "$1"', TREES) == ""


def test_made_by_a_git_hook_and_from_python(box: Box, name: str) -> None:
    """A hook's GIT_DIR and GIT_INDEX_FILE would lead git, and the agent's git, astray."""
    code = f"import kildsvc; kildsvc.create({name!r}, ['sleep', '1000'], branch='py', labels={{'a': 'b'}})"
    box.sh(
        """cd "$1"; printf '#!/bin/sh\\nexport GIT_DIR=$PWD/.git\\n%s -c "%s"' "$2" "$3" >.git/hooks/post-commit
        chmod +x .git/hooks/post-commit; git commit -q --allow-empty -m next""",
        REPO,
        str(Path(sys.prefix) / "bin" / "python"),
        code,
    )
    session = box.json("status", name)
    assert (session["worktree"]["branch"], session["labels"]) == ("py", {"a": "b"})
    env = box.sh(f"tr '\\0' '\\n' </proc/{session['pid']}/environ")
    assert not re.search("^GIT_(DIR|INDEX_FILE|PREFIX)=", env, re.M)
    assert sh(box, f"tree {name}; git status --short") == []


# -- destroy -------------------------------------------------------------------------------------------------


def test_work_is_not_destroyed(box: Box, name: str) -> None:
    create(box, name, "--", *FOREVER)
    sh(box, f"tree {name}; commit done 1; echo 1 >new; {box.kild} stop {name}")
    done = box.kildsvc("destroy", name, check=False)
    assert (done.returncode, "1 uncommitted file (new) and 1 commit not in main" in done.stderr) == (1, True)
    sh(box, f"tree {name}; commit new 2; git checkout -q --detach; commit aside 3")
    error = box.json("destroy", name)["error"]
    assert (error["code"], "3 commits not in main" in error["message"]) == ("WOULD_LOSE_WORK", True)
    assert sh(box, f"main; git branch --format='%(refname)' --list kild/{name}") == [f"refs/heads/kild/{name}"]
    box.kildsvc("destroy", "--force", name)
    assert sh(box, f"main; git branch --list kild/{name}; ls {TREES}") == []


def test_a_branch_that_was_there_before_stays(box: Box, name: str) -> None:
    sh(box, "main; git branch old")
    create(box, name, "--branch", "old", "--", *FOREVER)
    sh(box, f"tree {name}; commit new 1; cd; {box.kild} stop {name}; {box.kild} destroy {name}")
    assert sh(box, "main; git log -1 --format=%s old") == ["new"]


def test_nothing_is_removed_under_a_process(box: Box, name: str) -> None:
    create(box, name, "--", *FOREVER)
    agent = box.agent_pid(name)
    tree = f"{TREES}/my äpp/{name}"
    with box.popen("sh", "-c", 'cd "$0/sub"; exec sleep 987', tree) as stranger:
        pid = wait_until("someone is there", lambda: box.processes("^sleep 987"))[0]
        for state in ("running", "stopped"):
            done = box.kildsvc("destroy", "--force", name, check=False)
            assert (done.returncode, f"process {pid} (sleep) is in" in done.stderr) == (1, True), done
            assert box.json("status", name)["state"] == state
            if state == "running":
                assert box.agent_pid(name) == agent
                box.kildsvc("stop", name)
        box.run("kill", str(pid))
        stranger.wait(30)
    # What a damaged worktree holds nobody knows.
    sh(box, f"tree {name}; echo gitdir: /tmp >.git")
    assert "no longer a worktree" in box.json("destroy", name)["error"]["message"]
    assert "no longer a worktree" in box.json("stats")[0]["problem"]
    box.kildsvc("destroy", "--force", name)
    assert len(sh(box, "main; git worktree list")) == 1


# -- sync, land, and what there is to see --------------------------------------------------------------------


def test_sync(box: Box) -> None:
    for name in ("one", "two"):
        create(box, name, "--", *FOREVER)
    sh(box, "tree one; commit c mine; tree two; commit a mine; main; commit a theirs")
    done = box.kildsvc("sync", "one", check=False)
    assert (done.returncode, "one' is running" in done.stderr) == (1, True)
    assert box.kildsvc("sync", "--force", "one").stdout == "one: rebased onto 1 new commit of main\n"
    box.kildsvc("stop", "--all")
    before = sh(box, "main; git rev-parse kild/two")
    done = box.kildsvc("rebase", "--all", check=False)
    assert (done.returncode, done.stdout) == (1, "one: has all of main\n")
    assert "'two' and main conflict in a; it is as it was" in done.stderr
    assert sh(box, "tree two; git rev-parse HEAD; git status --short; echo more >a") == before
    assert box.json("sync", "two")["error"]["code"] == "UNCOMMITTED"


def test_land_where_the_base_is_checked_out(box: Box, name: str) -> None:
    create(box, name, "--", *FOREVER)
    before = sh(box, f"tree {name}; commit c new; main; commit d meanwhile; git rev-parse main")
    plan = box.json("land", name)
    assert (plan["landed"], len(plan["commits"]), plan["files"], plan["conflicts"]) == (False, 1, ["c"], [])
    assert sh(box, "main; git rev-parse main; echo dirty >a") == before
    done = box.kildsvc("land", name, "--execute", check=False)
    assert f"main is checked out in '{REPO}' with 1 uncommitted file" in done.stderr
    sh(box, "main; git checkout -q a; touch untracked")  # in nobody's way
    assert "landed 1 commit, 1 file on main" in box.kildsvc("land", name, "--execute").stdout
    assert sh(box, "main; cat c; git log -1 --format=%s") == ["new", f"Merge branch 'kild/{name}' into main"]
    sh(box, f"tree {name}; touch forgotten")
    assert box.json("land", name)["error"]["code"] == "UNCOMMITTED"


def test_land_where_the_base_is_checked_out_nowhere(box: Box, name: str) -> None:
    create(box, name, "--", *FOREVER)
    sh(box, f"tree {name}; commit c new; main; git checkout -q --detach")
    box.kildsvc("land", name, "--execute")  # no merge is needed: main was behind
    sh(box, f"tree {name}; commit e more; main; git checkout -q main; commit d meanwhile; git checkout -q --detach")
    before = sh(box, "main; git rev-parse HEAD; git status --short")
    box.kildsvc("land", name, "--execute")
    assert sh(box, "main; git rev-parse HEAD; git status --short") == before
    assert sh(box, "main; git rev-list --count main; git ls-tree --name-only main") == (
        ["5", ".gitignore", "a", "c", "d", "e", "sub"]
    )
    sh(box, f"tree {name}; commit a mine; main; git checkout -q main; commit a theirs; git checkout -q --detach")
    assert box.json("land", name)["conflicts"] == ["a"]
    assert box.json("land", name, "--execute")["error"]["code"] == "CONFLICT"
    assert len(set(sh(box, "main; git rev-parse main HEAD"))) == 1


def test_what_has_changed(box: Box) -> None:
    for name in ("one", "two", "three"):
        create(box, name, "--", *FOREVER)
    sh(box, "tree one; commit a done; tree two; echo doing >a; echo file >'new ü'; main; commit d meanwhile")
    assert box.json("overlaps") == [{"repo": REPO, "file": "a", "sessions": ["one", "two"]}]
    keys = ("ahead", "behind", "dirty", "files", "added")
    stats = {one["name"]: [one[key] for key in keys] for one in box.json("stats")}
    assert stats == {"one": [1, 1, 0, 1, 1], "two": [0, 1, 2, 2, 2], "three": [0, 1, 0, 0, 0]}
    assert box.kildsvc("diff", "two", "--numstat", "-z").stdout == "1\t1\ta\x001\t0\tnew ü\x00"
    assert box.kildsvc("commits", "one", "--format=%s").stdout == "a\n"
    assert box.kildsvc("diff", "none", check=False).returncode == 4
    box.kildsvc("open", "plain", "--", *FOREVER)
    assert "has no worktree" in box.kildsvc("diff", "plain", check=False).stderr
