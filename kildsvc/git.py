"""The only one that runs git. Plain types in and out; why git failed is told in git's own words."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kildsvc.errors import KildError, UsageError

_HEADS, _REMOTES = "refs/heads/", "refs/remotes/"
# Of the caller's variables for git only these: the others say which repository, index or path rules a hook is in.
_KEPT = (
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_PAGER",
)


@dataclass(frozen=True)
class Repository:
    """Where its branches are, and the work tree one stands in."""

    main: str  # its main work tree; the repository itself where it is bare
    top: str | None  # the work tree it was found from

    @property
    def name(self) -> str:
        return os.path.basename(self.main).removesuffix(".git") or "root"


@dataclass(frozen=True)
class Tree:
    """A work tree, and what is checked out there."""

    path: str
    branch: str | None  # None: detached, or bare


@dataclass(frozen=True)
class Change:
    """Lines of one file."""

    file: str
    added: int
    deleted: int


class _Failed(KildError):
    def __init__(self, verb: str, errors: str, code: int) -> None:
        lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.startswith("hint:")]
        found = [number for number, line in enumerate(lines) if line.startswith(("fatal: ", "error: "))]
        # Advice may follow the reason, unless that ends in a colon; a hook gives its own in front of git's.
        reasons = lines[found[-1] :][: 2 if lines[found[-1]].endswith(":") else 1] if found else lines[-3:]
        self.reason = "; ".join(reasons).replace(":; ", ": ").removeprefix("fatal: ").removeprefix("error: ")
        self.reason = self.reason or f"exit code {code}"
        self.status = code
        super().__init__(f"git {verb}: {self.reason}")


def _environment(extra: dict[str, str]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(_KEPT)}
    return {**env, "GIT_TERMINAL_PROMPT": "0", **extra}


def _run(path: str, *arguments: str, fine: tuple[int, ...] = (0,), index: str | None = None) -> tuple[int, bytes]:
    # No editor opens, and the locale of messages is fixed. Reading must not take the lock of an index that an agent
    # uses at the same moment.
    env = {"LC_ALL": "C", "GIT_EDITOR": ":", "GIT_SEQUENCE_EDITOR": ":", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", path, "-c", "core.quotepath=off", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_environment({**env, **({"GIT_INDEX_FILE": index} if index else {})}),
            check=False,
        )
    except FileNotFoundError:
        raise KildError("git was not found in your PATH", "install git") from None
    if done.returncode not in fine:
        verb = next((argument for argument in arguments if argument not in ("-c",) and "=" not in argument), "")
        raise _Failed(verb, os.fsdecode(done.stderr), done.returncode)
    return done.returncode, done.stdout


def _line(path: str, *arguments: str) -> str:
    return os.fsdecode(_run(path, *arguments)[1]).removesuffix("\n")


def _shown(data: bytes) -> str:
    return data.decode(errors="replace")  # a file's name may be any bytes; a terminal and JSON want text


def _names(data: bytes) -> list[str]:
    return list(dict.fromkeys(_shown(item) for item in data.split(b"\0") if item))


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl+C and a closed terminal wait until this is done; git inherits the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def show(path: str, *arguments: str, index: str | None = None) -> int:
    """Runs git for a person: its output is ours, with colours and a pager where there is a terminal."""
    env = _environment({"GIT_INDEX_FILE": index} if index else {})
    with subprocess.Popen(["git", "-C", path, *arguments], env=env) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue  # git and its pager have had it too, and know what it means


# -- what there is -------------------------------------------------------------------------------------------


def find(path: str) -> Repository:
    """The repository that a directory lies in. Raises UsageError."""
    if not os.path.isdir(path):
        raise UsageError(f"'{path}' is not a directory")
    try:
        own = _line(path, "rev-parse", "--path-format=absolute", "--git-dir")
        common = _line(path, "rev-parse", "--path-format=absolute", "--git-common-dir")
    except _Failed as error:
        if "not a git repository" in error.reason:
            raise UsageError(f"'{path}' is not in a git repository", "cd into one, or give --repo DIR") from None
        raise
    code, data = _run(path, "rev-parse", "--show-toplevel", fine=(0, 128))
    top = os.fsdecode(data).removesuffix("\n") if code == 0 else None  # none: bare, or inside .git
    main = top if own == common and top else common.removesuffix("/.git")
    return Repository(main, top)


def tip(path: str, ref: str) -> str | None:
    """The commit a full ref (or HEAD) is at."""
    code, data = _run(path, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", fine=(0, 1, 128))
    return data.decode().strip() if code == 0 else None


def head(path: str) -> str | None:
    """The branch checked out there; None when HEAD is detached."""
    code, data = _run(path, "symbolic-ref", "--quiet", "HEAD", fine=(0, 1))
    return os.fsdecode(data).strip().removeprefix(_HEADS) if code == 0 else None


def local(branch: str) -> str:
    return _HEADS + branch


def branch_ref(path: str, branch: str) -> str | None:
    """The full name of a branch, also of a remote's as last fetched; None when there is none."""
    return next((ref for ref in (_HEADS + branch, _REMOTES + branch) if tip(path, ref)), None)


