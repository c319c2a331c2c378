"""What a sandbox profile means on this disk: the work tree, its repository, the agent's state, where it is installed.

An earlier, hostile run may have written whatever lies in a workspace: nothing there is believed that would open
a place outside of it.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kildsvc import paths
from kildsvc.errors import KildError, UsageError
from kildsvc.launch import Launch
from kildsvc.sandbox import AGENTS, Places, Profile

# systemd writes transient units as text, and after a daemon-reload reads other paths than it was given.
_UNSAFE = re.compile(r"[\s:\"'\\\x00-\x1f\x7f]")
# Parts of a repository that commands in a linked work tree write to; not its config and hooks.
_SHARED = ("objects", "refs", "logs", "lfs", "rr-cache")
# What git runs programs from, or finds the former by.
_GIT_KEEP = ["config", "config.worktree", "hooks", "modules/*/config", "modules/*/hooks"]
_GIT_KEEP += ["worktrees/*/commondir", "worktrees/*/gitdir", "worktrees/*/config.worktree"]
_INTERPRETERS_MAX = 4


def arrange(profile: Profile, launch: Launch, directory: Path, extra: Iterable[str]) -> Places:
    """The places of one session. Makes what the agent keeps its state in. Raises UsageError, KildError."""
    home = os.path.realpath(Path.home())
    top, git_write, git_keep = _work_tree(os.path.realpath(launch.cwd), home)
    _check_workspace(
        top, home, f"--sandbox={profile.name} needs a directory of its own", "--cwd DIR, or --sandbox=off"
    )
    state, settings = _agent_state(launch.agent)
    write = _unique([top, *git_write, *_also_written(profile, extra, home), *state])
    read = _reals(profile.read)
    if not profile.home:
        read += _programs(launch.executable, launch.cwd, launch.env, home)
    elif agent_socket := launch.env.get("SSH_AUTH_SOCK"):
        read += _reals([agent_socket])
    read = [path for path in read if not _UNSAFE.search(path) and not _is_below(path, write)]
    hide = _reals(profile.hide)
    homes = _homes(home)
    if not profile.home:
        hide = [path for path in hide if not _is_below(path, homes) or _is_below(path, (*write, *read))]
    names = [launch.cwd, *map(os.path.expanduser, (*extra, *profile.write, *state_of(launch.agent)))]
    places = Places(
        home=home,
        runtime=os.path.realpath(paths.user_runtime_dir()),
        session=os.path.realpath(directory),
        run=launch.run,
        output=os.path.realpath(os.path.dirname(launch.last_output)),
        write=write,
        read=_unique(read),
        keep=_unique([*git_keep, *settings]),
        empty=_unique(path for path in hide if os.path.isdir(path)),
        hide=_unique(path for path in hide if os.path.isfile(path)),
        homes=homes,
        links=() if profile.home else tuple(_links(names)),
    )
    _check_names(places)
    return places


def _also_written(profile: Profile, extra: Iterable[str], home: str) -> list[str]:
    for path in extra:
        if not os.path.exists(path):
            raise UsageError(f"--write '{path}' does not exist")
    if "~/.cache" in profile.write:
        os.makedirs(os.path.expanduser("~/.cache"), mode=0o700, exist_ok=True)
    found = _reals([*extra, *profile.write])
    for path in found:
        _check_workspace(path, home, "too much of the machine could be written to", "name a directory inside of it")
    return found


def _reals(names: Iterable[str]) -> list[str]:
    """What there is of these, without symbolic links."""
    found = (os.path.realpath(os.path.expanduser(name)) for name in names)
    return [path for path in found if os.path.exists(path)]


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _check_workspace(path: str, home: str, problem: str, hint: str) -> None:
    """Refuses a place that holds the home directory, what sessions and units are made of, or everybody's sockets."""
    ours = (paths.user_runtime_dir(), paths.state_dir(), paths.config_file().parent)
    precious = (home, f"{home}/.config/systemd", f"{home}/.ssh", "/home", "/tmp", "/var/tmp", "/run", "/dev", "/usr")
    if any(_is_below(one, [path]) for one in (*precious, *map(os.path.realpath, ours))):
        raise UsageError(f"'{path}' as a whole: {problem}", hint)


def _check_names(places: Places) -> None:
    names = [places.home, places.session, places.output, *places.write, *places.keep, *places.empty, *places.hide]
    for path in (*names, *(name for link in places.links for name in link)):
        if _UNSAFE.search(path):
            raise UsageError(
                f"a sandbox cannot have the path {path!r} in it",
                "systemd would forget it at a daemon-reload: no blanks, colons, quotes or backslashes",
            )


def _homes(home: str) -> tuple[str, ...]:
    parents = ["/home", "/root"]
    if not home.startswith(("/var/", "/usr/", "/opt/")) and os.path.dirname(home) != "/":
        parents.append(os.path.dirname(home))
    return _unique(os.path.realpath(path) for path in parents if os.path.isdir(path))


