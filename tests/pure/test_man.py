"""The man pages: they can be built, and say neither less nor more than what there is."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from kildsvc import config, errors, model
from kildsvc.cli.main import kildsvc as command_group
from kildsvc.operations.wait import NO_RESULT
from kildsvc.shim import record, wire
from kildsvc.shim.journal import EVENTS

REPO = Path(__file__).parents[2]
MAN = REPO / "packaging" / "man"
PAGES = {path.stem: path.read_text() for path in MAN.glob("*.md")}
SOURCES = {path: path.read_text() for path in (REPO / "kildsvc").rglob("*.py")}
DOCUMENTS = [*MAN.glob("*.md"), REPO / "README.md", REPO / "packaging" / "guide.md"]


def tree(command: click.Command, context: click.Context) -> Iterator[tuple[str, set[str], str]]:
    """Every command by its words, with its options and its usage."""
    options = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    yield context.command_path, options, command.get_usage(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from tree(below, click.Context(below, context, name))


TREE = list(tree(command_group, click.Context(command_group, info_name="kildsvc")))
COMMANDS = {
    words: {option for option in options if option.startswith("-")} | {"-h", "--help"} for words, options, _ in TREE
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    target = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, str(MAN / "build"), str(target)], check=True)
    return {path.name: path for path in target.iterdir()}


@pytest.mark.parametrize("page", sorted(PAGES))
def test_it_is_built_without_a_complaint(page: str, built: dict[str, Path]) -> None:
    for command in (["mandoc", "-Tlint", "-Wwarning"], ["man", "--warnings", "-l"]):
        done = subprocess.run([*command, str(built[page])], capture_output=True, text=True)
        said = done.stderr + (done.stdout if command[0] == "mandoc" else "")
        assert (done.returncode, said) == (0, "")


def test_every_command_and_option_is_there(built: dict[str, Path]) -> None:
    text = built["kildsvc.1"].read_text().replace("\\-", "-")
    parts = re.split(r"^\.S[SH]\n", text, flags=re.M)
    for words, _, usage in TREE:
        # As `Usage: kildsvc wait [OPTIONS] NAME…` has it, perhaps on several lines.
        title = " ".join(usage.split()).removeprefix("Usage: ").replace(" [OPTIONS]", "")
        own = [part for part in parts if part.startswith(f"{title}\n" if " " in words else "COMMANDS\n")]
        assert len(own) == 1, title
        missing = {option for option in COMMANDS[words] if not re.search(rf"[\s,B]{option}\b", own[0])}
        assert missing - {"-h", "--help"} == set(), words


def snippets(text: str) -> Iterator[str]:
    """What stands there as code, each line by itself."""
    for block in re.findall(r"^(?: {4}.*(?:\n|\Z))+", text, re.M):
        yield from re.sub(r"\\\n", "", block).splitlines()
    yield from re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_is_named_that_does_not_exist(path: Path) -> None:
    every = set().union(*COMMANDS.values())
    found = 0
    for snippet in snippets(path.read_text()):
        ours = re.split(r" -- | \| |; |[#)─]", snippet.strip().removeprefix("$ "))[0]
        words = ours.removeprefix("kildsvc ").split()
        if re.match(r"kildsvc [a-z]", ours):
            assert command_group.get_command(click.Context(command_group), words[0]), snippet
        named = [" ".join(["kildsvc", *words[:count]]) for count in (2, 1)]
        known = next((COMMANDS[name] for name in named if name in COMMANDS), None)
        if known is None and not ours.startswith("-"):
            continue  # of another program
        given = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", f" {ours}"))
        assert given - (known or every) == set(), snippet
        found += len(given)
    assert found or path.name not in ("README.md", "kildsvc.1.md")


def section(page: str, title: str) -> str:
    return re.split(r"^# ", PAGES[page].split(f"\n# {title}\n")[1], flags=re.M)[0]


def terms(text: str) -> set[str]:
    """Of its lists of definitions."""
    lines = re.findall(r"^(.+)\n\n: ", text, re.M)
    return {term.strip("`").partition(" ")[0] for line in lines for term in line.split(", ")}


def test_the_exit_codes_are_those_there_are() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.KildError)]
    codes = {0, 125, 129, 130, 141, NO_RESULT} | {kind.exit_code for kind in kinds}
    assert terms(section("kildsvc.1", "EXIT STATUS")) == {str(code) for code in codes}


def test_the_states_are_those_there_are() -> None:
    assert terms(section("kildsvc.1", "STATES")) == set(model.STATES)


def settings() -> Iterator[tuple[str, set[str]]]:
    schema: dict[str, Any] = config._SCHEMA
    yield "SETTINGS", {key for key, kind in schema.items() if not isinstance(kind, dict)}
    for key, kind in schema.items():
        if isinstance(kind, dict):
            yield (f"[{key}.NAME]", set(kind["*"])) if "*" in kind else (f"[{key}]", set(kind))


@pytest.mark.parametrize(("title", "keys"), list(settings()))
def test_the_settings_are_those_there_are(title: str, keys: set[str]) -> None:
    text = section("kildsvc.toml.5", title)
    assert {key for key in keys if not re.search(rf"`{key}\b", text)} == set()
    assert terms(text) - keys == set()


def test_the_example_of_settings_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kildsvc").mkdir()
    (tmp_path / "kildsvc" / "config.toml").write_text(inspect.cleandoc(section("kildsvc.toml.5", "EXAMPLE")))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config.load().get("profiles", "review", "limits", "memory") == "2G"


def test_every_variable_of_the_environment_is_told() -> None:
    pattern = r'environ(?:\.get\(|\[|\.setdefault\()"([A-Z_]+)"|"([A-Z_]+)" (?:not )?in os\.environ'
    read = {name for text in SOURCES.values() for pair in re.findall(pattern, text) for name in pair if name}
    told = "".join(section(page, "ENVIRONMENT") for page in ("kildsvc.1", "kildsvc-shim.8"))
    assert {name for name in read - {"PATH"} if f"`{name}`" not in told} == set()


def test_the_wire_is_what_is_told() -> None:
    constants = {name: value for name, value in vars(wire).items() if name.isupper() and isinstance(value, int)}
    del constants["VERSION"], constants["CLIENT_MAX"], constants["SHIM_MAX"]
    text = section("kildsvc-shim.8", "WIRE")
    assert dict(re.findall(r"`([A-Z_]+)` (\d+)", text)) == {name: str(value) for name, value in constants.items()}
    assert f"version {wire.VERSION}." in text and f"at most {wire.CLIENT_MAX}" in text


def test_the_record_is_what_is_told() -> None:
    words = re.findall(r"^    ([A-Z_ ]+)$", section("kildsvc-shim.8", "RECORD"), re.M)
    assert [getattr(record, name) for name in " ".join(words).split()] == list(range(record.OOM_TOLD + 1))


def test_the_journals_fields_are_those_there_are() -> None:
    def named(text: str) -> set[str]:
        return set(re.findall(r"\bKILD_[A-Z_]*[A-Z]\b", text))

    text = section("kildsvc-shim.8", "JOURNAL")
    shim = set().union(*(named(source) for path, source in SOURCES.items() if path.parent.name == "shim"))
    assert shim - named(text) == set()
    assert named(text) - set().union(*map(named, SOURCES.values())) == set()
    assert {event for event in EVENTS if not re.search(rf"\b{event}\b", text)} == set()
