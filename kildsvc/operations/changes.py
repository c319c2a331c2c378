"""What sessions have changed in their worktrees, as git tells it."""

from dataclasses import asdict, dataclass
from typing import Any

from kildsvc import git, model, store
from kildsvc.errors import KildError
from kildsvc.model import Worktree
from kildsvc.operations import worktree as trees


@dataclass(frozen=True)
class Stats:
    """None is what git could not tell; then `problem` says why."""

    name: str
    path: str
    branch: str
    base: str
    ahead: int | None = None  # commits
    behind: int | None = None
    dirty: int | None = None  # files with changes that are not committed
    files: int | None = None  # that differ from the base, committed or not
    added: int | None = None  # lines
    deleted: int | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Overlap:
    """A file that several sessions change."""

    repo: str
    file: str
    sessions: list[str]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _known() -> dict[str, Worktree]:
    return {name: metadata.worktree for name, metadata in sorted(store.load_all().items()) if metadata.worktree}


def names() -> list[str]:
    """Sessions that have a worktree."""
    return list(_known())


def where(name: str) -> str:
    """The session's worktree, or the directory it runs in."""
    metadata = store.load(model.check_name(name))
    return metadata.cwd if metadata and not metadata.worktree else trees.of(name).path


def diff(name: str, arguments: tuple[str, ...]) -> int:
    """Shows what differs from where the branch left its base, committed or not, new files too."""
    worktree = trees.of(name)
    start = git.fork(worktree.path, trees.base_ref(worktree))
    with git.new_files(worktree.path) as index:
        return git.show(worktree.path, "diff", start, *arguments, index=index)


def commits(name: str, arguments: tuple[str, ...]) -> int:
    worktree = trees.of(name)
    return git.show(worktree.path, "log", "--oneline", f"{trees.base_ref(worktree)}..HEAD", *arguments)


def stats(wanted: tuple[str, ...]) -> list[Stats]:
    """Of the named sessions, or of all that have a worktree; then one that is damaged does not hide the others."""
    if wanted:
        return [_stats(name, trees.of(name)) for name in dict.fromkeys(wanted)]
    found = []
    for name, worktree in _known().items():
        try:
            found.append(_stats(name, trees.of(name)))
        except KildError as error:
            found.append(Stats(name, worktree.path, worktree.branch, worktree.base, problem=error.message))
    return found


def _stats(name: str, worktree: Worktree) -> Stats:
    ref = trees.base_ref(worktree)
    ahead, behind = git.ahead_behind(worktree.path, ref)
    changed = git.changes(worktree.path, git.fork(worktree.path, ref))
    return Stats(
        name=name,
        path=worktree.path,
        branch=git.head(worktree.path) or "",
        base=worktree.base,
        ahead=ahead,
        behind=behind,
        dirty=len(git.dirty(worktree.path)),
        files=len(changed),
        added=sum(change.added for change in changed),
        deleted=sum(change.deleted for change in changed),
    )


def overlaps() -> tuple[list[Overlap], list[str]]:
    """Files that several sessions of one repository have changed; and what could not be read."""
    touched: dict[tuple[str, str], list[str]] = {}
    problems = []
    for name in _known():
        try:
            worktree = trees.of(name)
            changed = git.changes(worktree.path, git.fork(worktree.path, trees.base_ref(worktree)))
        except KildError as error:
            problems.append(f"{name}: {error.message}")
            continue
        for change in changed:
            touched.setdefault((worktree.repo, change.file), []).append(name)
    found = [Overlap(repo, file, who) for (repo, file), who in sorted(touched.items()) if len(who) > 1]
    return found, problems
