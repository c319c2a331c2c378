import gc
import os
import sys
from _thread import RLock
from importlib import import_module
from types import ModuleType
from typing import Any

# What is imported and hardly ever used, 15 ms in all: by dataclasses for classes without a docstring, by pystemd to
# run programs, by urllib.parse (and so pathlib) for addresses in brackets, by shutil for archives; two by us.
LATER = ("inspect", "uuid", "ipaddress", "bz2", "lzma", "difflib", "subprocess")
_LOADING = RLock()  # several threads may use one for the first time


class Later(ModuleType):
    """Stands for a module until something in it is used. importlib's own LazyLoader loads it when it is imported
    a second time, up to Python 3.12."""

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
                vars(self).update(vars(import_module(self.__name__)))
        return getattr(sys.modules[self.__name__], name)


def main() -> None:
    # A short command makes no garbage worth looking for: 3 ms. A long one is still cleaned up after.
    gc.set_threshold(50_000)
    for name in LATER:
        sys.modules.setdefault(name, Later(name))
    for stream in ("stdout", "stderr"):
        if not getattr(sys, stream):  # closed by the caller
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    try:
        from kildsvc.cli.run import run

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
