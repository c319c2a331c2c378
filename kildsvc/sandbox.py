"""Sandbox profiles: what a session may see, change and reach. Pure; what is on the disk is found in workspace.py."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kildsvc.errors import UsageError
from kildsvc.model import NO_SANDBOX


@dataclass(frozen=True)
class Profile:
    """What a sandbox lets through."""

    name: str
    network: bool = True
    home: bool = True  # what lies in home directories can be read; otherwise they are empty
    read: tuple[str, ...] = ()  # can be read also where home directories are empty
    write: tuple[str, ...] = ()  # beside the workspace, the agent's own state and a /tmp of its own
    hide: tuple[str, ...] = ()


# Package managers cannot work without these. They hold what can be fetched again, and are run from like the
# workspace itself: who does not trust what an agent left there does not trust its work either.
_CACHES = (
    "~/.cache",
    "~/.npm",
    "~/.cargo/registry",
    "~/.cargo/git",
    "~/go/pkg",
    "~/.m2/repository",
    "~/.gradle/caches",
    "~/.local/share/pnpm",
)
# Tools that people install in their home directory, and git's settings; none of them holds credentials.
_TOOLS = (
    "~/.gitconfig",
    "~/.config/git/config",
    "~/.config/git/ignore",
    "~/.config/git/attributes",
    "~/.nvm",
    "~/.volta",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.pyenv",
    "~/.rbenv",
    "~/.asdf",
    "~/.sdkman/candidates",
    "~/.rustup",
    "~/.cargo/bin",
    "~/.local/bin",
    "~/.local/share/mise",
    "~/bin",
)
# Whoever talks to these acts outside: an X server, by its cookie; container daemons, and sessions of abduco. Those in
# /run and /tmp are hidden with all that is there.
_DAEMONS = (
    "~/.Xauthority",
    "~/.abduco",
    "~/.docker/desktop",
    "~/.docker/run",
    "~/.colima",
    "~/.lima",
    "/var/lib/incus",
    "/var/lib/lxd",
    "/var/snap/lxd",
)
# The journal holds what every other session printed.
_OTHERS = ("/var/log/journal", "/var/mail", "/var/spool", "/mnt", "/media")
BUILT_IN = {
    "workspace": Profile("workspace", write=_CACHES, hide=_DAEMONS),
    "strict": Profile("strict", network=False, home=False, read=_TOOLS, hide=_DAEMONS + _OTHERS),
}


def find_profile(name: str, tables: Mapping[str, Mapping[str, Any]]) -> Profile | None:
    """A profile by its name, built in, extended or made by the user's own settings; None for 'off'."""
    if name == NO_SANDBOX:
        return None
    return replace(_find(name, tables, ()), name=name)


def _find(name: str, tables: Mapping[str, Mapping[str, Any]], above: tuple[str, ...]) -> Profile:
    table = tables.get(name, {})
    base = table.get("base", None if name in BUILT_IN else "workspace")
    if name not in BUILT_IN and name not in tables:
        known = ", ".join([*BUILT_IN, *sorted(set(tables) - set(BUILT_IN)), NO_SANDBOX])
        raise UsageError(f"there is no sandbox '{name}'", f"there are {known}")
    if base is not None and base in (NO_SANDBOX, name, *above):
        raise UsageError(f"sandbox '{name}' cannot be based on '{base}'", "base it on workspace or strict")
    profile = BUILT_IN[name] if base is None else _find(base, tables, (*above, name))
    return replace(
        profile,
        network=table.get("network", profile.network),
        read=(*profile.read, *table.get("read", ())),
        write=(*profile.write, *table.get("write", ())),
        hide=(*profile.hide, *table.get("hide", ())),
    )


@dataclass(frozen=True)
class AgentState:
    """What an agent keeps in the home directory."""

    directories: tuple[str, ...]
    files: tuple[str, ...] = ()
    # Settings that name programs to run (hooks, servers, plugins), also in runs outside any sandbox. Read-only where
    # they exist; a file that is rewritten outside meanwhile loses its mount, and with it the protection.
    settings: tuple[str, ...] = ()


AGENTS = {
    "claude": AgentState(
        ("~/.claude", "~/.config/claude"),
        # Rewritten by renaming another file over it, which a mount forbids: claude then writes it in place.
        ("~/.claude.json",),
        ("~/.claude/settings.json", "~/.claude/settings.local.json", "~/.claude/hooks", "~/.claude/plugins"),
    ),
    "codex": AgentState(("~/.codex",), (), ("~/.codex/config.toml", "~/.codex/hooks.json")),
    "gemini": AgentState(("~/.gemini",), (), ("~/.gemini/settings.json", "~/.gemini/extensions")),
    "opencode": AgentState(
        ("~/.local/share/opencode", "~/.local/state/opencode", "~/.config/opencode", "~/.cache/opencode"),
        (),
        (
            "~/.config/opencode/opencode.json",
            "~/.config/opencode/opencode.jsonc",
            "~/.config/opencode/plugin",
            "~/.config/opencode/plugins",
        ),
    ),
    "amp": AgentState(("~/.config/amp", "~/.local/share/amp"), (), ("~/.config/amp/settings.json",)),
    "kiro": AgentState(
        ("~/.kiro", "~/.local/share/kiro-cli"), (), ("~/.kiro/settings", "~/.kiro/agents", "~/.kiro/hooks")
    ),
}


@dataclass(frozen=True)
class Places:
    """A profile applied to one session: what is where. Every path is absolute and without symbolic links."""

    home: str
    runtime: str  # XDG_RUNTIME_DIR
    session: str  # our own directory in it
    run: str
    output: str  # where the shim leaves the last output
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()  # read-only inside of what can be written
    empty: tuple[str, ...] = ()  # directories shown as empty
    hide: tuple[str, ...] = ()  # files nobody can open
    homes: tuple[str, ...] = ()  # where home directories are
    links: tuple[tuple[str, str], ...] = ()  # other names of places: (place, name)


# A sandboxed session finds none of these: whoever reaches them starts processes outside of it.
SYSTEM_BUS = "/run/dbus/system_bus_socket"


def expectations(profile: Profile, places: Places, namespaces: Mapping[str, str]) -> dict[str, Any]:
    """What the shim must find true before it starts the agent; `namespaces` are the ones outside."""
    kinds = ("user", "mnt") if profile.network else ("user", "mnt", "net")
    absent = [f"{places.runtime}/bus", f"{places.runtime}/systemd/private", SYSTEM_BUS]
    readonly = ["/", "/sys/fs/cgroup", f"{places.session}/{places.run}.shim", *places.keep]
    if profile.home:
        readonly.append(places.home)
    else:
        shown = (*places.read, *places.write, places.output, *(name for _, name in places.links))
        secrets = [f"{places.home}/{name}" for name in (".ssh", ".gnupg", ".aws", ".config", ".local/share/keyrings")]
        absent += [path for path in secrets if not any(one == path or one.startswith(f"{path}/") for one in shown)]
    return {
        "profile": profile.name,
        "outside": {kind: namespaces[kind] for kind in kinds},
        "absent": absent,
        "readonly": readonly,
    }