def branches(path: str) -> list[str]:
    """Local ones, the latest first."""
    _, out = _run(path, "for-each-ref", "--format=%(refname:lstrip=2)", "--sort=-committerdate", _HEADS)
    return [_shown(line) for line in out.splitlines()]


def valid_branch(path: str, branch: str) -> bool:
    return _run(path, "check-ref-format", "--branch", branch, fine=(0, 1, 128))[0] == 0


def worktrees(path: str) -> list[Tree]:
    found = []
    for item in os.fsdecode(_run(path, "worktree", "list", "--porcelain", "-z")[1]).split("\0\0"):
        values = dict(line.partition(" ")[::2] for line in item.split("\0"))
        if "worktree" in values:
            found.append(Tree(values["worktree"], values.get("branch", "").removeprefix(_HEADS) or None))
    return found


def check_worktree(path: str, repo: str) -> None:
    """That it is still a work tree of that repository. Raises KildError.

    Git trusts the settings of whatever repository a .git file names; an agent may have written another one there.
    """
    if not os.path.isdir(path):
        raise KildError(f"the worktree '{path}' is gone")
    admin = os.path.join(_line(repo, "rev-parse", "--path-format=absolute", "--git-common-dir"), "worktrees")
    try:
        with open(os.path.join(path, ".git"), encoding=None, errors="surrogateescape") as file:
            target = file.read(8192).removeprefix("gitdir: ").rstrip("\n")
    except OSError:
        target = ""
    if os.path.dirname(os.path.realpath(os.path.join(path, target))) != os.path.realpath(admin):
        raise KildError(f"'{path}' is no longer a worktree of '{repo}'")


def has_submodules(path: str) -> bool:
    """Whether repositories of submodules lie in its own git directory, and so go with it."""
    modules = _line(path, "rev-parse", "--path-format=absolute", "--git-path", "modules")
    own = _line(path, "rev-parse", "--path-format=absolute", "--git-dir")
    return modules.startswith(own) and os.path.isdir(modules) and bool(os.listdir(modules))


# -- making and removing -------------------------------------------------------------------------------------


def add_branch(repo: str, branch: str, commit: str) -> None:
    _run(repo, "branch", "--no-track", branch, commit)


def delete_branch(repo: str, branch: str) -> None:
    if tip(repo, _HEADS + branch):
        _run(repo, "branch", "-D", branch)


def add_worktree(repo: str, path: str, branch: str) -> None:
    _run(repo, "worktree", "add", "--quiet", path, branch)


def remove_worktree(repo: str, path: str) -> None:
    """With all that is in it, also when it is damaged or half made."""
    if os.path.lexists(path):
        shutil.rmtree(path)
    if os.path.isdir(repo) and any(tree.path == path for tree in worktrees(repo)):
        _run(repo, "worktree", "remove", "--force", "--force", path)


def untracked(top: str, patterns: tuple[str, ...]) -> list[str]:
    """Files that git does not track and that fit, or lie in a directory that does: a pattern without a slash fits
    names in every directory, but in none that is ignored as a whole, such as node_modules; one with a slash is a
    path from the top."""
    bare = [pattern for pattern in patterns if "/" not in pattern]
    specs = [f":(glob){pattern.strip('/')}{rest}" for pattern in patterns if "/" in pattern for rest in ("", "/**")]
    found: list[str] = []
    if bare:
        names = [f":(glob)**/{pattern}{rest}" for pattern in bare for rest in ("", "/**")]
        found += _others(top, "--exclude-standard", "--", *names)
        for name in _others(top, "--exclude-standard", "--ignored", "--directory", "--", *names):
            if not name.endswith("/"):
                found.append(name)
            elif any(fnmatchcase(os.path.basename(name[:-1]), pattern) for pattern in bare):
                specs.append(f":(literal){name}")
    if specs:
        found += _others(top, "--", *specs)
    # What ends in a slash is another repository.
    return sorted({name for name in found if not name.endswith("/")})


def _others(top: str, *arguments: str) -> list[str]:
    return [name for name in os.fsdecode(_run(top, "ls-files", "-z", "--others", *arguments)[1]).split("\0") if name]


# -- what has changed ----------------------------------------------------------------------------------------


