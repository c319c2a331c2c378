"""Bringing a session's branch and its base together: sync takes the base in, land gives the work back."""

import os
from dataclasses import asdict, dataclass, field
from typing import Any

from kildsvc import git, runtime, store
from kildsvc.errors import AlreadyRunning, Conflict, KildError, NoSuchSession, Uncommitted
from kildsvc.model import Worktree
from kildsvc.operations import sessions
from kildsvc.operations import worktree as trees
from kildsvc.quantity import counted


@dataclass(frozen=True)
class Synced:
    """A branch that has what its base has."""

    name: str
    base: str
    taken: int  # commits of the base that it had not

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Landing:
    """What landing brings, or has brought."""

    name: str
    branch: str
    base: str
    landed: bool
    commits: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def sync(name: str, force: bool) -> Synced:
    """Rebases onto the base as it is here now; nothing is fetched. Raises Conflict, and then nothing has changed."""
    worktree = trees.of(name)
    ref = trees.base_ref(worktree)
    with runtime.locked(name):
        if not force:
            _refuse_alive(name, "its files would change under its agent", f"kildsvc sync --force {name}")
        _refuse_unfinished(name, worktree)
        _, behind = git.ahead_behind(worktree.path, ref)
        if behind and (files := git.rebase(worktree.path, ref)):
            raise Conflict(
                f"'{name}' and {worktree.base} conflict in {', '.join(files)}; it is as it was",
                f'cd "$(kildsvc cd {name})" && git rebase {worktree.base}',
            )
    return Synced(name, worktree.base, behind)


def _refuse_alive(name: str, why: str, otherwise: str) -> None:
    try:
        session = sessions.status(name)
    except NoSuchSession:
        return
    if session.alive:
        raise AlreadyRunning(f"session '{name}' is {session.state}: {why}", f"kildsvc stop {name}, or {otherwise}")


def _refuse_unfinished(name: str, worktree: Worktree) -> None:
    branch = git.head(worktree.path)
    if branch != worktree.branch:
        on = f"on '{branch}'" if branch else "on no branch"
        raise KildError(f"the worktree of '{name}' is {on}, not on '{worktree.branch}'", f"in {worktree.path}")
    if files := git.dirty(worktree.path):
        raise Uncommitted(
            f"'{name}' has {counted(len(files), 'uncommitted file')}", f"commit them first, in {worktree.path}"
        )


def land(name: str, execute: bool) -> Landing:
    """Merges the branch into its base, whole or not at all, or tells what that would bring. Raises Conflict."""
    worktree = trees.of(name)
    if trees.base_ref(worktree) != git.local(worktree.base):
        raise KildError(f"{worktree.base} is a remote's branch", f"git push, from {worktree.path}")
    _refuse_unfinished(name, worktree)
    ours, theirs = (git.tip(worktree.repo, git.local(one)) or "" for one in (worktree.base, worktree.branch))
    tree, conflicts = git.try_merge(worktree.repo, ours, theirs)
    commits = git.commits(worktree.repo, ours, theirs)
    files = git.changed_files(worktree.repo, ours, tree)
    place = _where_checked_out(worktree)
    if execute and commits:
        if conflicts:
            raise Conflict(
                f"'{name}' and {worktree.base} conflict in {', '.join(conflicts)}; nothing was merged",
                f"kildsvc sync {name}",
            )
        message = f"Merge branch '{worktree.branch}' into {worktree.base}"
        if place:
            git.merge(place, worktree.branch, message)
        else:
            ahead = git.count(worktree.repo, [ours], [theirs])
            new = git.commit_merge(worktree.repo, tree, [ours, theirs], message) if ahead else theirs
            git.move_branch(worktree.repo, worktree.base, ours, new, f"kildsvc land {name}")
    return Landing(name, worktree.branch, worktree.base, execute, commits, files, conflicts)


def _where_checked_out(worktree: Worktree) -> str | None:
    """The work tree that has the base, if there is one; it must be fit to merge in."""
    place = next((tree.path for tree in git.worktrees(worktree.repo) if tree.branch == worktree.base), None)
    if not place or not os.path.isdir(place):
        return None
    for other, metadata in store.load_all().items():
        if metadata.worktree and metadata.worktree.path == place:
            why = f"{worktree.base} is checked out in its worktree, and files would change under its agent"
            _refuse_alive(other, why, "land later")
    if files := git.dirty(place, new_files=False):
        raise Uncommitted(
            f"{worktree.base} is checked out in '{place}' with {counted(len(files), 'uncommitted file')}",
            "commit or stash them first",
        )
    return place
