"""Whatever stands in a settings file: settings, or one mistake told with file and line."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import effort
from hypothesis import example, given
from hypothesis import strategies as st

from kildsvc import config, paths
from kildsvc.errors import UsageError

_keys = st.sampled_from(
    [
        "grace",
        "detach_keys",
        "sandbox",
        "limits",
        "slice",
        "agents",
        "sandboxes",
        "memory",
        "cpu",
        "claude",
        "base",
        "network",
        "read",
        "tasks",
        "graze",
        '"a b"',
        "'*'",
        "''",
        "1",
        "limits.memory",
        "agents.claude.limits.cpu",
    ]
)
_values = st.sampled_from(
    [
        '"200ms"',
        "5",
        "-1",
        "1.5",
        "nan",
        "inf",
        "true",
        '""',
        '"4G"',
        '"strict"',
        '"ctrl-q"',
        '"ctrl-ß"',
        '["a", 1]',
        "{a = 1}",
        "[]",
        "1979-05-27",
        "0x1f",
        '"""x\n"""',
        "'''",
        '"\\u0000"',
        "9" * 5000,
        "[" * 3000,
        '"',
    ]
)
_lines = (
    st.builds("{} = {}".format, _keys, _values)
    | st.builds("[{}]".format, _keys)
    | st.builds("[{}.{}]".format, _keys, _keys)
    | st.builds("[[{}]]".format, _keys)
    | st.builds("{} = {}  # {}".format, _keys, _values, st.text(max_size=5))
    | st.text(max_size=10)
)
files = st.lists(_lines, max_size=6).map("\n".join).map(lambda text: text.encode(errors="replace"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("config")
        patch.setenv("XDG_CONFIG_HOME", str(home))
        patch.setenv("HOME", str(home))
        paths.config_file().parent.mkdir(parents=True, exist_ok=True)
        (home / "project").mkdir()
        yield home


@effort(120)
@given(content=files | st.binary(max_size=60), project=files)
@example(content=b"\xff", project=b"")
@example(content=b"a = " + b"[" * 100_000, project=b"")
@example(content=b"a = " + b"{b = " * 20_000, project=b"")
def test_settings_or_one_mistake_with_its_place(home: Path, content: bytes, project: bytes) -> None:
    own, other = paths.config_file(), home / "project" / config.PROJECT_FILE
    own.write_bytes(content)
    other.write_bytes(project)
    try:
        found = config.load(str(home / "project"))
    except UsageError as error:
        # tomllib tells the line itself, as "(at line 1, column 5)".
        place = rf"({re.escape(str(own))}|{re.escape(str(other))})(:[0-9]+: |: not TOML: )"
        assert re.match(place, error.message), error.message
        assert len(error.message) < 1000
        return
    for key, setting in found.settings.items():
        file, _, line = setting.origin.rpartition(":")
        assert 1 <= int(line) <= Path(file).read_bytes().count(b"\n") + 1 + Path(file).read_bytes().count(b"\r")
        assert file == str(own) or key[0] == "grace"
