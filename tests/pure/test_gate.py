"""The house rules: format, types, layers, units, help and README."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kildsvc.cli.main import kildsvc as command_group

REPO = Path(__file__).parents[2]
PACKAGE = REPO / "kildsvc"
SOURCES = sorted(PACKAGE.rglob("*.py"))
UNITS = sorted((REPO / "units").iterdir())
COMMANDS = command_group.list_commands(click.Context(command_group))
PASS_EXIT_CODE = ["attach", "wait", "run"]
FILE_MAX = 400  # lines; beyond it a file has two subjects

Done = subprocess.CompletedProcess[str]


def run(*command: str, **env: str) -> Done:
    environment = {**os.environ, "PYTHONPATH": str(REPO), **env}
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, env=environment)


def kildsvc(*arguments: str) -> Done:
    return run(sys.executable, "-m", "kildsvc", *arguments)


def ids(path: Path) -> str:
    return str(path.relative_to(REPO))


each_source = pytest.mark.parametrize("path", SOURCES, ids=ids)


# -- format and types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["format", "--check"], ["check"]], ids=" ".join)
def test_ruff_has_nothing_to_say(command: list[str]) -> None:
    done = run(sys.executable, "-m", "ruff", *command, "--no-cache", "--quiet", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_mypy_has_nothing_to_say() -> None:
    done = run(sys.executable, "-m", "mypy")
    assert done.returncode == 0, done.stdout + done.stderr


@each_source
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_MAX


# -- layers -------------------------------------------------------------------------------------------------


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path) for path in SOURCES}


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0 and node.module, "imports are absolute"
        for alias in node.names:
            # `from kildsvc import paths` imports a module, `from kildsvc.paths import x` a name of one.
            whole = f"{node.module}.{alias.name}"
            yield whole if whole in MODULES else node.module


def imports(path: Path) -> set[str]:
    """Every module it imports, also inside functions and under TYPE_CHECKING."""
    return {name for node in ast.walk(ast.parse(path.read_text())) for name in imported(node)}


def imports_when_loaded(path: Path) -> set[str]:
    """What importing it imports: not what stands inside functions or under TYPE_CHECKING."""
    found = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        found |= set(imported(node))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
    return found


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.split(".")[0] == "kildsvc"}


def foreign(names: set[str]) -> set[str]:
    """Top-level names that neither we nor the standard library have."""
    tops = {name.split(".")[0] for name in names}
    return tops - {"kildsvc"} - set(sys.stdlib_module_names)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def breaks_a_layer(module: str, names: set[str]) -> set[str]:
    """Those of the imports that the module's layer does not allow."""
    if module == "kildsvc.errors":
        return names
    if module == "kildsvc.model":
        return {name for name in ours(names) if name != "kildsvc.errors"}
    if within(module, "kildsvc.shim"):
        return {name for name in ours(names) if not within(name, "kildsvc.shim")}
    if within(module, "kildsvc.cli", "kildsvc.__main__"):
        return set()
    if module == "kildsvc":
        return ours(names) - {"kildsvc.api"}
    above = {name for name in names if within(name, "kildsvc.cli")}
    if not within(module, "kildsvc.operations", "kildsvc.api"):
        above |= {name for name in names if within(name, "kildsvc.operations")}
    return above


ADAPTERS = {"kildsvc.systemd.manager", "kildsvc.systemd.events", "kildsvc.journal", "kildsvc.attach"}
OWNERS = {
    "avt": "kildsvc.screen",
    "pystemd": "kildsvc.systemd.manager",
    "dbus_next": "kildsvc.systemd.events",
    "click": "kildsvc.cli",
}


@each_source
def test_imports_go_one_way(path: Path) -> None:
    assert breaks_a_layer(module_of(path), imports(path)) == set()


@each_source
def test_only_operations_join_adapters(path: Path) -> None:
    module = module_of(path)
    if not within(module, "kildsvc.operations"):
        assert len((imports(path) & ADAPTERS) | ({module} & ADAPTERS)) <= 1


@each_source
def test_every_foreign_library_has_one_owner(path: Path) -> None:
    module = module_of(path)
    for library in foreign(imports(path)):
        assert library in OWNERS, f"{library} is not a dependency"
        assert within(module, OWNERS[library])


SHIM = sorted((PACKAGE / "shim").glob("*.py"))
HEAVY = {"typing", "dataclasses", "asyncio", "subprocess", "argparse", "logging", "pathlib", "contextlib", "inspect"}


@pytest.mark.parametrize("path", SHIM, ids=ids)
def test_the_shim_loads_nothing_heavy(path: Path) -> None:
    assert imports_when_loaded(path) & HEAVY == set()
    assert foreign(imports(path)) == set()


def test_the_shim_as_it_is_started_has_loaded_nothing_heavy() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import kildsvc.shim.main; print(*sys.modules)"
    done = run(sys.executable, "-SIc", code, str(REPO))
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & (HEAVY - {"contextlib"}) == set()


@each_source
def test_only_the_renderer_prints(path: Path) -> None:
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printing = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert path == PACKAGE / "cli" / "render.py" or printing == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=ids)
def test_packages_have_no_code_of_their_own(path: Path) -> None:
    if path.parent != PACKAGE:
        assert path.read_text() == ""


