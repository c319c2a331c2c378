"""Plain types everything is built from. Pure: no clock, no files, no bus."""

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from kildsvc.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}\Z")
_UNIT_SUFFIXES = tuple(
    f".{kind}"
    for kind in [
        "service",
        "socket",
        "slice",
        "target",
        "mount",
        "automount",
        "timer",
        "path",
        "device",
        "scope",
        "swap",
        "snapshot",
    ]
)
NAME_MAX = 48
NO_SANDBOX = "off"  # as the name of a profile


def check_name(name: str) -> str:
    """The name itself, so that `systemctl --user status kild-NAME` works literally; raises UsageError otherwise."""
    if _NAME.match(name) and not name.endswith(_UNIT_SUFFIXES):
        return name
    shown = "".join(char if char.isprintable() else "?" for char in name)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    suggestion = suggest_name(name)
    raise UsageError(
        f"'{shown}' cannot be a session name: use letters, digits, '.', '_' and '-', at most {NAME_MAX},"
        " beginning with a letter or digit, and no unit suffix such as '.service'",
        f"try '{suggestion}'" if suggestion else "",
    )


def suggest_name(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:NAME_MAX].rstrip("-._")
    while name.endswith(_UNIT_SUFFIXES):
        name = name.rpartition(".")[0].rstrip("-._")
    return name


def unit_of(name: str) -> str:
    return f"kild-{name}.service"


def name_of(unit: str) -> str:
    return unit.removeprefix("kild-").removesuffix(".service")


def keeper_of(name: str) -> str:
    """The empty slice whose After= keeps the ended unit, and so its exit code, loaded."""
    # A '-' in a slice's name makes it a child of another slice, so it is escaped as systemd does.
    return f"kildkeep-{name.replace('-', chr(92) + 'x2d')}.slice"


