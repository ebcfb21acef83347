"""The command line. Heavy libraries are imported by the command that needs them; `--help` stays light."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from reflexion_lab.io.terminal import signals_handled
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.runner.config.messages import full_traceback, in_lines, is_user_error, one_safe_line

COMMANDS = (
    "run", "runs", "show", "demo", "audit", "track", "compare", "tree", "calibrate", "estimate", "optimize", "power",
    "study", "memory", "wisdom", "bundle", "export", "lint_dataset", "verify", "doctor", "completion",
)  # fmt: skip
"""Modules with commands, in the order of the help."""
BUG = """
This is a bug in reflexion_lab, or in your own code if the traceback names it. Finished results are saved.
To report it, send these lines, the command, and the output of `reflexion-lab doctor`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0; 2 after a user error, printed in one line; 3 at a reached cap; 4 if the model says
    nothing; 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not {"", str(Path.cwd())} & {*sys.path}:
        sys.path.append(str(Path.cwd()))  # for the user's own modules, as with `python -m`; last
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments[:1] == ["run"]:
        return guarded(lambda: import_module("reflexion_lab.cli.run").run(arguments[1:]))
    if arguments == ["--version"]:
        from reflexion_lab import __version__

        print(f"reflexion-lab {__version__}")
        return 0
    options = parser().parse_args(arguments)
    return guarded(lambda: options.command(options) or 0)


def parser() -> argparse.ArgumentParser:
    top: argparse.ArgumentParser = Arguments(
        prog="reflexion-lab", description="Measure whether a language model learns from its own words."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        import_module(f"reflexion_lab.cli.{name}").add(commands)
    return top


class Arguments(argparse.ArgumentParser):
    """Errors name the nearest choice, control characters escaped; options may stand between a command's words."""

    _is_between = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._subparsers or self._is_between:
            return super().parse_known_args(args, namespace)
        self._is_between = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_between = False

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message):
            near = difflib.get_close_matches(wrong[1], re.findall(r"'([^']*)'", wrong[2]), n=1)
            message += "".join(f"; did you mean {name!r}?" for name in near)
        super().error(visible(message))


def guarded(command: Callable[[], int]) -> int:
    """Exit code of a command. A user error is one line, an interrupt says how to resume; others have a traceback."""
    texts: set[str] = set()  # Python's own filter forgets what it showed after each `catch_warnings`

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := one_safe_line(str(message))) not in texts:
            print(f"warning: {text}", file=sys.stderr)
        texts.add(text)

    warnings.showwarning = show
    sys.excepthook = lambda _, problem, __: sys.stderr.write(full_traceback(problem) + BUG)
    with signals_handled():
        try:
            code = command()
            sys.stdout.flush()
            return code
        except KeyboardInterrupt as stop:
            how = "; ".join(getattr(stop, "__notes__", ())) or "what had finished is written"
            print(f"interrupted; {how}", file=sys.stderr)
            return getattr(stop, "code", 130)
        except BrokenPipeError:
            if _is_stdout_open():
                raise
            return 141  # as a program that SIGPIPE ends
        except Exception as problem:
            from reflexion_lab.errors import CapReached, SilentModel

            if isinstance(problem, SilentModel):
                print(f"silent model: {in_lines(problem)}", file=sys.stderr)
                return 4
            if isinstance(problem, CapReached):
                print(f"cap reached: {in_lines(problem)}", file=sys.stderr)
                return 3
            if not is_user_error(problem):
                raise
            print(f"error: {in_lines(problem)}", file=sys.stderr)
            return 2


def _is_stdout_open() -> bool:
    """Whether someone still reads the output; if not, it goes nowhere from now on."""
    try:
        print()  # an unbuffered output has nothing to flush
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
