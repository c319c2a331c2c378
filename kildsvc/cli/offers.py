"""What arguments and options can be completed to. Each is a click `shell_complete`: (ctx, param, incomplete)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kildsvc.cli.render import home_short

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from kildsvc.operations.offer import Known

    Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _sessions(fits: Callable[[Known], bool]) -> Offer:
    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kildsvc.operations.offer import sessions

        given = ctx.params.get(param.name or "") or ()
        found = (one for one in sessions() if fits(one) and one.name not in given)
        return _items(incomplete, ((one.name, about(one)) for one in found))

    return offer


def about(one: Known) -> str:
    """A session in one line."""
    state = "running" if one.alive else "ended"
    if not one.metadata:
        return state
    note = f", {one.metadata.note}" if one.metadata.note else ""
    return f"{state}: {one.metadata.agent} in {home_short(one.metadata.cwd)}{note}"


def _words(ask: Callable[[Any, click.Context], Iterable[str]]) -> Offer:
    def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from kildsvc.operations import offer as known

        return _items(incomplete, ((word, "") for word in ask(known, ctx)))

    return offer


def _items(incomplete: str, found: Iterable[tuple[str, str]]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(word, help=about) for word, about in found if word.startswith(incomplete)]


any_session = _sessions(lambda one: True)
alive = _sessions(lambda one: one.alive)
ended = _sessions(lambda one: not one.alive)
with_worktree = _sessions(lambda one: bool(one.metadata and one.metadata.worktree))
agents = _words(lambda known, ctx: known.agents())
profiles = _words(lambda known, ctx: known.profiles())
sandboxes = _words(lambda known, ctx: known.sandboxes())
branches = _words(lambda known, ctx: known.branches(ctx.params.get("repo")))


def marks(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """NAME and then a state; inside a session the name may be left out."""
    from kildsvc.activity import MARKS

    given = ctx.params.get(param.name or "") or ()
    if given:
        return _items(incomplete, ((mark, "") for mark in MARKS)) if len(given) == 1 else []
    return alive(ctx, param, incomplete)


def directory(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _kind("dir", incomplete)


def file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _kind("file", incomplete)


def command(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A program, then files for it."""
    return _kind("file" if ctx.params.get(param.name or "") else "command", incomplete)


def _kind(kind: str, incomplete: str) -> list[CompletionItem]:
    """The shell knows these itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, kind)]