def _links(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Where home directories are empty, so are the symbolic links in them: the other names of what is shown."""
    for name in _unique(names):
        if os.path.exists(name) and os.path.realpath(name) != name:
            yield os.path.realpath(name), name


def _below(base: str, patterns: Iterable[str]) -> list[str]:
    """What there is of these below `base`, but nothing that a symbolic link leads away to."""
    found = [str(path) for pattern in patterns for path in Path(base).glob(pattern)]
    return [path for path in found if os.path.realpath(path) == path]


# -- the repository -----------------------------------------------------------------------------------------


def _work_tree(cwd: str, home: str) -> tuple[str, list[str], list[str]]:
    """The top of the work tree that `cwd` lies in; what else git must write; what it must not."""
    for top in (cwd, *map(str, Path(cwd).parents)):
        if home == top or home.startswith(top.rstrip("/") + "/"):
            break  # a repository of the whole home directory is none to work in
        dot_git = f"{top}/.git"
        if os.path.isdir(dot_git) and not os.path.islink(dot_git):
            os.makedirs(f"{dot_git}/hooks", exist_ok=True)  # one that is missing could be made
            return top, [dot_git], _below(dot_git, _GIT_KEEP)
        if os.path.isfile(dot_git):
            write, keep = _linked(dot_git)
            return top, write, [dot_git, *keep]
    return cwd, [], []


def _linked(dot_git: str) -> tuple[list[str], list[str]]:
    """What its linked work tree writes to of a repository; nothing unless the repository knows it."""
    own = os.path.realpath(os.path.join(os.path.dirname(dot_git), _read(dot_git).removeprefix("gitdir:").strip()))
    common = os.path.realpath(os.path.join(own, _read(f"{own}/commondir") or "."))
    acknowledged = os.path.realpath(os.path.join(own, _read(f"{own}/gitdir"))) == os.path.realpath(dot_git)
    if not acknowledged or os.path.dirname(own) != f"{common}/worktrees":
        return [], []
    write = [own, *_below(common, _SHARED)]
    return write, [common, *_below(own, ("commondir", "gitdir", "config.worktree"))]


def _read(path: str) -> str:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
            return file.read(4096).strip()
    except (OSError, ValueError):
        return ""


# -- the agent ----------------------------------------------------------------------------------------------


def state_of(agent: str) -> tuple[str, ...]:
    state = AGENTS.get(agent)
    return (*state.directories, *state.files) if state else ()


def _agent_state(agent: str) -> tuple[list[str], list[str]]:
    """Where the agent keeps its state, made if need be: inside it could not be; and the settings in there."""
    state = AGENTS.get(agent)
    if not state:
        return [], []
    try:
        for directory in map(os.path.expanduser, state.directories):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        for file in map(os.path.expanduser, state.files):
            if not os.path.exists(file):
                Path(file).write_text("{}\n")
                os.chmod(file, 0o600)
    except OSError as error:
        raise KildError(f"cannot make '{error.filename}' for {agent}: {error.strerror}") from error
    write = [os.path.realpath(os.path.expanduser(path)) for path in state_of(agent)]
    settings = [os.path.split(os.path.expanduser(path)) for path in state.settings]
    return write, [path for parent, name in settings for path in _below(os.path.realpath(parent), [name])]


def _programs(executable: str, cwd: str, env: Mapping[str, str], home: str) -> list[str]:
    """Where the command, its interpreters and we ourselves are installed, as far as that is in the home directory."""
    found = [_prefix(os.path.realpath(sys.prefix) + "/bin/python", home)]
    program: str | None = os.path.join(cwd, executable)
    for _ in range(_INTERPRETERS_MAX):
        if not program:
            break
        while os.path.islink(program):
            found.append(os.path.dirname(program))
            program = os.path.normpath(os.path.join(os.path.dirname(program), os.readlink(program)))
        found.append(_prefix(os.path.realpath(program), home))
        program = _interpreter(program, env)
    return [path for path in found if path.startswith(f"{home}/")]


def _prefix(program: str, home: str) -> str:
    """The directory a program was installed in, as far as its path tells."""
    head, modules, _ = program.partition("/node_modules/")
    if modules:
        return f"{head}/node_modules"
    directory = os.path.dirname(program)
    if directory == home:
        return program
    above = os.path.dirname(directory)
    shared = (home, f"{home}/.local")
    return above if os.path.basename(directory) in ("bin", "sbin") and above not in shared else directory


def _interpreter(program: str, env: Mapping[str, str]) -> str | None:
    try:
        with open(program, "rb") as file:
            line = os.fsdecode(file.readline(256))
    except OSError:
        return None
    words = line.removeprefix("#!").split() if line.startswith("#!") else []
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return shutil.which(words[0], path=env.get("PATH")) if words else None
    return words[0] if words else None