def test_importing_the_package_costs_nothing() -> None:
    """Its __init__ has the names of the API, which is loaded when one is used: every command imports the package."""
    code = "import sys; before = set(sys.modules); import kildsvc; print(*sorted(set(sys.modules) - before))"
    assert run(sys.executable, "-c", code).stdout.split() == ["kildsvc"]
    code = "import kildsvc, kildsvc.api as api; assert kildsvc.__all__ == api.__all__; print(kildsvc.open.__module__)"
    done = run(sys.executable, "-c", code)
    assert (done.stdout, done.stderr) == ("kildsvc.api\n", "")


LATER = """
import sys, threading
from kildsvc.__main__ import LATER, Later
for name in LATER:
    assert name not in sys.modules, name
    sys.modules[name] = Later(name)
import bz2, subprocess
from inspect import signature
found, start = [], threading.Barrier(20)
def use():
    start.wait()
    found.append((subprocess.run(["true"]).returncode, bz2.compress(b"") != b"", signature(use).parameters == {}))
threads = [threading.Thread(target=use) for _ in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(set(found), len(found), type(sys.modules["subprocess"]).__name__)
"""


def test_modules_that_are_loaded_later_are_loaded_once() -> None:
    done = run(sys.executable, "-c", LATER)
    assert (done.stdout, done.stderr) == ("{(0, True, True)} 20 module\n", "")


def test_every_package_is_installed() -> None:
    # A directory of data is a package too, to setuptools.
    packages = {module_of(path) for path in SOURCES if path.name == "__init__.py"} | {"kildsvc.units"}
    assert set(tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]) == packages


# -- units --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_systemd_accepts_the_unit(unit: Path, tmp_path: Path) -> None:
    for one in UNITS:  # they name one another, and a program that is not installed here
        (tmp_path / one.name).write_text(one.read_text().replace("/usr/bin/kildsvc", "/bin/true"))
    unit = tmp_path / unit.name
    done = run("systemd-analyze", "verify", "--user", "--man=no", str(unit), XDG_RUNTIME_DIR=str(tmp_path))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=ids)
def test_a_unit_says_what_it_is(unit: Path) -> None:
    assert re.search(r"^Description=\S", unit.read_text(), re.M)
    assert re.search(r"^Documentation=man:", unit.read_text(), re.M)


# -- the command line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    done = kildsvc(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    usage, _, rest = done.stdout.partition("\n\n")
    assert usage.startswith(f"Usage: kildsvc {command}")
    assert re.match(r"  [A-Z].*\.", rest, re.S), "no description"


def test_the_help_names_every_command() -> None:
    done = kildsvc("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", done.stdout, re.M)


MISTAKE = """
import sys
from kildsvc.cli import acts, run
def version(): raise ValueError("two\\nlines")
acts.version = version
sys.exit(run.run(sys.argv[1:]))
"""


def test_a_mistake_of_our_own_is_told_in_one_line() -> None:
    done = run(sys.executable, "-c", MISTAKE, "--version")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "kildsvc: a mistake of kildsvc's own: ValueError two lines, at <string>:4 "
        "(KILDSVC_DEBUG=1 shows how it came to that)\n"
    )
    assert "Traceback" in run(sys.executable, "-c", MISTAKE, "--version", KILDSVC_DEBUG="1").stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["open", "--help"]], ids=" ".join)
def test_a_reader_who_has_gone_is_no_failure(arguments: list[str]) -> None:
    """As `head` goes, of a pipe: nothing is said, and the exit code is a shell's for SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        command = [sys.executable, "-m", "kildsvc", *arguments]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    "arguments",
    [["nosuch"], ["--nosuch"], ["open"], ["open", "a/b", "--", "true"], ["open", "a\nb", "--", "true"]]
    + [[command, "--nosuch"] for command in COMMANDS if command not in PASS_EXIT_CODE],
    ids=" ".join,
)
def test_a_mistake_is_told_in_one_line(arguments: list[str]) -> None:
    done = kildsvc(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"kildsvc: [^\n]+\n", done.stderr)


@pytest.mark.parametrize("command", PASS_EXIT_CODE)
def test_a_mistake_of_ours_is_not_taken_for_the_agents_exit_code(command: str) -> None:
    done = kildsvc(command, "--nosuch")
    assert done.returncode == 125
    assert re.fullmatch(r"kildsvc: [^\n]+\n", done.stderr)


# -- README -------------------------------------------------------------------------------------------------


def readme_code() -> str:
    """What README.md shows as code: fenced blocks, and spans in the prose between them."""
    text = (REPO / "README.md").read_text()
    blocks = re.findall(r"^```.*?\n(.*?)^```", text, re.M | re.S)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    indented = re.findall(r"^    .*$", prose, re.M)
    return "\n".join([*blocks, *indented, *re.findall(r"`([^`\n]+)`", prose)])


def test_every_path_in_the_readme_exists() -> None:
    mentioned = set(re.findall(r"\bpackaging/[\w./-]*\w", (REPO / "README.md").read_text()))
    assert {path for path in mentioned if not (REPO / path).exists()} == set()


def test_every_command_in_the_readme_exists() -> None:
    mentioned = set(re.findall(r"(?:^|[\s|&;(])kildsvc ([a-z][a-z-]*)", readme_code()))
    assert mentioned, "the README shows no command"
    assert mentioned - {*COMMANDS, "ls"} == set()
