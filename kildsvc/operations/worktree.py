"""A worktree for a session: made whole with it, or not at all; removed when nothing is lost and nobody is in it."""

import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from kildsvc import activity, environment, git, model, paths, runtime, store
from kildsvc.errors import (
    AlreadyExists,
    InUse,
    KildError,
    NameInUse,
    NoSuchSession,
    SetupFailed,
    UsageError,
    WouldLose,
)
from kildsvc.model import Process, Worktree
from kildsvc.operations import sessions
from kildsvc.operations.open import Opened, Within, open_session
from kildsvc.operations.resolve import Request, resolve
from kildsvc.quantity import counted
from kildsvc.systemd.manager import Manager

DEFAULT_COPY = (".env", ".env.*")
# What was told to end has ended by then, or the kernel holds it.
END_SEC = 10


@dataclass(frozen=True)
class Plan:
    """What a worktree is to be."""

    repo: str | None = None
    base: str | None = None
    branch: str | None = None
    copy: tuple[str, ...] = DEFAULT_COPY
    setup: str | None = None


@dataclass
class _Made:
    """What was made so far, and is undone if anything fails."""

    directories: list[Path] = field(default_factory=list)
    tree: bool = False
    branch: bool = False


def create_session(plan: Plan, request: Request) -> Opened:
    """A worktree with a branch, what it needs, and the session in it. Whatever fails, all of it is undone."""
    name = model.check_name(request.name)
    repo = git.find(os.path.abspath(os.path.expanduser(plan.repo)) if plan.repo else environment.find_cwd(None))
    with runtime.locked(name) as directory:
        _refuse_known(name)
        worktree = _choose(plan, name, repo)
        if not request.command or request.wish.agent or "/" not in request.command[0]:  # may be one in the worktree
            resolve(replace(request, cwd=repo.top or repo.main), None, [])
        files = git.untracked(repo.top, tuple(filter(None, plan.copy))) if repo.top else []
        made = _Made()
        try:
            _make(worktree, made)
            _copy(files, repo.top or "", worktree.path)
            if plan.setup:
                _set_up(plan.setup, worktree.path)
            return open_session(request, Within(worktree, directory))
        except BaseException as error:
            with git.uninterrupted():
                _roll_back(name, worktree, made, error)
            raise


def _refuse_known(name: str) -> None:
    try:
        session = sessions.status(name)
    except NoSuchSession:
        return
    raise NameInUse(
        f"there is a session '{name}' already, {session.state}",
        f"kildsvc open {name} runs it again, kildsvc destroy {name} forgets it",
    )


def _choose(plan: Plan, name: str, repo: git.Repository) -> Worktree:
    """Which branch, from which base, and where. Every mistake is found here."""
    where = repo.top or repo.main
    base = plan.base or git.head(where)
    if not git.tip(where, "HEAD") and not plan.base:
        raise UsageError(f"'{where}' has no commit yet", "make one, or give --base BRANCH")
    if not base:
        raise UsageError(f"no branch is checked out in '{where}'", "give --base BRANCH")
    if not git.branch_ref(where, base):
        raise UsageError(f"there is no branch '{base}' in '{where}'")
    branch = plan.branch or f"kild/{name}"
    if not git.valid_branch(where, branch):
        raise UsageError(f"git does not take '{branch}' as the name of a branch", "give --branch B")
    if branch == base:
        raise UsageError(f"the branch and its base are both '{branch}'", "give another --base, or another --branch")
    exists = git.tip(where, git.local(branch)) is not None
    if exists and not plan.branch:
        raise AlreadyExists(f"branch '{branch}' exists already", f"--branch {branch} takes it")
    path = os.path.realpath(paths.worktree_dir(repo.name, name))
    known = git.worktrees(where)
    for tree in known:
        if tree.branch == branch and exists:
            raise InUse(f"branch '{branch}' is checked out in '{tree.path}'", "give another --branch")
    if os.path.lexists(path) or any(tree.path == path for tree in known):
        raise AlreadyExists(f"worktree '{path}' exists already", "if nothing needs it: git worktree remove --force")
    return Worktree(path, repo.main, branch, base, not exists)


def _make(worktree: Worktree, made: _Made) -> None:
    path = Path(worktree.path)
    for directory in [*reversed([parent for parent in path.parents if not parent.exists()]), path]:
        directory.mkdir(exist_ok=directory != path)
        made.directories.append(directory)
    start = git.branch_ref(worktree.repo, worktree.base)
    if worktree.created_branch:
        with git.uninterrupted():  # that it is there and that it is ours are one fact
            git.add_branch(worktree.repo, worktree.branch, start or worktree.base)
            made.branch = True
    made.tree = True
    git.add_worktree(worktree.repo, worktree.path, worktree.branch)


def _copy(files: list[str], source: str, target: str) -> None:
    """What the branch has already stays as it is; links are copied as links."""
    for name in files:
        place = os.path.join(target, name)
        if os.path.lexists(place):
            continue
        # The branch may have a link where the source has a directory.
        if os.path.commonpath([os.path.realpath(os.path.dirname(place)), target]) != target:
            raise KildError(f"'{name}' is not copied: in the worktree it would be outside of it")
        try:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            shutil.copy2(os.path.join(source, name), place, follow_symlinks=False)
        except OSError as error:
            raise KildError(f"cannot copy '{name}' to the worktree: {error.strerror}") from error


