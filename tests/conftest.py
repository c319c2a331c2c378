"""Machines for the tests: booted once per worker, and gone with it."""

import os
import signal
from collections.abc import Iterator

import fuzz  # noqa: F401  (registers the profile)
import hypothesis
import pytest
from box import Box

hypothesis.settings.load_profile("kildsvc")
_BOXES: dict[str, Box] = {}

# Started in the background by a shell, or by nohup, we and all we start would ignore these; the tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


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
    """A machine with no session in it, and no settings."""
    kind = request.param
    if kind not in _BOXES:
        name = f"test-{os.getpid()}-{kind}"
        _BOXES[kind] = Box(name, vm=True) if kind == "vm" else Box(name, kind)
        _BOXES[kind].up()
    box = _BOXES[kind]
    yield box
    units = box.run(
        "systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "kild-*.service", check=False
    ).stdout.splitlines()
    names = [line.split()[0].removeprefix("kild-").removesuffix(".service") for line in units]
    if names:
        box.python(FORGET, *names, timeout=120)
    left = "~/.local/state/kildsvc ~/.config/kildsvc ~/.config/systemd $XDG_RUNTIME_DIR/kildsvc ~/out ~/work"
    box.sh(f"rm -rf {left}", check=False)


FORGET = """
import sys, kildsvc
for name in sys.argv[1:]:
    try:
        kildsvc.destroy(name, force=True)
    except kildsvc.KildError as error:
        print(error)
"""


def pytest_sessionfinish() -> None:
    for box in _BOXES.values():
        box.down()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A session name that tells whose it is."""
    test: str = request.node.originalname
    return test.removeprefix("test_").replace("_", "-")[:40].strip("-")
