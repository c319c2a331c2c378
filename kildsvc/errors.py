"""What can go wrong, as the user is told it. `code` and `exit_code` are stable: scripts key on them."""


class KildError(Exception):
    code = "FAILURE"
    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class OurMistake(KildError):
    code = "OUR_MISTAKE"


class UsageError(KildError):
    code = "USAGE"
    exit_code = 2


class AlreadyRunning(KildError):
    code = "ALREADY_RUNNING"


class NameInUse(KildError):
    code = "NAME_IN_USE"


class AlreadyExists(KildError):
    code = "ALREADY_EXISTS"


class WouldLose(KildError):
    code = "WOULD_LOSE_WORK"


class Uncommitted(KildError):
    code = "UNCOMMITTED"


class InUse(KildError):
    code = "IN_USE"


class Conflict(KildError):
    code = "CONFLICT"


class SetupFailed(KildError):
    code = "SETUP_FAILED"


class Busy(KildError):
    code = "BUSY"


class NotRunning(KildError):
    code = "NOT_RUNNING"
    exit_code = 3


class NoEffect(KildError):
    code = "NO_EFFECT"


class Paused(KildError):
    code = "PAUSED"

    def __init__(self, name: str) -> None:
        super().__init__(f"session '{name}' is paused", f"kildsvc unpause {name}")


class NoSuchSession(KildError):
    code = "NO_SUCH_SESSION"
    exit_code = 4


class AgentExitedEarly(KildError):
    code = "AGENT_EXITED_EARLY"
    exit_code = 5

    def __init__(self, message: str, hint: str = "", output: str = "", exit_code: int | None = None) -> None:
        super().__init__(message, hint)
        self.output = output  # its last lines, cleaned
        self.agent_exit_code = exit_code


class StoppedWhileStarting(KildError):
    code = "STOPPED_WHILE_STARTING"
    exit_code = 5


class NoManager(KildError):
    code = "NO_MANAGER"
    exit_code = 6


class JournalUnreadable(KildError):
    code = "JOURNAL_UNREADABLE"
