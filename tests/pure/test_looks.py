"""What people see of a session, whatever its command, its note or its processes are called."""

import pytest

from kildsvc.cli import looks
from kildsvc.model import Event, Process, Session

ODD = "fix\nit\x1b]0;title\x07\x9b31m\u2028now"
SESSION = Session(
    "a",
    "running",
    command=["claude", "--", ODD],
    cwd=f"/{ODD}",
    note=ODD,
    children=[Process(7, ODD)],
    labels={"k": ODD},
)


@pytest.mark.parametrize(
    ("show", "lines"),
    [
        (lambda: looks.table([SESSION]), 2),
        (lambda: looks.details(SESSION), 6),
        (lambda: looks.event(Event("", 0, "a", "mark", "", f"mark: {ODD}"), False), 1),
    ],
    ids=["table", "details", "event"],
)
def test_a_line_stays_a_line(show: object, lines: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(show)
    show()
    out = capsys.readouterr().out
    assert len(out.splitlines()) == lines
    assert all(line.isprintable() for line in out.splitlines())
    assert "fix it" in out
