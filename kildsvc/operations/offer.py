"""What a person who presses TAB may mean: asked now, like everything else. Each loads what it asks, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kildsvc.model import Metadata


class Known(NamedTuple):
    """A session, as far as one needs to know to choose it."""

    name: str
    alive: bool
    metadata: Metadata | None


def sessions() -> list[Known]:
    """All of them, by name. Raises KildError."""
    from kildsvc import store
    from kildsvc.model import name_of
    from kildsvc.systemd.manager import Manager

    with Manager() as manager:
        known = store.load_all()
        alive = {
            name_of(unit): active not in ("inactive", "failed")
            for unit, load, active in manager.units("kild-*.service")
            if load == "loaded"
        }
    return [Known(name, alive.get(name, False), known.get(name)) for name in sorted({*known, *alive})]


def agents() -> list[str]:
    from kildsvc import config

    return config.load().agents()


def profiles() -> list[str]:
    from kildsvc import config

    return config.load().names("profiles")


def sandboxes() -> list[str]:
    from kildsvc import config, sandbox
    from kildsvc.model import NO_SANDBOX

    return list(dict.fromkeys([*sandbox.BUILT_IN, NO_SANDBOX, *config.load().names("sandboxes")]))


def branches(repo: str | None) -> list[str]:
    from kildsvc import git

    return git.branches(repo or ".")
