"""Names, units and ends: the plain types."""

import signal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kildsvc.errors import UsageError
from kildsvc.model import Ended, Metadata, check_name, keeper_of, name_of, parse_status_text, signal_number, unit_of
from kildsvc.shim.ending import Ending, signal_name

SUFFIXES = [
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


def plain(name: str) -> bool:
    return name.rpartition(".")[2] not in SUFFIXES


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,47}", fullmatch=True).filter(plain)
# What names go wrong with, mixed: Hypothesis alone would hardly ever write ".service".
troubles = st.lists(st.sampled_from([".service", ".slice", "-", ".", "_", "/", " ", "\n", "a", "B7", "é", "a" * 39]))


def refusal(name: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        check_name(name)
    return caught.value


@pytest.mark.parametrize("name", ["a", "7", "a.b.c", "feature-auth", "x_y", "A" * 48, "x.services", "service", "a-"])
def test_an_ordinary_name_is_accepted_as_it_is(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("feature/auth", "feature-auth"),
        ("a b", "a-b"),
        ("-x", "x"),
        ("..x", "x"),
        ("x.service", "x"),
        ("x.service.slice", "x"),
        ("x\n", "x"),
        ("größe", "gr-e"),
        ("a" * 49, "a" * 48),
        ("b" * 200, "b" * 48),
    ],
)
def test_a_bad_name_is_refused_with_a_better_one(name: str, suggestion: str) -> None:
    assert refusal(name).hint == f"try '{suggestion}'"


@pytest.mark.parametrize("name", ["", " ", "..", "-", "/", "日本", "\n"])
def test_a_name_with_nothing_to_save_is_refused_without_a_suggestion(name: str) -> None:
    assert refusal(name).hint == ""


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_name_ends_like_a_unit(suffix: str) -> None:
    refusal(f"x.{suffix}")


@given(st.text() | troubles.map("".join))
@example("x.service-")
@example("x.service/")
@example("a" * 40 + ".service" + "tail")
def test_every_name_is_accepted_or_gets_a_suggestion_that_would_be(name: str) -> None:
    try:
        check_name(name)
    except UsageError as error:
        if error.hint:
            suggestion = error.hint.removeprefix("try '").removesuffix("'")
            assert check_name(suggestion) == suggestion


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\rb", "x" * 50 + "\n" * 50])
def test_a_refusal_is_one_line_without_control_characters(name: str) -> None:
    assert refusal(name).message.isprintable()


@given(names)
def test_a_unit_leads_back_to_its_name(name: str) -> None:
    assert unit_of(name) == f"kild-{name}.service"
    assert name_of(unit_of(name)) == name


@given(names, names)
def test_two_names_never_meet_in_one_unit_or_keeper(one: str, other: str) -> None:
    assert (unit_of(one) == unit_of(other)) == (keeper_of(one) == keeper_of(other)) == (one == other)


def test_a_keeper_is_no_child_of_another_sessions_keeper() -> None:
    assert keeper_of("a") == "kildkeep-a.slice"
    assert keeper_of("a-b") == r"kildkeep-a\x2db.slice"


@given(names)
def test_a_keepers_name_has_one_dash_only(name: str) -> None:
    assert keeper_of(name).count("-") == 1


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("ended: exit 0", Ended(code=0)),
        ("ended: exit 137", Ended(code=137)),
        ("ended: signal KILL", Ended(signal="KILL")),
        ("ended: signal RTMIN+3", Ended(signal="RTMIN+3")),
        ("ended: unobserved", Ended()),
        ("ended: not executed: exec: x (ENOENT)", Ended(code=127, error="exec: x (ENOENT)")),
    ],
)
def test_the_status_text_of_an_end_is_understood(text: str, ended: Ended) -> None:
    assert parse_status_text(text) == ended


@pytest.mark.parametrize(
    "text", ["", "running", "ended", "ended: exit", "ended: exit -1", "ended: exit 0 ", "the agent ended: exit 3"]
)
def test_any_other_status_text_tells_no_end(text: str) -> None:
    assert parse_status_text(text) is None


@pytest.mark.parametrize(
    "ending",
    [Ending(code=0), Ending(code=255), Ending(), *(Ending(signal=n) for n in sorted(signal.valid_signals()))],
)
def test_what_the_shim_says_is_what_is_understood(ending: Ending) -> None:
    ended = parse_status_text(ending.status_text())
    assert ended
    assert ended.code == ending.code
    assert ended.exit_code == (ending.exit_code() if ending.code is not None or ending.signal else None)


@pytest.mark.parametrize("number", range(1, 65))
def test_a_signals_name_leads_back_to_its_number(number: int) -> None:
    assert signal_number(signal_name(number)) == number


@pytest.mark.parametrize(
    ("ended", "exit_code", "state", "words"),
    [
        (Ended(code=0), 0, "exited", "exit code 0"),
        (Ended(code=7), 7, "exited", "exit code 7"),
        (Ended(signal="TERM"), 143, "killed", "killed by SIGTERM"),
        (Ended(signal="TERM", stopped=True), 143, "stopped", "killed by SIGTERM"),
        (Ended(code=0, stopped=True), 0, "stopped", "exit code 0"),
        (Ended(), None, "unobserved", "nobody saw how it ended"),
        (Ended(code=127, error="no such file"), 127, "exited", "could not be executed: no such file"),
    ],
)
def test_an_end_in_every_form(ended: Ended, exit_code: int | None, state: str, words: str) -> None:
    assert (ended.exit_code, ended.state(), ended.describe()) == (exit_code, state, words)


def test_what_of_the_journal_is_a_renamed_sessions() -> None:
    metadata = Metadata("c", [], "", "", "", 0, former=[("a", 10.0), ("b", 20.0)])
    owned = {name: [at for at in range(1, 31) if metadata.owns(name, at)] for name in metadata.names}
    assert owned == {"a": [*range(1, 11)], "b": [*range(11, 21)], "c": [*range(21, 31)]}
    back = Metadata("a", [], "", "", "", 0, former=[("a", 10.0), ("b", 20.0)])
    assert [at for at in (5, 15, 25) if back.owns("a", at)] == [5, 25]
    assert Metadata("a", [], "", "", "", 0).owns("a", 1)
    assert not Metadata("a", [], "", "", "", 0).owns("b", 1)
