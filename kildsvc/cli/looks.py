"""How sessions look: in tables, in full, in one line."""

import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kildsvc import model
from kildsvc.cli import render
from kildsvc.cli.render import brief, duration, home_short, say
from kildsvc.model import Event, Session, Waited
from kildsvc.shim.sizes import size

if TYPE_CHECKING:
    from kildsvc.agents.table import Installed
    from kildsvc.operations.doctor import Finding

_COLOURS = {
    model.RUNNING: "green",
    model.STARTING: "cyan",
    model.STOPPING: "cyan",
    model.PAUSED: "yellow",
    model.KILLED: "red",
    model.OOM: "red",
    model.TIMEOUT: "red",
    model.ORPHANED: "red",
    model.UNOBSERVED: "yellow",
    model.LOST: "yellow",
}


def _colour(session: Session) -> str | None:
    return "red" if session.state == model.EXITED and session.exit_code else _COLOURS.get(session.state)


def waited(result: Waited, hint: str, as_json: bool) -> None:
    render.progress("")
    if as_json:
        render.line({**result.to_json(), "hint": hint})
        return
    fields = {
        "name": result.name,
        "status": result.status,
        "exit_code": "" if result.exit_code is None else result.exit_code,
        "reason": result.reason,
    }
    if result.signal:
        fields["signal"] = result.signal
    say("KILD:WAIT " + " ".join(f"{key}={value}" for key, value in fields.items()))


def event(happened: Event, as_json: bool) -> None:
    if as_json:
        render.line(happened.to_json())
        return
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(happened.time))
    text = render.one_line(happened.text.removeprefix(happened.event).removeprefix(": "))
    say(f"{at}  {happened.name:<12}  {happened.event:<9}  {text}".rstrip())


def signs_of_life(session: Session) -> str:
    """What a session shows of itself; silence is silence, and nothing else."""
    signs = [f"{session.name} {state(session)}"]
    if session.idle is not None:
        signs.append(f"silent for {duration(session.idle)}")
    if session.memory:
        signs.append(f"memory {size(session.memory)}")
    if session.mark:
        signs.append(f"{session.mark.state} {session.mark.text}".rstrip())
    return ", ".join(signs)


def state(session: Session) -> str:
    """The state in words, with what it came from."""
    if session.state == model.EXITED:
        return f"exited ({session.exit_code})"
    if session.state == model.KILLED:
        return f"killed ({session.signal})"
    return session.state


def when(session: Session, now: float, duration: Callable[[float], str] = duration) -> str:
    if session.alive:
        return f"for {duration(now - session.started)}" if session.started else ""
    if session.ended:
        return f"{duration(now - session.ended)} ago" + (", before boot" if session.before_boot else "")
    return "before boot" if session.before_boot else ""


def table(sessions: list[Session], wide: bool = False, numbered: bool = False) -> None:
    now = time.time()
    head = ["NAME", "STATE", "WHEN", "PID", "SILENT", "MARK", "MEMORY", "COMMAND", "BRANCH", "DIRECTORY", "NOTE"]
    head += ["MODEL", "MESSAGES", "TOKENS", "COST", "LAST MESSAGE"] if wide else []
    rows = [
        [
            session.name,
            state(session),
            when(session, now, brief),
            str(session.pid or ""),
            brief(session.idle) if session.idle is not None else "",
            session.mark.state if session.mark and session.alive else "",
            _of(session, "memory", session.memory, size),
            shlex.join(session.command),
            session.worktree.branch if session.worktree else "",
            home_short(session.cwd),
            session.note,
            *(_word(session.word) if wide else ()),
        ]
        for session in sessions
    ]
    if numbered:
        head, rows = ["", *head], [[str(number), *row] for number, row in enumerate(rows, 1)]
    render.columns(
        head,
        rows,
        give_way=["COMMAND", "DIRECTORY", "BRANCH", "NOTE", "LAST MESSAGE", "MODEL", "TOKENS"],
        drop=["PID", "MESSAGES", "COST", "MEMORY", "BRANCH", "DIRECTORY", "NOTE", "SILENT", "WHEN"],
        colours={"STATE": [_colour(session) for session in sessions]},
    )


def agents(found: "list[Installed]") -> None:
    head = ["AGENT", "VERSION", "FOUND", "RESUMES", "YOLO"]
    rows = [
        [
            f"{one.name} (default)" if one.default else one.name,
            one.version or "",
            home_short(one.path) if one.path else f"no '{one.command}' in PATH",
            "yes" if one.can_resume else "no",
            "yes" if one.can_yolo else "no",
        ]
        for one in found
    ]
    render.columns(head, rows, give_way=["FOUND", "VERSION"])


def _word(word: model.Word | None) -> list[str]:
    """Model, messages, tokens, cost, last message; empty what the agent does not tell."""
    if not word:
        return [""] * 5
    more = "+" if word.partial else ""
    tokens = ""
    if word.input_tokens is not None and word.output_tokens is not None:
        tokens = f"{number(word.input_tokens)}{more} in, {number(word.output_tokens)}{more} out"
    return [
        word.model or "",
        f"{word.messages}{more}" if word.messages else "",
        tokens,
        f"${word.cost:.2f}{more}" if word.cost is not None else "",
        word.last_message or "",
    ]


