"""completion, and the answers to the scripts it prints."""

import signal
from pathlib import Path

import click

from kildsvc.cli import render

SHELLS = ("bash", "zsh", "fish")
# Whoever has pressed TAB waits: for a manager that hangs, no longer than this.
PATIENCE_SEC = 2.0


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> int:
    """Print the completion script for a shell.

    To try it: `source <(kildsvc completion bash)`. For good, bash finds it as
    ~/.local/share/bash-completion/completions/kildsvc, fish as ~/.config/fish/completions/kildsvc.fish, and zsh as
    _kildsvc in a directory of its fpath. The Debian package brings it along.
    """
    render.say(Path(__file__).with_name(f"completion.{shell}").read_text().rstrip("\n"))
    return 0


def answer(group: click.Group, arguments: list[str]) -> None:
    """For the scripts: the index of the word at the cursor, and all words; a line for each thing it can become."""
    from click.shell_completion import ShellComplete

    # Dies of it, silently: the manager is asked by C code, which nothing else interrupts.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SEC)
    try:
        at, words = int(arguments[0]), arguments[1:]
        incomplete = words[at] if at < len(words) else ""
        before = [word for word in words[1:at] if word != "="]  # bash makes three words of --option=value
        for item in ShellComplete(group, {}, "kildsvc", "").get_completions(before, incomplete):
            about = " ".join(render.one_line(item.help or "").split())
            render.say(f"{item.type}\t{item.value}\t{about}")
    except Exception:
        pass  # whatever it is: somebody is in the middle of a line, and is told when it is run
