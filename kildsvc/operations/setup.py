"""Units of ours in the user's manager: put there and taken back, exactly; what was done is remembered."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kildsvc import paths, store
from kildsvc.environment import lingers
from kildsvc.errors import KildError
from kildsvc.operations.linger import disable_linger, enable_linger
from kildsvc.systemd.unit_files import UnitFiles

SHIPPED = Path(__file__).parents[1] / "units"
# Where a package, or the administrator, has put them; then they are right as they are.
SYSTEM_PLACES = ("/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user")
GC, RESTORE, NOTIFY = "kildsvc-gc.timer", "kildsvc-restore.service", "kildsvc-notify.service"
# What each of them is for, and whether it begins now: what was running is reopened by the next boot only.
_PURPOSE = {
    GC: ("forgets old sessions daily", True),
    RESTORE: ("reopens after a reboot what was running", False),
    NOTIFY: ("tells when a session ends, waits or rings", True),
}
START_SEC = 30


@dataclass
class Record:
    """What setup has done, and --remove takes back."""

    files: dict[str, str] = field(default_factory=dict)  # path → what it wrote there, as a hash
    directories: list[str] = field(default_factory=list)
    enabled: list[str] = field(default_factory=list)
    linger: bool = False


def set_up(restore: bool, notify: bool) -> Iterator[str]:
    """Yields a line for each thing it has changed, or left though it is not as it should be. Raises NoManager."""
    record = _load()
    try:
        with UnitFiles() as manager:
            written = []
            for shipped in sorted(SHIPPED.iterdir()):
                if not installed(shipped.name):
                    line, changed = _write(unit_dir() / shipped.name, filled(shipped.read_text()), record)
                    if line:
                        yield line
                    if changed:
                        written.append(shipped.name)
            if written:
                manager.reload()
            if NOTIFY in written and manager.is_active(NOTIFY):
                manager.listen(NOTIFY)
                manager.wait_job(manager.restart(NOTIFY), START_SEC)
            for unit in [GC, *[RESTORE] * restore, *[NOTIFY] * notify]:
                yield from _enable(manager, unit, record)
        if not lingers():
            yield _linger(record)
    finally:
        _save(record)


def _enable(manager: UnitFiles, unit: str, record: Record) -> Iterator[str]:
    purpose, now = _PURPOSE[unit]
    if not manager.is_enabled(unit):
        manager.enable(unit)
        manager.reload()
        record.enabled.append(unit)
        yield f"enabled {unit}: {purpose}"
    if now and not manager.is_active(unit):
        manager.listen(unit)
        manager.wait_job(manager.start(unit), START_SEC)
        if not manager.is_active(unit):
            raise KildError(f"{unit} does not start", f"systemctl --user status {unit}")
        yield f"started {unit}"


def _linger(record: Record) -> str:
    if remedy := enable_linger():
        return f"sessions end when you log out; to keep them: {remedy}"
    record.linger = True
    return "enabled lingering: sessions go on when you log out"


def remove() -> Iterator[str]:
    """Takes back what is recorded, and nothing else. A line for each. Raises NoManager."""
    record = _load()
    with UnitFiles() as manager:
        for unit in record.enabled:
            manager.listen(unit)
            if job := manager.stop(unit):
                manager.wait_job(job, START_SEC)
            manager.disable(unit)
            yield f"disabled {unit}"
        for path, written in record.files.items():
            now = _hash(path)
            if now == written:
                os.unlink(path)
                yield f"removed '{path}'"
            elif now:
                yield f"kept '{path}': it was changed"
        for directory in reversed(record.directories):
            try:
                os.rmdir(directory)
            except OSError:
                continue  # somebody else has something in it, or removed it
        manager.reload()
    if record.linger:
        disable_linger()
        if not lingers():
            yield "disabled lingering: sessions end when you log out"
    cursor_file().unlink(missing_ok=True)
    _record_file().unlink(missing_ok=True)


# -- files --------------------------------------------------------------------------------------------------


def unit_dir() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def installed(unit: str) -> bool:
    """For everybody on this machine."""
    return any(Path(place, unit).exists() for place in SYSTEM_PLACES)


def cursor_file() -> Path:
    return paths.state_dir() / "notify-cursor"


def filled(text: str) -> str:
    """A unit for the kildsvc that this is."""
    return text.replace("/usr/bin/kildsvc", " ".join(map(_quote, _own_command())))


def _own_command() -> list[str]:
    program = os.path.abspath(sys.argv[0])
    if os.path.basename(program) == "kildsvc" and os.access(program, os.X_OK):
        return [program]
    return [sys.executable, "-m", "kildsvc"]


def _quote(word: str) -> str:
    """For ExecStart=, where % and $ mean something."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(char in word for char in " \t'\"\\;") else word


def _write(path: Path, text: str, record: Record) -> tuple[str, bool]:
    """What to tell, nothing of a file that is as it should be; and whether it was changed."""
    now = _hash(str(path))
    wanted = hashlib.sha256(text.encode()).hexdigest()
    if now == wanted:
        record.files[str(path)] = wanted
        return "", False
    if now and now != record.files.get(str(path)):
        return f"kept '{path}': it is not as 'kildsvc setup' wrote it; remove it to have it written anew", False
    for directory in reversed([one for one in path.parents if not one.exists()]):
        directory.mkdir(mode=0o755)
        record.directories.append(str(directory))
    store.write_atomically(path, text, 0o644)
    record.files[str(path)] = wanted
    return f"{'updated' if now else 'wrote'} '{path}'", True


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return "a link to nowhere" if os.path.islink(path) else ""
    except OSError:
        return "not readable"


def _record_file() -> Path:
    return paths.state_dir() / "setup.json"


def _load() -> Record:
    try:
        return store.read(Record, json.loads(_record_file().read_text()))
    except (OSError, ValueError, TypeError, AttributeError):
        return Record()


def _save(record: Record) -> None:
    if record != Record():
        store.write_atomically(_record_file(), json.dumps(asdict(record), indent=1) + "\n")
