"""What is being waited for: told by whoever waits, and shown where a person looks on."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Set by the command line at a terminal.
shown: Callable[[str], AbstractContextManager[None]] | None = None


def waiting_for(what: str) -> AbstractContextManager[None]:
    return shown(what) if shown else nullcontext()