def dirty(path: str, new_files: bool = True) -> list[str]:
    """Files with changes that are not committed."""
    everything = f"--untracked-files={'all' if new_files else 'no'}"
    options = ("--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=none", everything)
    return [entry[3:] for entry in _names(_run(path, "status", *options)[1])]


def ahead_behind(path: str, ref: str) -> tuple[int, int]:
    data = _run(path, "rev-list", "--left-right", "--count", f"{ref}...HEAD")[1]
    behind, ahead = data.split()
    return int(ahead), int(behind)


def count(path: str, wanted: list[str], without: list[str]) -> int:
    """How many commits are in one of those refs and in none of these."""
    return int(_run(path, "rev-list", "--count", *wanted, "--not", *without)[1])


def fork(path: str, ref: str) -> str:
    """The commit where HEAD left a branch."""
    code, data = _run(path, "merge-base", ref, "HEAD", fine=(0, 1))
    if code:
        raise KildError(f"'{path}' has no commit in common with '{ref}'", "a shallow clone? git fetch --unshallow")
    return data.decode().strip()


@contextmanager
def new_files(path: str) -> Iterator[str]:
    """An index with which `git diff` shows new files too: a copy, in which they are announced."""
    with tempfile.TemporaryDirectory(prefix="kildsvc-") as directory:
        index = os.path.join(directory, "index")
        own = _line(path, "rev-parse", "--path-format=absolute", "--git-path", "index")
        if os.path.exists(own):
            shutil.copyfile(own, index)
        # It fails over a repository inside the tree that has no commit, having done the rest.
        _run(path, "add", "--intent-to-add", "--ignore-errors", ".", fine=(0, 1, 128), index=index)
        yield index


def changes(path: str, commit: str) -> list[Change]:
    """What differs from a commit, committed since or not."""
    options = ("--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
    found = []
    with new_files(path) as index:
        for item in _run(path, "diff", *options, commit, "--", index=index)[1].split(b"\0"):
            if item:
                added, deleted, name = item.split(b"\t", 2)
                binary = added == b"-"
                found.append(Change(_shown(name), 0 if binary else int(added), 0 if binary else int(deleted)))
    return found


def commits(path: str, start: str, end: str) -> list[str]:
    options = ("-z", "--no-show-signature", "--no-color", "--no-decorate", "--format=%h %s")
    return _names(_run(path, "log", *options, f"{start}..{end}", "--")[1])


def changed_files(path: str, start: str, end: str) -> list[str]:
    return _names(_run(path, "diff-tree", "-r", "-z", "--no-renames", "--name-only", start, end)[1])


# -- rebase and merge ----------------------------------------------------------------------------------------


def rebase(path: str, onto: str) -> list[str]:
    """Onto a ref. The files in conflict, if any; then, and when it is interrupted, everything is as before."""
    settings = ("-c", "rebase.autoStash=false", "-c", "rebase.updateRefs=false", "-c", "rebase.autoSquash=false")
    try:
        _run(path, *settings, "rebase", "--quiet", onto)
    except BaseException as error:
        with uninterrupted():
            files = _names(_run(path, "diff", "--name-only", "--diff-filter=U", "--no-ext-diff", "-z")[1])
            _run(path, "rebase", "--abort", fine=(0, 1, 128))  # 128: it had not begun
        if files and isinstance(error, _Failed):
            return files
        raise
    return []


def try_merge(repo: str, ours: str, theirs: str) -> tuple[str, list[str]]:
    """The tree that a merge of two commits would give, and the files in conflict. Changes nothing."""
    try:
        options = ("--write-tree", "-z", "--name-only", "--no-messages")
        _, data = _run(repo, "merge-tree", *options, ours, theirs, fine=(0, 1))
    except _Failed as error:
        if error.status == 129:
            raise KildError("this git cannot try a merge", "git 2.38 or newer can") from error
        raise
    tree, *files = _names(data)
    return tree, files


def merge(path: str, branch: str, message: str) -> None:
    """In a work tree that has the other branch checked out."""
    with uninterrupted():
        try:
            options = ("--quiet", "--ff", "--no-squash", "--commit", "--no-edit", "--no-autostash", "-m", message)
            _run(path, "merge", *options, _HEADS + branch)
        except _Failed:
            _run(path, "merge", "--abort", fine=(0, 128))  # 128: it had not begun
            raise


def commit_merge(repo: str, tree: str, parents: list[str], message: str) -> str:
    options = [word for parent in parents for word in ("-p", parent)]
    return _line(repo, "commit-tree", *options, "-m", message, tree)


def move_branch(repo: str, branch: str, old: str, new: str, why: str) -> None:
    """Fails when the branch is no longer where it was."""
    _run(repo, "update-ref", "-m", why, _HEADS + branch, new, old)
