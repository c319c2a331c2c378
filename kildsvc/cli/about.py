"""note, label, rename."""

import click

from kildsvc.cli import offers, render
from kildsvc.cli.options import json_option


@click.command("note")
@click.argument("name", shell_complete=offers.any_session)
@click.argument("text", nargs=-1, metavar="[TEXT]")
@json_option
def note_command(name: str, text: tuple[str, ...], as_json: bool) -> int:
    """Set the note of session NAME, which status and list show; '' clears it. Without TEXT, print it."""
    from kildsvc import api

    found = api.note(name, " ".join(text) if text else None)
    if as_json:
        render.document({"name": name, "note": found})
    elif not text and found:
        render.say(found)
    return 0


@click.command("label")
@click.argument("name", shell_complete=offers.any_session)
@click.argument("changes", nargs=-1, metavar="[KEY=VALUE | KEY-]…")
@json_option
def label_command(name: str, changes: tuple[str, ...], as_json: bool) -> int:
    """Set labels of session NAME, or with KEY- remove one. Without any, print them."""
    from kildsvc import api
    from kildsvc.model import parse_labels

    removed = tuple(item for item in changes if item.endswith("-") and "=" not in item)
    labels = parse_labels(tuple(item for item in changes if item not in removed))
    found = api.label(name, labels, [item[:-1] for item in removed])
    if as_json:
        render.document({"name": name, "labels": found})
    elif not changes:
        for key, value in found.items():
            render.say(f"{key}={value}")
    return 0


@click.command("rename")
@click.argument("name", shell_complete=offers.ended)
@click.argument("new")
@json_option
def rename_command(name: str, new: str, as_json: bool) -> int:
    """Give the ended session NAME the name NEW."""
    from kildsvc import api

    session = api.rename(name, new)
    if as_json:
        render.document(session.to_json())
    else:
        render.say(f"{name}: is now {new}")
    return 0
