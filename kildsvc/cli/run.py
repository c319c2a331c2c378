"""One call of the program, from its words to its exit code. Failures are caught here, once, and told in one line."""

import os
import sys

from kildsvc.cli import direct, render
from kildsvc.errors import KildError, OurMistake

# Commands that pass on the agent's exit code mark failures of our own with this, as `docker run` does.
_OWN_FAILURE = 125
_PASS_EXIT_CODE = ("attach", "wait", "run")


def run(arguments: list[str]) -> int:
    """Nothing but one line reaches the user when it fails."""
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = "--json" in ours
    own_failure = _OWN_FAILURE if ours[:1] and ours[0] in _PASS_EXIT_CODE else None
    try:
        if act := direct.find(arguments):
            code = act()
        else:
            from kildsvc.cli.main import parse_and_run  # not above: it brings click along

            code = parse_and_run(arguments)
        sys.stdout.flush()
        return code
    except KildError as error:
        render.error(error, as_json)
        return own_failure or error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone; at exit Python would try to flush, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        render.error(KildError(f"{error.strerror}: '{error.filename}'" if error.filename else str(error)), as_json)
        return own_failure or 1
    except Exception as error:
        if os.environ.get("KILDSVC_DEBUG"):
            raise
        render.error(_our_mistake(error), as_json)
        return own_failure or 1


def _our_mistake(error: Exception) -> OurMistake:
    at = error.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "?"
    what = " ".join(f"{type(error).__name__} {error}".split())
    return OurMistake(f"a mistake of kildsvc's own: {what}, at {where}", "KILDSVC_DEBUG=1 shows how it came to that")
