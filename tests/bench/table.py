"""The figures as a text for the terminal, and as the table in the README."""

from __future__ import annotations

from typing import Any

from bench.figures import BARE, OURS, Row, show, spread

BEGIN, END = "<!-- bench: written by packaging/bench --readme -->", "<!-- bench: end -->"


def text(report: dict[str, Any], rows: list[Row]) -> str:
    lines = [about(report), "", f"{'':<34}{'median':>12}{'p99':>11}{'quartiles':>11}{'n':>7}   against kildsvc"]
    for row in rows:
        lines += ["", f"{row.title}, {row.unit}"]
        for whose, values in row.figures.items():
            figures = (
                f"{show(row.median(whose)):>12}{show(row.worst(whose)):>11}{'± ' + show(spread(values) / 2):>11}"
            )
            lines.append(f"  {whose:<32}{figures}{len(values):>7}   {against(row, whose)}".rstrip())
        lines += [f"  {verdict(goal.met)}: {goal.text} ({goal.reached.strip()})" for goal in row.goals]
        lines += [f"  ({note})" for note in row.notes]
    return "\n".join(lines)


def about(report: dict[str, Any]) -> str:
    found = dict(report["versions"])
    machine = f"{found.pop('cpu')}, Linux {found.pop('kernel')}"
    return f"{machine}; " + ", ".join(f"{name} {version}" for name, version in found.items())


def against(row: Row, whose: str) -> str:
    if OURS not in row.figures or whose in (OURS, BARE) or not row.median(OURS):
        return ""
    return f"{show(row.median(whose) / row.median(OURS))} ×"


def verdict(met: bool) -> str:
    return "met" if met else "missed"


def markdown(report: dict[str, Any], rows: list[Row]) -> str:
    lines = [
        f"{about(report)}. {'A quick run. ' if report['quick'] else ''}Medians, p99 in brackets; "
        "**bold** is better than kildsvc. "
        "A goal is met or missed by what is in brackets behind it.",
        "",
        "| | kildsvc | peers | goal |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        if OURS not in row.figures:
            continue
        others = [whose for whose in row.figures if whose not in (OURS, BARE)]
        peers = "<br>".join(f"{whose} {marked(row, whose)}" for whose in others)
        goals = "<br>".join(f"{verdict(goal.met)}: {goal.text} ({goal.reached.strip()})" for goal in row.goals)
        lines.append(f"| {row.title}, {row.unit} | {cell(row, OURS)} | {peers or '–'} | {goals} |")
    bare = next((row for row in rows if BARE in row.figures), None)
    if bare:
        lines += ["", f"`{BARE}` takes {cell(bare, BARE)} ms here."]
    notes = [f"- {row.title}: {'; '.join(row.notes)}." for row in rows if row.notes]
    return "\n".join([*lines, "", *notes])


def cell(row: Row, whose: str) -> str:
    median = show(row.median(whose))
    return f"{median} ({show(row.worst(whose))})" if len(row.figures[whose]) > 1 else median


def marked(row: Row, whose: str) -> str:
    more = row.unit.endswith("/s")
    wins = row.median(whose) > row.median(OURS) if more else row.median(whose) < row.median(OURS)
    return f"**{cell(row, whose)}**" if wins else cell(row, whose)


def replaced(readme: str, section: str) -> str:
    """The README with this between its two markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"bench: README.md lacks the lines '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"
