"""What is understood without click means what it means with click."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from kildsvc import api
from kildsvc.api import Handle
from kildsvc.attach import Outcome
from kildsvc.chord import Chord
from kildsvc.cli import direct
from kildsvc.cli.main import parse_and_run
from kildsvc.model import Session
from kildsvc.operations import attach as attaching

Call = tuple[str, dict[str, Any]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Call]]:
    """What is called with which arguments, but for those that are as if they had not been given."""
    made: list[Call] = []

    def watch(place: Any, name: str, answer: Any) -> None:
        signature = inspect.signature(getattr(place, name))

        def call(*arguments: Any, **options: Any) -> Any:
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            given = {key: list(v) if isinstance(v, tuple) else v for key, v in bound.arguments.items()}
            given = {key: vars(v) if isinstance(v, Chord) else v for key, v in given.items()}
            made.append((name, {key: value for key, value in given.items() if value or value == 0}))
            return answer

        monkeypatch.setattr(place, name, call)

    session = Session("a", "running", unit="kild-a.service")
    watch(api, "open", Handle("a", "kild-a.service", "1", 1, []))
    watch(api, "status", session)
    watch(api, "sessions", [session])
    watch(attaching, "attach", Outcome())
    yield made


PLAIN = [
    ["--version"],
    ["list"],
    ["ls", "--json"],
    ["list", "--json"],
    ["status", "a"],
    ["status", "--json", "a"],
    ["status", "a", "--json"],
    ["status", "--", "a"],
    ["attach", "a"],
    ["open", "a"],
    ["open", "a", "--json"],
    ["open", "a", "--attach"],
    ["open", "a", "--", "sleep", "100"],
    ["open", "a", "sleep", "100"],
    ["open", "--", "a", "sleep", "--json"],
    ["open", "a", "--grace", "1ms", "--", "sh", "-c", "x -- y"],
    ["open", "a", "--grace", "0", "--", "true"],
    ["open", "a", "--grace", "1s", "--grace", "2s", "--", "true"],
    ["open", "a", "--agent", "claude", "--model", "m", "--cwd", "/tmp", "--note", "a b", "--", "--verbose"],
    ["open", "--profile", "p", "--sandbox", "strict", "a"],
    ["open", "a", "--note", "", "--json", "--", "--"],
]


@pytest.mark.parametrize("arguments", PLAIN, ids=" ".join)
def test_a_plain_form_is_understood_as_click_does(
    arguments: list[str], calls: list[Call], capsys: pytest.CaptureFixture[str]
) -> None:
    act = direct.find(arguments)
    assert act
    code, shown, made = act(), capsys.readouterr(), calls.copy()
    calls.clear()
    assert (parse_and_run(arguments), capsys.readouterr(), calls) == (code, shown, made)
    assert made or arguments == ["--version"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["nosuch"],
        ["list", "a"],
        ["list", "--state", "alive"],
        ["list", "--json=1"],
        ["status"],
        ["status", "a", "b"],
        ["status", "a", "-h"],
        ["attach"],
        ["attach", "a", "--read-only"],
        ["open"],
        ["open", "--all"],
        ["open", "--json"],
        ["open", "a", "--json", "--attach"],
        ["open", "a", "--grace", "soon"],
        ["open", "a", "--grace"],
        ["open", "a", "--note", "--json"],
        ["open", "a", "--note=b"],
        ["open", "a", "-x", "--", "b"],
        ["open", "a", "--shell"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_click(arguments: list[str]) -> None:
    assert direct.find(arguments) is None


def test_every_plain_form_is_tried() -> None:
    """And so are all its options: a new one is to be compared above."""
    tried = {arguments[0]: set[str]() for arguments in PLAIN}
    for arguments in PLAIN:
        tried[arguments[0]] |= {word for word in arguments[1:] if word.startswith("--") and len(word) > 2}
    for command, form in direct.FORMS.items():
        assert set(form) <= tried[command], command
