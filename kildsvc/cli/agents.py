"""agents."""

from dataclasses import asdict

import click

from kildsvc.cli import looks, render
from kildsvc.cli.options import json_option


@click.command("agents")
@json_option
def agents_command(as_json: bool) -> int:
    """List the agents: where each is found, its version, and what it can do."""
    from kildsvc.operations.agent import installed

    found = installed()
    if as_json:
        render.document([asdict(one) for one in found])
    else:
        looks.agents(found)
    return 0
