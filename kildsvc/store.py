"""Launch metadata: one small JSON file per session, written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from kildsvc import answers, paths
from kildsvc.errors import KildError
from kildsvc.model import Metadata, Worktree

T = TypeVar("T")
_KINDS: dict[Any, dict[str, Any]] = {kind: get_type_hints(kind) for kind in (Metadata, Worktree)}

# The shim keeps 256 KiB and a line about them.
LAST_OUTPUT_MAX = 1 << 20


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A sandboxed session may have put a link there, to have us write where it cannot.
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise KildError(f"cannot write '{path}': {error.strerror}", "is the disk full?") from error


def save(metadata: Metadata) -> None:
    write_atomically(paths.metadata_file(metadata.name), json.dumps(metadata.to_json(), indent=1) + "\n")


def load(name: str) -> Metadata | None:
    try:
        text = paths.metadata_file(name).read_text(errors="replace")
    except FileNotFoundError:
        return None
    return _parse(name, text)


def load_all() -> dict[str, Metadata]:
    found = {}
    for path in (paths.state_dir() / "sessions").glob("[!.]*.json"):
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            continue  # forgotten between listing and reading
        if metadata := _parse(path.stem, text):
            found[path.stem] = metadata
    return found


def _parse(name: str, text: str) -> Metadata | None:
    """None for a file we cannot read as ours: a session's life does not hang on it."""
    try:
        values = json.loads(text)
        if values.get("worktree"):
            values["worktree"] = read(Worktree, values["worktree"])
        return read(Metadata, {**values, "name": name})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def read(kind: type[T], values: dict[str, Any]) -> T:
    """A dataclass from JSON; what is unknown is left out. Raises TypeError, AttributeError."""
    kinds = _KINDS.get(kind) or get_type_hints(kind)
    known = {key: value for key, value in values.items() if key in kinds}
    if not all(answers.fits(value, kinds[key]) for key, value in known.items()):
        raise TypeError
    return kind(**known)


def read_bytes(path: Path, most: int) -> bytes:
    """Of a file that a session writes: never waits, as on a pipe one would, and follows no link. Raises OSError."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:
        return file.read(most) or b""


def make_output_dir(name: str) -> None:
    paths.last_output_file(name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def last_output(name: str) -> tuple[dict[str, Any], bytes, bytes] | None:
    """The end of an ended run's output, as the shim left it: what it is, the pinned part, the rest."""
    try:
        head, _, data = read_bytes(paths.last_output_file(name), LAST_OUTPUT_MAX).partition(b"\n")
        about = answers.read(head, "pinned", "offset", "end", "rows", "cols")
    except (OSError, KildError):
        return None
    return about, data[: about["pinned"]], data[about["pinned"] :]


def rename(old: str, metadata: Metadata) -> None:
    """Under its new name before the old one is forgotten."""
    save(metadata)
    if os.path.lexists(paths.last_output_file(old)):
        make_output_dir(metadata.name)
        os.replace(paths.last_output_file(old), paths.last_output_file(metadata.name))
    forget(old)


def forget(name: str) -> None:
    import shutil  # not above: it brings three compressors along

    paths.metadata_file(name).unlink(missing_ok=True)
    shutil.rmtree(paths.last_output_file(name).parent, ignore_errors=True)
