import gc
import os
import sys


def main() -> None:
    # A short command makes no garbage worth looking for: 3 ms. A long one is still cleaned up after.
    gc.set_threshold(50_000)
    for stream in ("stdout", "stderr"):
        if not getattr(sys, stream):  # closed by the caller
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    try:
        from kildsvc.cli.main import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before anything was begun
        code = 130
    # Nothing is left to be done, and the interpreter would take 8 ms to take itself apart.
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except OSError:
            pass  # told of already, or nobody is there to be told
    os._exit(code)


if __name__ == "__main__":
    main()
