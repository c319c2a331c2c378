"""What of the caller reaches the agent."""

import os
from pathlib import Path

import pytest

from kildsvc.environment import DEFAULT_TERM, find_cwd, find_executable, for_agent, limits, parse_assignments, umask
from kildsvc.errors import UsageError

UNIT_PRIVATE = [
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MAINPID",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "CREDENTIALS_DIRECTORY",
    "MEMORY_PRESSURE_WATCH",
    "FDSTORE",
]
NESTING = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "TMUX", "TMUX_PANE", "STY", "ZELLIJ", "COLUMNS", "LINES"]
HIS_OWN = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "COLORTERM",
    "SSH_AUTH_SOCK",
    "ANTHROPIC_API_KEY",
    "EDITOR",
    "XDG_RUNTIME_DIR",
    "http_proxy",
]


def agent_env(caller: dict[str, str], **extra: str) -> dict[str, str]:
    return for_agent(caller, "demo", "/src", extra)


@pytest.mark.parametrize("key", [*UNIT_PRIVATE, *NESTING, "KILD_RUN", "KILD_ANYTHING"])
def test_what_belongs_to_the_callers_own_place_is_left_out(key: str) -> None:
    assert key not in agent_env({key: "1"})


@pytest.mark.parametrize("key", HIS_OWN)
def test_the_rest_passes_unchanged(key: str) -> None:
    assert agent_env({key: "some value"})[key] == "some value"


@pytest.mark.parametrize("term", ["", "dumb", "unknown", None])
def test_a_terminal_of_no_use_becomes_the_usual_one(term: str | None) -> None:
    assert agent_env({} if term is None else {"TERM": term})["TERM"] == DEFAULT_TERM


def test_a_real_terminal_stays() -> None:
    assert agent_env({"TERM": "xterm-kitty"})["TERM"] == "xterm-kitty"


def test_what_is_asked_for_wins() -> None:
    env = agent_env({"LANG": "C", "TMUX": "/tmp/x"}, LANG="de_DE.UTF-8", TMUX="mine", TERM="dumb", PWD="/else")
    assert env == {"LANG": "de_DE.UTF-8", "TMUX": "mine", "TERM": "dumb", "PWD": "/else", "KILD_SESSION": "demo"}


def test_the_agent_knows_its_session_and_directory_whoever_the_caller_is() -> None:
    env = agent_env({"KILD_SESSION": "outer", "PWD": "/elsewhere"}, KILD_SESSION="forged")
    assert (env["KILD_SESSION"], env["PWD"]) == ("demo", "/src")


def test_assignments_are_taken_apart_at_the_first_equals_sign() -> None:
    assert parse_assignments(("A=1", "B=x=y", "C=", "A=2")) == {"A": "2", "B": "x=y", "C": ""}
    assert parse_assignments(()) == {}


@pytest.mark.parametrize("item", ["", "NAME", "=value", "="])
def test_what_is_no_assignment_is_refused(item: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        parse_assignments((item,))


def test_the_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_cwd(None) == str(tmp_path)
    assert find_cwd("sub") == str(tmp_path / "sub")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_cwd("~/sub") == str(tmp_path / "sub")


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not a directory"):
        find_cwd(str(tmp_path / "file"))
    with pytest.raises(UsageError, match="does not exist"):
        find_cwd(str(tmp_path / "missing"))


def test_a_current_directory_that_is_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="no longer exists"):
        find_cwd(None)


def program(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def test_a_command_is_found_in_the_callers_path(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    assert find_executable("tool", "/", {"PATH": f"/nowhere:{tmp_path}/bin"}) == str(tool)
    assert find_executable(str(tool), "/", {}) == str(tool)


def test_a_command_with_a_slash_is_found_from_the_sessions_directory(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "tool")
    assert os.path.samefile(find_executable("./bin/tool", str(tmp_path), {}), tmp_path / "bin" / "tool")


def test_a_relative_path_entry_counts_from_the_sessions_directory(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "tool")
    assert os.path.samefile(find_executable("tool", str(tmp_path), {"PATH": "bin"}), tmp_path / "bin" / "tool")


def test_a_command_that_cannot_run_is_refused(tmp_path: Path) -> None:
    program(tmp_path / "plain", mode=0o644)
    for command, problem in [
        ("nosuchtool", "not found in your PATH"),
        ("", "not found in your PATH"),
        ("./missing", "does not exist"),
        ("./", "is a directory"),
        ("./plain", "not executable"),
    ]:
        with pytest.raises(UsageError, match=problem):
            find_executable(command, str(tmp_path), {"PATH": str(tmp_path)})


def test_asking_for_the_umask_leaves_it(tmp_path: Path) -> None:
    before = umask()
    assert umask() == before
    (tmp_path / "file").touch()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~before


def test_limits_are_soft_and_hard_by_name() -> None:
    assert {"RLIMIT_NOFILE", "RLIMIT_CORE", "RLIMIT_STACK"} <= limits().keys()
    assert all(len(pair) == 2 for pair in limits().values())
