"""The unit of a session, as systemd is told it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kildsvc.launch import Launch
from kildsvc.systemd.manager import _encode
from kildsvc.systemd.properties import keeper, service, unit_path

LAUNCH = Launch(
    name="demo",
    run="c0ffee",
    unit="kild-demo.service",
    agent="claude",
    title="claude --resume",
    executable="/usr/bin/claude",
    argv=["claude", "--resume"],
    env={"PATH": "/bin"},
    cwd="/src/app",
    rows=24,
    cols=80,
    umask=0o022,
    limits={"RLIMIT_NOFILE": [1024, 4096]},
    last_output="/state/demo.output",
    version="1.0",
)
DIRECTORY = Path("/run/user/1000/kildsvc/demo")


def properties(launch: Launch = LAUNCH) -> dict[str, Any]:
    found = service(launch, DIRECTORY, "/usr/bin/python3", "demo: claude in ~/src/app")
    values = {name: value for name, _, value in found}
    assert len(values) == len(found)  # none is told twice
    return values


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("Slice", "kild.slice"),
        ("CollectMode", "inactive-or-failed"),
        ("KillMode", "process"),
        ("Restart", "on-abort"),
        ("RestartUSec", 0),
        ("StartLimitIntervalUSec", 0),
        ("OOMPolicy", "continue"),
        ("LimitCORE", 0),
        ("Description", "demo: claude in ~/src/app"),
    ],
)
def test_the_unit_is_what_the_contract_says(name: str, value: object) -> None:
    assert properties()[name] == value


def test_the_command_line_is_interpreter_shim_name_run_and_nothing_else() -> None:
    ((path, argv, ignore_failure),) = properties()["ExecStart"]
    assert (path, ignore_failure) == ("/usr/bin/python3", False)
    assert argv == ["/usr/bin/python3", "-SI", f"{DIRECTORY}/c0ffee.shim", "demo", "c0ffee"]


def test_the_reaper_runs_from_the_runs_own_copy() -> None:
    ((path, argv, _),) = properties()["ExecStopPost"]
    assert (path, argv) == ("/bin/sh", ["/bin/sh", f"{DIRECTORY}/c0ffee.shim/reap.sh", str(DIRECTORY)])


def test_the_store_holds_all_the_shim_puts_there() -> None:
    # record, pty, listen, waiter, agent.
    assert properties()["FileDescriptorStoreMax"] >= 5


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_systemd_waits_longer_than_the_shim_does(grace: int, stop: int) -> None:
    found = properties(replace(LAUNCH, grace_usec=grace, stop_usec=stop))
    assert found["TimeoutStartUSec"] > grace
    assert found["TimeoutStopUSec"] > stop


@given(st.lists(st.text(), min_size=1), st.dictionaries(st.text(), st.text()), st.text())
def test_nothing_of_the_agents_command_or_environment_is_told(
    argv: list[str], env: dict[str, str], other: str
) -> None:
    launch = replace(LAUNCH, argv=argv, env=env, executable=other, title=other, cwd=other, last_output=other)
    assert properties(launch) == properties()


def test_a_secret_is_nowhere_in_the_unit() -> None:
    launch = replace(LAUNCH, argv=["claude", "--key", "sk-secret"], env={"KEY": "sk-secret"}, title="sk-secret")
    assert "sk-secret" not in repr(service(launch, DIRECTORY, "/usr/bin/python3", "demo"))


def test_the_keeper_holds_the_unit_and_waits_for_nothing() -> None:
    values = {name: value for name, _, value in keeper("a-b")}
    assert values["After"] == ["kild-a-b.service"]
    assert values["DefaultDependencies"] is False


S, A, R, V, B, T, END = ord("s"), ord("a"), ord("r"), ord("v"), ord("b"), ord("t"), (-1, None)


@pytest.mark.parametrize(
    ("signature", "value", "flat"),
    [
        ("s", "grün", [(S, "grün".encode())]),
        ("t", 7, [(T, 7)]),
        ("as", [], [(A, b"s"), END]),
        ("as", ["x", "y"], [(A, b"s"), (S, b"x"), (S, b"y"), END]),
        ("(sb)", ("x", True), [(R, b"sb"), (S, b"x"), (B, True), END]),
        ("a(sv)", [("N", "t", 7)], [(A, b"(sv)"), (R, b"sv"), (S, b"N"), (V, b"t"), (T, 7), END, END, END]),
        (
            "a(sasb)",
            [("/x", ["x", "-v"], False)],
            [(A, b"(sasb)"), (R, b"sasb"), (S, b"/x"), (A, b"s"), (S, b"x"), (S, b"-v"), END, (B, False), END, END],
        ),
    ],
)
def test_values_are_flattened_for_pystemd(signature: str, value: Any, flat: list[tuple[int, Any]]) -> None:
    assert list(_encode(signature, value)) == flat


@pytest.mark.parametrize("told", [service(LAUNCH, DIRECTORY, "/p", "d"), keeper("demo")])
def test_every_container_of_a_unit_is_closed(told: list[tuple[str, str, Any]]) -> None:
    depth = 0
    for kind, _ in _encode("a(sv)", told):
        depth += -1 if kind == -1 else kind in (A, R, V)
        assert depth >= 0
    assert depth == 0


def test_a_unit_is_found_where_systemd_has_it() -> None:
    assert unit_path("kild-a.b_c.service") == "/org/freedesktop/systemd1/unit/kild_2da_2eb_5fc_2eservice"
    assert unit_path("kildkeep-a\\x2db.slice").endswith("/kildkeep_2da_5cx2db_2eslice")
