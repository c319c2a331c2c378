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
        smoke = metafunc.definition.get_closest_marker("smoke")
        metafunc.parametrize("box", ["host", "trixie"] if smoke else ["host"], indirect=True)


@pytest.fixture
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """A machine with no session in it."""
    release = request.param
    if release not in _BOXES:
        _BOXES[release] = Box(f"test-{os.getpid()}-{release}", release)
        _BOXES[release].up()
    box = _BOXES[release]
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