def parse_labels(items: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for item in items:
        key, separator, value = item.partition("=")
        if not separator or not key:
            raise UsageError(f"label '{item}' is not of the form KEY=VALUE")
        labels[key] = value
    return labels


@dataclass(frozen=True)
class Worktree:
    """Where a session works on a branch of its own."""

    path: str
    repo: str  # the main work tree, or the bare repository
    branch: str
    base: str  # the branch it came from and lands on
    created_branch: bool  # the branch was made for the session, and goes with it


@dataclass(frozen=True)
class Metadata:
    """What nobody else remembers of a session. No status: that is asked of systemd, or of the journal."""

    name: str
    argv: list[str]
    executable: str
    agent: str
    cwd: str
    created: float
    note: str = ""
    env_names: list[str] = field(default_factory=list)  # set with --env; their values are not kept
    shell: bool = False
    grace_usec: int | None = None  # as asked for
    labels: dict[str, str] = field(default_factory=dict)
    known: bool = False  # the agent is one of the table's, started as these say
    yolo: bool = False
    model: str = ""
    extra: list[str] = field(default_factory=list)
    conversations: list[str] = field(default_factory=list)  # newest last
    wanted: bool = True  # comes back after a reboot: until it is stopped, or ends
    sandbox: str = NO_SANDBOX
    write: list[str] = field(default_factory=list)  # what else it may write to
    limits: dict[str, str] = field(default_factory=dict)  # as they were asked for
    former: list[tuple[str, float]] = field(default_factory=list)  # names it had, until when: the journal keeps them
    worktree: Worktree | None = None
    notify: bool | None = None  # whether people are told of it; None: as the settings say

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def names(self) -> list[str]:
        return [self.name, *(name for name, _ in self.former)]

    def owns(self, name: str, at: float) -> bool:
        """Whether what happened to a session of that name at that time happened to this one."""
        since = 0.0
        for old, until in self.former:
            if name == old and since < at <= until:
                return True
            since = until
        return name == self.name and at > since


# States of a session. The first group is alive.
STARTING, RUNNING, STOPPING, PAUSED = "starting", "running", "stopping", "paused"
EXITED, KILLED, OOM, TIMEOUT, STOPPED = "exited", "killed", "oom", "timeout", "stopped"
UNOBSERVED = "unobserved"  # nobody saw the end: no exit code
ORPHANED = "orphaned"  # the unit has ended, processes of it live
LOST = "lost"  # no unit and no record of an end: cut off by a reboot or a crash of the machine
ALIVE = (STARTING, RUNNING, STOPPING, PAUSED)
STATES = (*ALIVE, EXITED, KILLED, OOM, TIMEOUT, STOPPED, UNOBSERVED, ORPHANED, LOST)


@dataclass(frozen=True)
class Ended:
    """How a run ended: a code or a signal; both None when nobody knows."""

    code: int | None = None
    signal: str | None = None
    error: str | None = None  # why the agent could not be executed
    stopped: bool = False
    oom: str = ""  # killed for want of memory: the limit and what it had used
    timed_out: bool = False

    @property
    def exit_code(self) -> int | None:
        """As a shell would give it."""
        if self.code is not None or self.signal is None:
            return self.code
        return 128 + signal_number(self.signal)

    def state(self) -> str:
        if self.timed_out:
            return TIMEOUT
        if self.stopped:
            return STOPPED
        if self.oom:
            return OOM
        if self.code is not None:
            return EXITED
        return KILLED if self.signal else UNOBSERVED

    def describe(self) -> str:
        if self.error:
            return f"could not be executed: {self.error}"
        if self.oom:
            return f"out of memory: {self.oom}"
        why = "its time was over: " if self.timed_out else ""
        if self.code is not None:
            return f"{why}exit code {self.code}"
        if self.signal:
            return f"{why}killed by SIG{self.signal}"
        return f"{why}nobody saw how it ended"


def parse_status_text(text: str) -> Ended | None:
    """The end as the shim's STATUS= tells it; None when it tells no end."""
    if match := re.fullmatch(r"ended: not executed: (.*)", text):
        return Ended(code=127, error=match[1])
    found = re.fullmatch(
        r"ended: (?:exit ([0-9]{1,3})|signal ([A-Z0-9+]+)|unobserved)"
        r"(, time limit)?(, stopped)?(?:, out of memory: (.*))?",
        text,
    )
    if not found:
        return None
    code, signal, late, stopped, oom = found.groups()
    if signal and not signal_number(signal):
        return None
    return Ended(int(code) if code else None, signal, None, bool(stopped), oom or "", bool(late))


def signal_number(name: str) -> int:
    """0 for what is no signal's name."""
    import signal

    base, name = (signal.SIGRTMIN, name[6:]) if name.startswith("RTMIN+") else (0, name)
    if re.fullmatch(r"[0-9]{1,2}", name):
        number = base + int(name)
        return number if number <= signal.SIGRTMAX else 0
    named = signal.Signals.__members__.get(f"SIG{name}")
    return named.value if named and not base else 0


# The version of what --json tells of a session; session.schema.json beside this file describes it. Fields may be
# added to it; one that is renamed, removed or given another meaning makes it a new version.
SCHEMA = 1


@dataclass(frozen=True)
class Mark:
    """What the agent itself says it is doing, told by its hooks."""

    state: str
    text: str
    at: float


@dataclass(frozen=True)
class Word:
    """What the agent itself has written about its conversation. None is "it does not say"."""

    conversation: str
    file: str
    last_activity: float
    model: str | None = None
    messages: int | None = None  # of the user and of the agent
    input_tokens: int | None = None  # all that was read, from a cache or not
    cached_tokens: int | None = None  # that part of it
    output_tokens: int | None = None
    cost: float | None = None  # dollars, where the agent tells it
    last_message: str | None = None  # the agent's, as one line
    partial: bool = False  # only the end of a long transcript was read: the counts are "at least"


@dataclass(frozen=True)
class Process:
    """One of those an agent has started."""

    pid: int
    command: str


@dataclass(frozen=True)
class Session:
    """One session as it is now, for people and for --json. Times are seconds since 1970, None is "nobody knows"."""

    name: str
    state: str
    unit: str = ""
    exit_code: int | None = None  # as a shell gives it: 128+n for signal n
    signal: str | None = None
    cause: str = ""
    agent: str = ""
    command: list[str] = field(default_factory=list)
    cwd: str = ""
    pid: int | None = None
    run: str | None = None
    started: float | None = None
    ended: float | None = None
    duration: float | None = None  # seconds from start to end, or until now
    last_output: float | None = None
    last_input: float | None = None
    last_bell: float | None = None
    idle: float | None = None  # seconds since the last output, or since the start; of a living session
    clients: int | None = None  # people attached
    memory: int | None = None  # bytes
    memory_peak: int | None = None
    oom_kills: int | None = None  # processes killed for want of memory
    cpu: float | None = None  # seconds
    cpu_since_output: float | None = None  # seconds: silent and at work is not silent and stuck
    tasks: int | None = None
    limits: dict[str, float | None] | None = None  # in effect, by the names of limits.TABLE; None in it: no limit
    took_terminal: bool | None = None  # reads keys one by one, as a full-screen agent or a shell's prompt does
    children: list[Process] = field(default_factory=list)
    mark: Mark | None = None
    word: Word | None = None  # told by status and, where asked for, list
    note: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    conversations: list[str] = field(default_factory=list)  # the agent's own ids of them, newest last
    sandbox: str | None = None  # the profile's name, or 'off'
    before_boot: bool = False
    worktree: Worktree | None = None

    @property
    def alive(self) -> bool:
        return self.state in ALIVE

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class Event:
    """Something that happened to a session."""

    cursor: str  # `events --since CURSOR` goes on after this one
    time: float
    name: str
    event: str
    run: str
    text: str
    agent: str = ""
    exit_code: int | None = None
    signal: str | None = None
    status: str | None = None  # of 'ended': exited, killed, oom, stopped, dead
    mark: str | None = None  # of 'mark': working, waiting, done

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


# What people can be told of a session while they do not look.
NEWS = ("ended", "waiting", "bell")

DEAD = "dead"  # as wait says it: nothing lives, and nobody knows how it ended


@dataclass(frozen=True)
class Waited:
    """What a wait found. `reason` is the condition that came true: exit, ready, idle, output; or timeout."""

    name: str
    status: str  # exited, killed, oom, timeout, stopped, alive, dead
    reason: str
    exit_code: int | None = None
    signal: str | None = None
    cause: str = ""
    run: str | None = None
    match: str | None = None  # the line that fitted

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **asdict(self)}


def wait_status(session: Session) -> str:
    if session.alive:
        return "alive"
    if session.state == ORPHANED:  # how its agent ended may be known all the same
        return KILLED if session.signal else EXITED if session.exit_code is not None else DEAD
    return DEAD if session.state in (UNOBSERVED, LOST) else session.state
