"""git.py on real repositories, with the settings of a user who likes everything otherwise."""

import os
import subprocess
from pathlib import Path

import pytest

from kildsvc import git
from kildsvc.errors import KildError, UsageError

UNUSUAL = """
[color]
    ui = always
[core]
    pager = false
    quotepath = true
[status]
    showUntrackedFiles = no
    relativePaths = true
    branch = true
    short = true
[diff]
    external = false
    noprefix = true
    renames = copies
    ignoreSubmodules = all
[log]
    showSignature = true
    decorate = full
    date = relative
[alias]
    status = !false
[rebase]
    autoStash = true
[merge]
    ff = false
[advice]
    detachedHead = true
[protocol "file"]
    allow = always
[init]
    defaultBranch = main
"""


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(UNUSUAL)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Dev")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "dev@example.org")


def run(path: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", path, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(path: Path, **files: str) -> str:
    for name, text in files.items():
        (path / name).write_text(text)
    run(path, "add", "--all")
    run(path, "commit", "--quiet", "-m", " ".join(files))
    return run(path, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "my äpp"
    path.mkdir()
    run(path, "init", "--quiet")
    commit(path, one="1\n", two="2\n")
    return path


@pytest.fixture
def tree(repo: Path, tmp_path: Path) -> Path:
    git.add_branch(str(repo), "kild/x", "refs/heads/main")
    git.add_worktree(str(repo), str(tmp_path / "tree"), "kild/x")
    return tmp_path / "tree"


# -- what there is -------------------------------------------------------------------------------------------


def test_the_main_repository_is_found_from_everywhere(repo: Path, tree: Path, tmp_path: Path) -> None:
    (repo / "sub").mkdir()
    bare = tmp_path / "lib.git"
    run(repo, "clone", "--quiet", "--bare", ".", str(bare))
    run(repo, "clone", "--quiet", "--bare", ".", str(tmp_path / "hidden" / ".git"))
    run(repo, "submodule", "--quiet", "add", str(bare), "mod")
    assert git.find(str(repo / "sub")) == git.Repository(str(repo), str(repo))
    assert git.find(str(repo / ".git")) == git.Repository(str(repo), None)
    assert git.find(str(tree)) == git.Repository(str(repo), str(tree))
    assert git.find(str(bare)) == git.Repository(str(bare), None)
    assert git.find(str(tmp_path / "hidden")) == git.Repository(str(tmp_path / "hidden"), None)
    assert git.find(str(repo / "mod")) == git.Repository(str(repo / "mod"), str(repo / "mod"))
    assert [git.find(str(path)).name for path in (repo, bare)] == ["my äpp", "lib"]


@pytest.mark.parametrize("place", ["", "nowhere"])
def test_what_is_no_repository(tmp_path: Path, place: str) -> None:
    with pytest.raises(UsageError, match="is not"):
        git.find(str(tmp_path / place))


def test_a_hooks_variables_do_not_lead_elsewhere(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    run(tmp_path, "init", "--quiet", str(other))
    for name, value in {"GIT_DIR": f"{other}/.git", "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": "no"}.items():
        monkeypatch.setenv(name, value)
    assert git.find(str(repo)).main == str(repo)
    assert git.dirty(str(repo)) == []


def test_heads_and_branches(repo: Path, tree: Path) -> None:
    assert git.head(str(tree)) == "kild/x"
    run(repo, "tag", "main")  # makes the short name ambiguous
    assert git.head(str(repo)) == "main"
    assert {(one.path, one.branch) for one in git.worktrees(str(tree))} == {
        (str(repo), "main"),
        (str(tree), "kild/x"),
    }
    run(tree, "checkout", "--quiet", "--detach")
    assert git.head(str(tree)) is None
    assert [one.branch for one in git.worktrees(str(repo))] == ["main", None]
    assert git.branch_ref(str(repo), "kild/x") == "refs/heads/kild/x"
    assert git.branch_ref(str(repo), "v1") is None
    assert [git.valid_branch(str(repo), name) for name in ("feature/ä", "-x", "a..b", "x.lock", "@{-1}")] == [
        True, False, False, False, False,
    ]  # fmt: skip


def test_no_commit_yet(tmp_path: Path) -> None:
    run(tmp_path, "init", "--quiet", "new")
    assert (git.head(str(tmp_path / "new")), git.tip(str(tmp_path / "new"), "HEAD")) == ("main", None)


def test_a_worktree_that_names_another_repository_is_not_trusted(repo: Path, tree: Path, tmp_path: Path) -> None:
    git.check_worktree(str(tree), str(repo))
    evil = tmp_path / "evil"
    run(tmp_path, "init", "--quiet", str(evil))
    for pointer in (f"gitdir: {evil}/.git\n", f"gitdir: {repo}/.git/worktrees/../../../evil/.git\n", ""):
        (tree / ".git").write_text(pointer)
        with pytest.raises(KildError, match="no longer a worktree"):
            git.check_worktree(str(tree), str(repo))
    (tree / ".git").unlink()
    with pytest.raises(KildError, match="no longer a worktree"):
        git.check_worktree(str(tree), str(repo))
    git.remove_worktree(str(repo), str(tree))  # damaged as it is
    assert not tree.exists() and len(git.worktrees(str(repo))) == 1
    with pytest.raises(KildError, match="is gone"):
        git.check_worktree(str(tree), str(repo))


# -- files ---------------------------------------------------------------------------------------------------


def test_untracked_files_by_pattern(repo: Path) -> None:
    (repo / "nested").mkdir()
    run(repo / "nested", "init", "--quiet")
    commit(repo / "nested", inner="")
    (repo / ".git/info/exclude").write_text(".env*\nnode_modules/\n")
    for name in (".env", ".env.local", "api/.env", "node_modules/p/.env", "new/a.key", "new/b"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).touch()
    (repo / "link").symlink_to("/etc")
    for patterns, found in {
        (".env", ".env.*"): [".env", ".env.local", "api/.env"],
        ("*.key",): ["new/a.key"],
        ("new",): ["new/a.key", "new/b"],
        ("node_modules",): ["node_modules/p/.env"],
        ("node_modules/p/", "link/"): ["link", "node_modules/p/.env"],
        ("node_modules/p/*",): ["node_modules/p/.env"],
        ("/.env",): [".env"],
        ("api/.env", "nothing"): ["api/.env"],
        ("link",): ["link"],
        ("link/*",): [],
        ("one",): [],  # tracked
        ("*",): [".env", ".env.local", "api/.env", "link", "new/a.key", "new/b", "node_modules/p/.env"],
        (): [],
    }.items():
        assert git.untracked(str(repo), patterns) == found, patterns


def test_no_pattern_leads_outside(repo: Path) -> None:
    for pattern in ("../*", "/etc/../../*", "a/../../*"):
        with pytest.raises(KildError, match="outside repository"):
            git.untracked(str(repo), (pattern,))


def test_changes_include_what_is_not_committed_and_what_is_new(repo: Path, tree: Path) -> None:
    start = git.fork(str(tree), "refs/heads/main")
    commit(tree, one="1\n1\n")
    (tree / "two").unlink()
    (tree / "new ü\tb").write_text("n\n")
    (tree / "blob").write_bytes(bytes(range(256)))
    Path(os.fsdecode(bytes(tree) + b"/\xff")).write_text("x\n")
    run(tree, "init", "--quiet", "nested")  # git cannot add one that has no commit
    index = (repo / ".git/worktrees/tree/index").read_bytes()
    changes = {change.file: (change.added, change.deleted) for change in git.changes(str(tree), start)}
    assert changes == {"one": (1, 0), "two": (0, 1), "new ü\tb": (1, 0), "blob": (0, 0), "�": (1, 0)}
    assert sorted(git.dirty(str(tree))) == ["blob", "nested/", "new ü\tb", "two", "�"]
    assert git.dirty(str(tree), new_files=False) == ["two"]
    assert git.ahead_behind(str(tree), "refs/heads/main") == (1, 0)
    assert (repo / ".git/worktrees/tree/index").read_bytes() == index


def test_a_failure_is_told_in_gits_words(repo: Path, tree: Path) -> None:
    with pytest.raises(KildError, match=r"^git worktree: 'kild/x' is already checked out at"):
        git.add_worktree(str(repo), str(tree) + "2", "kild/x")
    with pytest.raises(KildError, match=r"^git branch: .*already exists"):
        git.add_branch(str(repo), "kild/x", "HEAD")


# -- rebase and merge ----------------------------------------------------------------------------------------


def test_a_rebase_in_conflict_is_as_if_it_had_not_been(repo: Path, tree: Path) -> None:
    mine = commit(tree, one="mine\n", three="3\n")
    commit(repo, one="theirs\n")
    assert git.rebase(str(tree), "refs/heads/main") == ["one"]
    assert (git.head(str(tree)), git.tip(str(tree), "HEAD"), git.dirty(str(tree))) == ("kild/x", mine, [])


def test_a_rebase(repo: Path, tree: Path) -> None:
    commit(tree, three="3\n")
    commit(repo, one="theirs\n")
    assert git.rebase(str(tree), "refs/heads/main") == []
    assert git.ahead_behind(str(tree), "refs/heads/main") == (1, 0)


def test_a_merge_is_tried_and_made_without_a_work_tree(repo: Path, tree: Path) -> None:
    theirs, ours = commit(tree, three="3\n"), commit(repo, one="ours\n")
    clean, conflicts = git.try_merge(str(repo), ours, theirs)
    assert conflicts == []
    assert git.changed_files(str(repo), ours, clean) == ["three"]
    run(repo, "checkout", "--quiet", "--detach")
    new = git.commit_merge(str(repo), clean, [ours, theirs], "Merge")
    git.move_branch(str(repo), "main", ours, new, "test")
    assert run(repo, "show", "--no-ext-diff", "--no-color", "main:three") == "3"
    with pytest.raises(KildError, match="is at"):  # it has moved meanwhile
        git.move_branch(str(repo), "main", ours, theirs, "test")
    theirs = commit(tree, one="mine\n")
    assert git.try_merge(str(repo), new, theirs)[1] == ["one"]


def test_a_merge_that_a_hook_refuses_is_taken_back(repo: Path, tree: Path) -> None:
    commit(tree, three="3\n")
    ours = commit(repo, one="ours\n")
    hook = repo / ".git/hooks/pre-merge-commit"
    hook.write_text("#!/bin/sh\necho not today >&2; exit 1\n")
    hook.chmod(0o755)
    with pytest.raises(KildError, match="not today"):
        git.merge(str(repo), "kild/x", "Merge")
    assert (git.tip(str(repo), "HEAD"), git.dirty(str(repo))) == (ours, [])
    hook.unlink()
    (repo / "three").touch()
    with pytest.raises(KildError, match=r"untracked .* would be overwritten by merge: three$"):
        git.merge(str(repo), "kild/x", "Merge it")
    (repo / "three").unlink()
    git.merge(str(repo), "kild/x", "Merge it")
    assert git.commits(str(repo), ours, "HEAD")[0].endswith("Merge it")
