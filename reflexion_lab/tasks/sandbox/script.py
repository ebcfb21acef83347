"""Runs a program that reads standard input as a fresh Python would. Standard library only.

Its descriptors 0, 1 and 2 are files: the input, its output and its errors. What differs from a fresh interpreter: equal
programs draw equal random numbers, `os.environ` is empty, and the module has no file.
"""

import _thread
import atexit
import builtins
import io
import sys
import types
from _sitebuiltins import Quitter
from typing import Any


def run(program: str) -> int:
    """Execute the program as `__main__` and return its exit code, after its threads and its exit functions."""
    if "random" in program:  # so that equal programs draw equal numbers
        import random

        random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    for private in ("lockdown", "seccomp", "child", "plain", "standin", "comparison", "semaphores", "script"):
        sys.modules.pop(private, None)
    sys.argv = ["program.py"]
    names: dict[str, Any] = vars(module)
    names |= {"__builtins__": builtins, "__file__": sys.argv[0]}
    for name in ("exit", "quit"):
        setattr(builtins, name, Quitter(name, "end of file"))
    stream("stdin", io.BufferedReader(io.FileIO(0, "r", closefd=False)), "surrogateescape")
    stream("stdout", io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "surrogateescape")
    stream("stderr", io.BufferedWriter(io.FileIO(2, "w", closefd=False)), "backslashreplace")
    _thread.stack_size(0)
    below, frame = 4, sys._getframe()  # as many calls as in a fresh Python: not ours, nor `ended`, its call and `exec`
    while frame := frame.f_back:  # type: ignore[assignment]
        below += 1
    sys.setrecursionlimit(sys.getrecursionlimit() + below)
    code = ended(lambda: exec(compile(program, "<candidate>", "exec", dont_inherit=True), names))
    threading: Any = sys.modules.get("threading")
    code = max(code, ended(threading._shutdown)) if threading else code
    ended(atexit._run_exitfuncs)
    kept: list[Any] = [getattr(sys, name, None) for name in ("stdout", "__stdout__", "stderr")]
    names.clear()  # files that it left open write what they hold
    return max(code, *map(ended, [each.flush for each in kept if not getattr(each, "closed", True)]), 0)


def stream(name: str, raw: Any, errors: str) -> None:
    """Replace a standard stream by one over its descriptor."""
    text = io.TextIOWrapper(raw, "utf-8", errors, "\n", line_buffering=name == "stderr")
    setattr(sys, name, text)
    setattr(sys, f"__{name}__", text)


def ended(act: Any) -> int:
    """The exit code that `act` means to the program's process; prints an exception as Python does."""
    try:
        act()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as problem:
        trace = problem.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(problem), problem.with_traceback(trace), trace)
        return 1
    return 0
