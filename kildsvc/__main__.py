import gc
import os
import sys


def main() -> None:
    # A short command makes no garbage worth looking for: 3 ms. A long one is still cleaned up after.
    gc.set_threshold(50_000)
    from kildsvc.cli.main import run

    code = run(sys.argv[1:])
    # Nothing is left to be done, and the interpreter would take 8 ms to take itself apart.
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