def finding(one: "Finding") -> None:
    """A line for what is well; for what is not, also why that matters and what to do."""
    severity = one.found.severity
    word = render.colour(f"{severity:4}", {"ok": "green", "warn": "yellow", "fail": "red"}[severity])
    say(f"{word}  {one.check.name:17}  {one.found.text}{' (fixed)' if one.fixed else ''}")
    if severity != "ok":
        say(f"{'':25}{one.check.why}")
        say(f"{'':25}→ {one.found.remedy}")
    if one.problem:
        say(f"{'':25}not fixed: {one.problem}")


def number(count: int) -> str:
    for unit, one in (("G", 10**9), ("M", 10**6), ("k", 1000)):
        if count >= one:
            return f"{count / one:.3g}{unit}" if count < 999.5 * one else f"{count / one:.0f}{unit}"
    return str(count)


def details(session: Session) -> None:
    now = time.time()
    colour = _colour(session)
    dot, shown = render.colour("●", colour), render.colour(state(session), colour)
    say(f"{dot} {session.name}: {shown} {when(session, now)}".rstrip())
    tree = session.worktree
    lines = {
        "cause": session.cause if not session.alive and session.state != model.EXITED else "",
        "command": shlex.join(session.command),
        "cwd": home_short(session.cwd),
        "branch": f"{tree.branch}, from {tree.base}" if tree else "",
        "tree": home_short(tree.path) if tree and tree.path != session.cwd else "",
        "note": session.note,
        "sandbox": session.sandbox if session.sandbox != "off" else "",
        "unit": session.unit,
        "run": session.run,
        "pid": session.pid,
        "memory": _memory(session),
        "killed": killed(session.oom_kills),
        "cpu": _cpu(session),
        "tasks": _of(session, "tasks", session.tasks, str),
        "time": _of(session, "runtime", session.duration, duration) if _limit(session, "runtime") else "",
        "silent": duration(session.idle) if session.idle is not None else "",
        "typed": f"{duration(now - session.last_input)} ago" if session.last_input else "",
        "bell": f"{duration(now - session.last_bell)} ago" if session.last_bell else "",
        "clients": session.clients,
        "terminal": "taken" if session.took_terminal else "",
        "runs": ", ".join(f"{one.pid} {one.command}" for one in session.children[:5]),
        "mark": _mark(session.mark, now),
        "talks": ", ".join(session.conversations),
        "labels": ", ".join(f"{key}={value}" for key, value in session.labels.items()),
        **dict(zip(("model", "messages", "tokens", "cost", "says"), _word(session.word), strict=True)),
        "active": f"{duration(now - session.word.last_activity)} ago" if session.word else "",
    }
    told = {label: value for label, value in lines.items() if value}
    width = max(map(len, told)) + 1
    for label, value in told.items():
        say(f"  {label + ':':<{width}} {render.one_line(str(value))}")


def _limit(session: Session, name: str) -> float | None:
    return (session.limits or {}).get(name)


def _of(session: Session, name: str, used: float | None, show: Callable[[Any], str]) -> str:
    """What is used, with the limit beside it."""
    if used is None:
        return ""
    limit = _limit(session, name)
    return show(used) if limit is None else f"{show(used)} of {show(limit)}"


def _memory(session: Session) -> str:
    peak = f" (peak {size(session.memory_peak)})" if session.memory_peak else ""
    used = _of(session, "memory", session.memory, size)
    return used and used + peak


def killed(count: int | None) -> str:
    if not count:
        return ""
    return f"{'1 process was' if count == 1 else f'{count} processes were'} killed for want of memory"


def _cpu(session: Session) -> str:
    if session.cpu is None:
        return ""
    most = _limit(session, "cpu")
    since = (
        f", {session.cpu_since_output:.2f} s of it since the last output"
        if (session.cpu_since_output or 0) >= 0.01
        else ""
    )
    return f"{session.cpu:.2f} s{since}" + (f", at most {most:g}%" if most is not None else "")


def limits(session: Session) -> None:
    """The limits in effect and what is used of them."""
    shows: dict[str, Callable[[Any], str]] = {
        "memory": size,
        "memory_high": size,
        "swap": size,
        "cpu": lambda percent: f"{percent:g}%",
        "runtime": duration,
    }
    uses = {
        "memory": _memory(session),
        "cpu": f"{session.cpu:.2f} s" if session.cpu is not None else "",
        "tasks": str(session.tasks or ""),
        "runtime": duration(session.duration or 0),
    }
    rows = [
        [name.replace("_", "-"), "none" if value is None else shows.get(name, str)(value), uses.get(name, "")]
        for name, value in (session.limits or {}).items()
    ]
    render.columns(["LIMIT", "VALUE", "USED"], rows)
    if session.oom_kills:
        say(killed(session.oom_kills))


def _mark(mark: model.Mark | None, now: float) -> str:
    if not mark:
        return ""
    return f"{mark.state}{': ' if mark.text else ''}{mark.text} ({duration(now - mark.at)} ago)"