def _set_up(command: str, path: str) -> None:
    env = {key: value for key, value in os.environ.items() if key not in environment.GIT_LOCAL}
    # A session of its own: it can be ended whole, and what would ask at our terminal fails instead of waiting there.
    # What it prints is not our result, so it goes to stderr.
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=path,
        env={**env, "PWD": path},
        stdin=subprocess.DEVNULL,
        stdout=2,
        start_new_session=True,
    )
    try:
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(END_SEC)
        except subprocess.TimeoutExpired:
            pass
        raise
    finally:
        if process.returncode != 0:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        raise SetupFailed(f"the setup command failed: {how}", "nothing of the worktree is kept")


def _roll_back(name: str, worktree: Worktree, made: _Made, cause: BaseException) -> None:
    """Removes what was made, and nothing else. Raises KildError, with the cause in it, when that cannot be."""
    said = cause.message if isinstance(cause, KildError) else str(cause) or "interrupted"
    try:
        if made.tree:
            with Manager() as manager:
                sessions.group_of(manager, name).wait_empty(END_SEC)
            if inside := activity.wait_left(worktree.path, END_SEC):
                raise InUse(f"{_tell(inside)} in it")
            git.remove_worktree(worktree.repo, worktree.path)
        if made.branch:
            git.delete_branch(worktree.repo, worktree.branch)
        for directory in reversed(made.directories):
            _remove_empty(directory)
    except (KildError, OSError) as error:
        raise KildError(
            f"{said}; and the worktree '{worktree.path}' stays: {error}", "git worktree remove"
        ) from cause


def _remove_empty(directory: Path) -> None:
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()


def _tell(processes: list[Process]) -> str:
    listed = ", ".join(f"{process.pid} ({process.command})" for process in processes[:3])
    more = f" and {len(processes) - 3} more" if len(processes) > 3 else ""
    return f"process {listed}{more} {'are' if len(processes) > 1 else 'is'}"


def of(name: str) -> Worktree:
    """The session's worktree, as it was recorded and still is. Raises KildError."""
    metadata = store.load(model.check_name(name))
    if not metadata:
        raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
    if not metadata.worktree:
        raise KildError(f"session '{name}' has no worktree", "kildsvc create makes sessions that have")
    git.check_worktree(metadata.worktree.path, metadata.worktree.repo)
    return metadata.worktree


def base_ref(worktree: Worktree) -> str:
    ref = git.branch_ref(worktree.repo, worktree.base)
    if not ref:
        raise KildError(f"its base '{worktree.base}' is no longer a branch of '{worktree.repo}'")
    return ref


def refuse_in_use(worktree: Worktree, own: set[int]) -> None:
    """Raises InUse when a process other than those stands in the worktree."""
    if inside := [process for process in activity.working_in(worktree.path) if process.pid not in own]:
        raise InUse(f"{_tell(inside)} in '{worktree.path}'", "end it, or let it go elsewhere, first")


def refuse_loss(name: str, worktree: Worktree) -> None:
    """Raises WouldLose when something in the worktree or on its branch is nowhere else."""
    if not os.path.lexists(worktree.path) and not os.path.isdir(worktree.repo):
        return
    try:
        lost = _lost(worktree)
    except KildError as error:
        hint = f"kildsvc destroy --force {name} loses it"
        raise WouldLose(f"nobody can tell what destroying '{name}' would lose: {error.message}", hint) from error
    if lost:
        raise WouldLose(
            f"destroying '{name}' would lose {' and '.join(lost)}",
            f"kildsvc land {name} --execute keeps commits; kildsvc destroy --force {name} loses them",
        )


def _lost(worktree: Worktree) -> list[str]:
    lost, refs = [], []
    if os.path.lexists(worktree.path):
        git.check_worktree(worktree.path, worktree.repo)
        if files := git.dirty(worktree.path):
            lost.append(f"{counted(len(files), 'uncommitted file')} ({_few(files)})")
        if git.has_submodules(worktree.path):
            lost.append("the repositories of its submodules")
        if git.head(worktree.path) is None:
            refs.append(git.tip(worktree.path, "HEAD") or "")
    if worktree.created_branch and git.tip(worktree.repo, git.local(worktree.branch)):
        refs.append(git.local(worktree.branch))
    elif refs and not worktree.created_branch:
        refs.append(f"^{git.local(worktree.branch)}")
    if refs and (commits := git.count(worktree.repo, refs, [base_ref(worktree)])):
        lost.append(f"{counted(commits, 'commit')} not in {worktree.base}")
    return lost


def _few(files: list[str]) -> str:
    return ", ".join(files[:3]) + (", …" if len(files) > 3 else "")


def remove(worktree: Worktree) -> None:
    """The worktree, and the branch if it was made for it. What they hold is gone."""
    git.remove_worktree(worktree.repo, worktree.path)
    if worktree.created_branch and os.path.isdir(worktree.repo):
        git.delete_branch(worktree.repo, worktree.branch)
    _remove_empty(Path(worktree.path).parent)
