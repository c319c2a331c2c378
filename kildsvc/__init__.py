"""AI coding agents as systemd user services. What there is to call is described in kildsvc.api."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kildsvc.api import (
        Event,
        Handle,
        KildError,
        Mark,
        NoSuchSession,
        NotRunning,
        Session,
        UsageError,
        Waited,
        create,
        destroy,
        events,
        label,
        limit,
        mark,
        note,
        open,
        pause,
        rename,
        sessions,
        status,
        stop,
        unpause,
        wait,
        wait_async,
    )

__all__ = [
    "Event",
    "Handle",
    "KildError",
    "Mark",
    "NoSuchSession",
    "NotRunning",
    "Session",
    "UsageError",
    "Waited",
    "create",
    "destroy",
    "events",
    "label",
    "limit",
    "mark",
    "note",
    "open",
    "pause",
    "rename",
    "sessions",
    "status",
    "stop",
    "unpause",
    "wait",
    "wait_async",
]


def __getattr__(name: str) -> object:
    # Loaded at first use: the command line must not pay for it, and the shim's copy of the package has none of it.
    if name not in __all__:
        raise AttributeError(f"module 'kildsvc' has no attribute '{name}'")
    import kildsvc.api

    return getattr(kildsvc.api, name)
