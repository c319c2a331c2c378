"""The runtime directory of a session: its lock, the launch file, and the shim's own code for one run."""

import fcntl
import json
import marshal
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from typing import IO

from kildsvc import paths
from kildsvc.errors import Busy, KildError
from kildsvc.launch import Launch

_SHIM = Path(__file__).parent / "shim"


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The session's runtime directory, ours alone while we change the session. Raises Busy."""
    directory = paths.runtime_dir(name)
    lock = lock_file(name)
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    with _lock(lock, name):
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            yield directory
        finally:
            if not any(directory.iterdir()):
                directory.rmdir()
            lock.unlink()


def lock_file(name: str) -> Path:
    # Beside the directory, not in it: it outlives the directory's removal for as long as it is held.
    return paths.runtime_dir(name).with_name(f".{name}.lock")


def _lock(lock: Path, name: str) -> IO[bytes]:
    while True:
        file = open(lock, "wb")  # noqa: SIM115 - the caller closes it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.exists() and os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                return file
            file.close()  # its last holder has removed it since: take the new one
        except BlockingIOError:
            file.close()
            raise Busy(f"session '{name}' is being opened or changed by another command", "try again") from None


def is_locked(name: str) -> bool:
    """Whether another command may be opening or forgetting the session; a dead one's lock looks the same."""
    return lock_file(name).exists()


def left_over(name: str) -> bool:
    return is_locked(name) or paths.runtime_dir(name).exists()


def wait_unlocked(name: str) -> None:
    """Blocks until no other command changes the session."""
    try:
        with open(lock_file(name), "rb") as file:
            # The holder removes the file before it lets go of it: whoever comes next locks another one, and is
            # not in our way, nor we in his.
            fcntl.flock(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return


def write_launch(launch: Launch, directory: Path) -> None:
    """Launch file and shim for one run. Removes what earlier runs left. Raises KildError when there is no room."""
    try:
        clear(directory)
        descriptor = os.open(directory / f"{launch.run}.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            json.dump(asdict(launch), file)
        _copy_shim(directory / f"{launch.run}.shim")
    except OSError as error:
        clear(directory)
        raise KildError(
            f"cannot write to '{directory}': {error.strerror}", "is the runtime directory full?"
        ) from error


def launch_env(directory: Path, run: str | None) -> dict[str, str] | None:
    """The environment a run was started with, while its unit is loaded."""
    try:
        return dict(json.loads((directory / f"{run}.json").read_text())["env"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def clear(directory: Path) -> None:
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _copy_shim(target: Path) -> None:
    """A compiled copy, so that an upgrade or removal of kildsvc cannot break a running session."""
    package = target / "kildsvc" / "shim"
    package.mkdir(mode=0o700, parents=True)
    (target / "kildsvc" / "__init__.py").touch()
    for source in _SHIM.glob("*.py"):
        # The loader takes the code from __pycache__ where it is valid. Without a source beside it a .pyc file
        # is imported whatever time stamp is in its head.
        code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
        place = target if source.name == "__main__.py" else package
        (place / f"{source.stem}.pyc").write_bytes(MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
    shutil.copyfile(_SHIM / "reap.sh", target / "reap.sh")


def interpreter() -> str:
    """The base interpreter: a virtual environment may be removed while a session runs."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
