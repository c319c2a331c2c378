"""Whether this machine is a home for sessions: each check says what it found, why it matters and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kildsvc.errors import KildError, NoManager
from kildsvc.operations.checks import kernel, leftovers, log, manager, place
from kildsvc.operations.checks.found import FAIL, OK, SEVERITIES, Found, fail, warn

MANAGER = "user manager"


@dataclass(frozen=True)
class Check:
    """Something that is to be so."""

    name: str
    why: str
    look: Callable[[], Found]
    asks_manager: bool = False


CHECKS = (
    Check(MANAGER, "every session is a unit of it", manager.manager),
    Check("bus", "the way to systemd, and to your desktop", manager.bus),
    Check("lingering", "without it your systemd, and all sessions with it, ends at your last logout", manager.linger),
    Check("journal", "what sessions print, and how they ended, is read from there", log.readable),
    Check("journal kept", "else nobody knows after a reboot how sessions ended", log.kept),
    Check("journal rate", "what journald drops is missing in 'kildsvc logs'", log.rate),
    Check("cgroups", "limits such as --memory are kept by controllers", kernel.cgroups, True),
    Check("namespaces", "--sandbox is made of them", kernel.namespaces),
    Check("Landlock", "it keeps the signals of a sandboxed session in", kernel.landlock),
    Check("runtime directory", "sockets and launch files are there; no session starts without room", place.room),
    Check("versions", "older ones lack what kildsvc uses", place.versions),
    Check("settings", "a mistake in them stops every 'kildsvc open'", place.settings),
    Check("agents", "'kildsvc open NAME' runs one", place.agents),
    Check("terminal", "'kildsvc attach' draws on it", place.terminal),
    Check("setup", "what is known of ended sessions piles up otherwise", manager.tidy, True),
    Check("left over", "units, sockets and files of no session only take up room", leftovers.units_and_files, True),
    Check("sessions' files", "a session whose file is broken is not listed", leftovers.metadata),
    Check("worktrees", "they hold branches that no session works on", leftovers.worktrees),
)


@dataclass(frozen=True)
class Finding:
    """What came of a check."""

    check: Check
    found: Found
    fixed: bool = False
    problem: str = ""  # why it could not be fixed

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.check.name,
            "severity": self.found.severity,
            "found": self.found.text,
            "why": self.check.why,
            "remedy": self.found.remedy,
            "fixable": self.found.fix is not None,
            "fixed": self.fixed,
        }


def examine(fix: bool = False) -> Iterator[Finding]:
    """Goes through all checks, whatever becomes of one."""
    there = True
    for check in CHECKS:
        if check.asks_manager and not there:
            yield Finding(check, warn("cannot be told without a user manager", f"see '{MANAGER}'"))
            continue
        found = _look(check)
        there = there and not (check.name == MANAGER and found.severity == FAIL)
        yield _fix(check, found) if fix and found.fix else Finding(check, found)


def _look(check: Check) -> Found:
    try:
        return check.look()
    except NoManager as error:
        if check.name != MANAGER:
            return warn("cannot be told without a user manager", f"see '{MANAGER}'")
        return fail(error.message, error.hint)
    except KildError as error:
        return fail(error.message, error.hint)
    except Exception as error:  # of the machine nothing is certain here, and the other checks are to run
        return fail(f"cannot be checked: {type(error).__name__}: {error}", "please report this")


def _fix(check: Check, found: Found) -> Finding:
    assert found.fix
    try:
        found.fix()
    except (KildError, OSError) as error:
        return Finding(check, found, problem=str(error))
    after = _look(check)
    return Finding(check, after, fixed=after.severity == OK)


def worst(findings: list[Finding]) -> str:
    return max((one.found.severity for one in findings), key=SEVERITIES.index)


def exit_code(findings: list[Finding]) -> int:
    """0 for nothing worse than a warning, 1 for a failure, and as everywhere 6 for no user manager."""
    failed = {one.check.name for one in findings if one.found.severity == FAIL}
    return NoManager.exit_code if MANAGER in failed else KildError.exit_code if failed else 0
