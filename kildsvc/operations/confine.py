"""The sandbox of a session that is to be opened: which, and what it means here and now."""

from dataclasses import replace
from pathlib import Path

from kildsvc import sandbox, userns, workspace
from kildsvc.config import Config
from kildsvc.errors import UsageError
from kildsvc.launch import Launch
from kildsvc.model import NO_SANDBOX, Metadata
from kildsvc.systemd import sandbox as unit_sandbox
from kildsvc.systemd.properties import Property

# systemd's exit codes for a unit whose surroundings it could not make: user, network, mounts, system calls.
SET_UP_FAILED = (217, 225, 226, 228, 244)


def choose(asked: str | None, remembered: Metadata | None, agent: str, settings: Config) -> str:
    """As asked, else as this session had it before, else as the settings say for the agent or for all."""
    if asked:
        return asked
    if remembered and remembered.sandbox != NO_SANDBOX:
        return remembered.sandbox
    return settings.get("agents", agent, "sandbox") or settings.get("sandbox") or NO_SANDBOX


def confine(launch: Launch, metadata: Metadata, settings: Config, directory: Path) -> tuple[Launch, list[Property]]:
    """The launch with what its shim must check, and the unit's properties. Raises NoSandbox, UsageError."""
    tables = {name: settings.table("sandboxes", name) for name in settings.names("sandboxes")}
    profile = sandbox.find_profile(metadata.sandbox, tables)
    if not profile:
        if metadata.write:
            raise UsageError("--write says what a sandbox lets through: there is none", "give --sandbox=workspace")
        return launch, []
    userns.require()
    places = workspace.arrange(profile, launch, directory, metadata.write)
    expected = sandbox.expectations(profile, places, userns.current())
    # A directory for temporary files that was made for the caller is not there inside.
    env = {key: value for key, value in launch.env.items() if key not in ("TMPDIR", "TMP", "TEMP")}
    return replace(launch, sandbox=expected, env=env), unit_sandbox.sandbox(profile, places)
