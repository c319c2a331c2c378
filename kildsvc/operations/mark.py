"""What an agent says of itself through its hooks: working, waiting for someone, done."""

import json
import time
from dataclasses import asdict

from kildsvc import activity, model, paths, store
from kildsvc.errors import NoSuchSession, NotRunning, UsageError
from kildsvc.model import Mark
from kildsvc.shim.journal import Journal

# A journald that does not take the news is not waited for.
JOURNAL_SEC = 1.0
TEXT_MAX = 500


def mark(name: str, state: str, text: str) -> Mark:
    """Quick enough for a hook: asks neither systemd nor the shim."""
    model.check_name(name)
    if state not in activity.MARKS:
        raise UsageError(f"'{state}' is none of {', '.join(activity.MARKS)}")
    directory = paths.runtime_dir(name)
    run, _ = activity.read_run(directory)
    metadata = store.load(name)
    if not run and not metadata:
        raise NoSuchSession(f"there is no session '{name}'", "'kildsvc list' shows what there is")
    if not run or (directory / "closed").exists():  # what the reaper leaves of a run that is over
        raise NotRunning(f"session '{name}' is not running")
    made = Mark(state, " ".join(text.split())[:TEXT_MAX], time.time())
    store.write_atomically(directory / "mark", json.dumps(asdict(made)))
    message = f"{made.state}: {made.text}" if made.text else made.state
    tell("mark", message, name, run, metadata.agent if metadata else "", KILD_MARK=state)
    return made


def tell(event: str, message: str, name: str, run: str, agent: str, **fields: str) -> None:
    """An event that does not come from the shim."""
    journal = Journal({"USER_UNIT": model.unit_of(name), "KILD_SESSION": name, "KILD_RUN": run, "KILD_AGENT": agent})
    journal.event(event, message, 6, **fields)
    journal.settle_until(time.monotonic() + JOURNAL_SEC)
    journal.close()
