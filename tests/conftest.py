"""Machines for the tests: booted once per worker, and gone with it."""

import os
import signal
from collections.abc import Iterator

import pytest
from box import Box

_BOXES: dict[str, Box] = {}

# Started in the background by a shell, we and all we start would ignore Ctrl+C; the tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "box" in metafunc.fixturenames:
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        machines = ["vm"] if "vm" in marks else ["host", "trixie"] if "smoke" in marks else ["host"]
        metafunc.parametrize("box", machines, indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("vm"):
            item.add_marker(pytest.mark.timeout(600))  # the first one boots it


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """A machine with no session in it."""
    kind = request.param
    if kind not in _BOXES:
        name = f"test-{os.getpid()}-{kind}"
        _BOXES[kind] = Box(name, vm=True) if kind == "vm" else Box(name, kind)
        _BOXES[kind].up()
    box = _BOXES[kind]
    yield box
    box.sh(
        f"""names=$(systemctl --user list-units --all --plain --no-legend 'kild-*.service' | cut -d' ' -f1)
        for unit in $names; do name=${{unit#kild-}}; echo "${{name%.service}}"; done |
            xargs -r -P 2 -n 1 {box.kild} destroy --force
        rm -rf ~/.local/state/kildsvc $XDG_RUNTIME_DIR/kildsvc ~/out ~/work""",
        check=False,
        timeout=120,
    )


def pytest_sessionfinish() -> None:
    for box in _BOXES.values():
        box.down()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A session name that tells whose it is."""
    test: str = request.node.originalname
    return test.removeprefix("test_").replace("_", "-")[:40].strip("-")
