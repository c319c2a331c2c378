"""The settings files: what they may say, and what is said of what they may not."""

from pathlib import Path

import pytest

from kildsvc import config
from kildsvc.errors import KildError, UsageError
from kildsvc.operations import settings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / ".config/kildsvc").mkdir(parents=True)
    return tmp_path


def write(home: Path, text: str) -> Path:
    file = home / ".config/kildsvc/config.toml"
    file.write_text(text)
    return file


def project(home: Path, text: str) -> Path:
    """A repository with settings of its own, and a directory inside it."""
    (home / "src/.git").mkdir(parents=True)
    (home / "src/deep/er").mkdir(parents=True)
    (home / "src/.kildsvc.toml").write_text(text)
    return home / "src/deep/er"


def test_nothing_set(home: Path) -> None:
    assert config.load(str(home)).settings == {}
    assert config.load(str(home)).get("grace") is None


def test_values_and_where_they_stand(home: Path) -> None:
    file = write(
        home,
        'grace = "2s"\n\n[limits]\nmemory = "4G"\ntasks = 500\n\n[agents]\nclaude.limits.cpu = "50%"\n'
        '[agents."my agent"]\nsandbox = "strict"\n[sandboxes.mine]\nwrite = ["~/x"]\nnetwork = false\n',
    )
    found = config.load(str(home))
    assert found.get("grace") == 2_000_000
    assert found.table("limits") == {"memory": "4G", "tasks": "500"}
    assert found.table("agents", "claude", "limits") == {"cpu": "50%"}
    assert found.table("sandboxes", "mine") == {"write": ["~/x"], "network": False}
    assert found.names("agents") == ["claude", "my agent"]
    assert found.origin("limits", "tasks") == f"{file}:5"
    assert found.origin("agents", "claude", "limits", "cpu") == f"{file}:8"
    assert found.origin("agents", "my agent", "sandbox") == f"{file}:10"


def test_the_projects_file_is_the_nearest_inside_the_repository(home: Path) -> None:
    write(home, 'grace = "1s"\ndetach_keys = "ctrl-a ctrl-d"')
    inside = project(home, "grace = 3")
    assert config.load(str(inside)).get("grace") == 3_000_000
    assert config.load(str(inside)).get("detach_keys") == "ctrl-a ctrl-d"
    assert config.load(str(home)).get("grace") == 1_000_000
    (home / "src/deep/.git").mkdir()  # a repository in the repository: the outer one's file is not its own
    assert config.load(str(inside)).get("grace") == 1_000_000


@pytest.mark.parametrize("text", ['sandbox = "off"', "[limits]\ntasks = 9", "[agents.claude.limits]\nnice = 1"])
def test_a_project_cannot_loosen_what_protects_from_it(home: Path, text: str) -> None:
    inside = project(home, text)
    with pytest.raises(UsageError, match=r"\.kildsvc\.toml:\d: a project may not set"):
        config.load(str(inside))


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("grace = 1\n[limit]\nmemory = 1", 2, "unknown setting 'limit'", "did you mean 'limits'"),
        ("[limits]\n\nmemroy = '1G'", 3, "unknown setting 'limits.memroy'", "did you mean 'memory'"),
        ("[limits]\nzzz = 1", 2, "unknown setting 'limits.zzz'", "known here: memory"),
        ("limits = 4", 1, "'limits' is a table", "[limits]"),
        ("\ngrace = 'soon'", 2, "'soon' is not a duration", ""),
        ("grace = true", 1, "'grace' should be a duration", ""),
        ("[limits]\nmemory = [1]", 2, "'limits.memory' should be", ""),
        ("[sandboxes.a]\nwrite = [1]", 2, "should be a list of strings", ""),
        ("detach_keys = 'shift-q'", 1, "'shift-q' is not a key", ""),
        ("[agents.a]\nsandbox = 3", 2, "'agents.a.sandbox' should be a string", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_line(home: Path, text: str, line: int, message: str, hint: str) -> None:
    file = write(home, text)
    with pytest.raises(UsageError) as caught:
        config.load()
    assert caught.value.message.startswith(f"{file}:{line}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\na = = 1", r"toml:2: not TOML"),
        (b"a = '''\n\n", r"toml:3: not TOML"),
        (b"\n\nx = \xff", ":3: not UTF-8"),
        (b"x = 1\n" * 50_000, "larger than"),
    ],
)
def test_what_is_no_toml(home: Path, data: bytes, message: str) -> None:
    write(home, "").write_bytes(data)
    with pytest.raises(UsageError, match=message):
        config.load()


def test_a_file_that_cannot_be_read(home: Path) -> None:
    (home / ".config/kildsvc/config.toml").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        config.load()


# -- config show, config edit ------------------------------------------------------------------------------


def test_what_holds_and_where_it_comes_from(home: Path) -> None:
    file = write(home, 'grace = "1s"\n[agents."my agent"]\nsandbox = "a"\n')
    inside = project(home, "\ngrace = 3")
    found = {one.key: (one.value, one.origin) for one in settings.effective(str(inside))}
    assert found == {
        "grace": (3, f"{home}/src/.kildsvc.toml:2"),
        "detach_keys": ("ctrl-space ctrl-q", "default"),
        "ttl": ("30d", "default"),
        'agents."my agent".sandbox': ("a", f"{file}:3"),
    }
    places = [file, inside / ".kildsvc.toml", inside.parent / ".kildsvc.toml", home / "src/.kildsvc.toml"]
    assert settings.files(str(inside)) == list(zip(places, [True, False, False, True], strict=True))


def test_every_line_of_the_template_can_be_taken(home: Path) -> None:
    lines = [line.removeprefix("#") for line in settings.TEMPLATE.splitlines() if not line.startswith("# ")]
    write(home, "\n".join(lines))
    assert {key[0] for key in config.load().settings} == set(config._SCHEMA), "it shows all there is"
    write(home, settings.TEMPLATE)
    assert config.load().settings == {}


def editor(home: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"sh -c '{script}' -")


def test_editing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / ".config/kildsvc/config.toml"
    editor(home, monkeypatch, 'sed -i s/^#grace/grace/ "$1"')
    assert settings.edit() == file
    assert config.load().get("grace") == 200_000
    monkeypatch.setenv("VISUAL", "true")  # before EDITOR
    file.write_text("grace = 1\n")
    settings.edit()
    assert file.read_text() == "grace = 1\n"


def test_a_mistake_made_in_the_editor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(home, "grace = 1\n")
    editor(home, monkeypatch, 'echo grcae = 2 >>"$1"')
    with pytest.raises(UsageError, match=r"config.toml:2: unknown setting 'grcae'"):
        settings.edit()
    assert file.read_text() == "grace = 1\ngrcae = 2\n"


@pytest.mark.parametrize(
    ("command", "message"), [("/nowhere", "cannot run"), ("false", "ended with 1"), ("'", "no c")]
)
def test_an_editor_that_fails(home: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str) -> None:
    monkeypatch.setenv("VISUAL", command)
    with pytest.raises(KildError, match=message):
        settings.edit()


def test_an_editor_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(home))
    with pytest.raises(KildError, match="no editor was found"):
        settings.edit()
    (home / "vi").symlink_to("/bin/true")
    assert settings.edit().exists()
