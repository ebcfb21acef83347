"""Type checkers and linters: their command lines and the parsing of their output.

They parse a program and never execute it. Each runs with an empty environment, in a folder of its own, at low priority,
with its time, memory and output bounded; nothing else holds it back from what the lab's user may do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from reflexion_lab.io.files import Scratch

SECONDS = 10.0
"""Wall time of one tool on one program; waiting for a free core does not count."""
MEMORY = 2 << 30
PRINTED = 1 << 20
NICE = 10
"""Tests go first: on a busy machine they get nine times the share of a tool."""
FREE_CORES: queue.LifoQueue[int] = queue.LifoQueue()
"""Numbers of the cores that no tool uses; the one used last comes first, since mypy's cache of it is warm."""
FREE_CORES.queue.extend(range(os.cpu_count() or 1))
MAKING = threading.Lock()
"""Two threads would make two environments, and the one that is not remembered goes at once."""

Finding = tuple[int, str, str]
"""Line, 1-based; rule; message."""


class DidNotRun(Exception):
    """A tool gave no valid findings; the message has the reason."""


class Tool(NamedTuple):
    """One tool's command line and its answer."""

    kind: str
    """`type` or `lint`, as in `Check.kind`."""
    arguments: str
    """`{file}`, `{version}`, `{env}`, a Python environment without packages as the sandbox's, and `{cache}`, a folder
    that no other process uses at the time, are filled in."""
    read: Callable[[str], list[Finding]]
    """Parse the errors from its output; any exception means that the output is invalid."""
    codes: tuple[int, ...] = (0, 1)
    """Exit codes of a run that came to its end; 0 means no errors."""


def _ruff(printed: str) -> list[Finding]:
    return [(row["location"]["row"], row["code"] or "syntax", row["message"]) for row in json.loads(printed)]


def _ty(printed: str) -> list[Finding]:
    errors = (row for row in json.loads(printed) if row["severity"] in ("major", "critical", "blocker"))
    return [
        (row["location"]["positions"]["begin"]["line"], rule, row["description"].removeprefix(f"{rule}: "))
        for row in errors
        for rule in [row["check_name"]]
    ]


def _mypy(printed: str) -> list[Finding]:
    rows = map(json.loads, printed.splitlines())
    return [(row["line"], row["code"] or "mypy", row["message"]) for row in rows if row["severity"] == "error"]


TOOLS = {
    "ty": Tool(
        kind="type",
        arguments="check --output-format=gitlab --no-progress --python={env} --python-version={version} {file}",
        read=_ty,
    ),
    "mypy": Tool(
        kind="type",
        arguments="--config-file= --no-site-packages --output=json --no-error-summary --cache-dir={cache} "
        "--python-version={version} {file}",
        read=_mypy,
        codes=(0, 1, 2),  # 2 with findings is a syntax error
    ),
    # Without F401, unused imports: the prompts of HumanEval import what a solution need not use.
    "ruff": Tool(
        kind="lint",
        arguments="check --isolated --no-cache --output-format=json --select=E9,F --ignore=F401 "
        "--target-version=py{digits} -",
        read=_ruff,
    ),
}


@cache
def located(tool: str) -> str | None:
    """Path of the tool: beside this interpreter, else on the PATH; None, after one warning, if it is missing."""
    here = Path(sys.executable).with_name(tool)
    path = str(here) if os.access(here, os.X_OK) else shutil.which(tool)
    if path is None:
        warnings.warn(
            f"{tool} was found neither beside {sys.executable} nor on the PATH, so its part of every evaluation is "
            f"left out; install it with `pip install {tool}` (ty and ruff come with the extra `static`)",
            RuntimeWarning,
            stacklevel=2,
        )
    return path


def ask(tool: str, program: str) -> list[Finding]:
    """The errors that `tool` finds in `program`, by line; called from any thread.

    Raises
    ------
    DidNotRun
        It is missing, crashed, timed out, or printed invalid output.
    """
    try:
        with _a_core_and_its_cache() as cache:
            return _believed(TOOLS[tool], *_run(tool, program, cache))
    except OSError as problem:
        raise DidNotRun(str(problem)) from problem


def _believed(tool: Tool, code: int, printed: str, complaint: str) -> list[Finding]:
    """The findings, where exit code and output agree."""
    try:
        findings = sorted(tool.read(printed))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise DidNotRun(f"exit code {code}, and no JSON as expected of it; {complaint}") from None
    if code not in tool.codes or bool(code) != bool(findings):
        raise DidNotRun(f"exit code {code} with {len(findings)} errors found; {complaint}")
    return findings


@contextlib.contextmanager
def _a_core_and_its_cache() -> Iterator[str]:
    """Waits for a free core; its cache goes when a tool failed on it, for a torn cache would fail every later run.

    mypy dies of an internal error where two of it fill one cache at the same time.
    """
    core = FREE_CORES.get()
    with MAKING:
        cache = _environment().path / f"cache_{core}"
    try:
        yield str(cache)
    except DidNotRun:
        shutil.rmtree(cache, ignore_errors=True)
        raise
    finally:
        FREE_CORES.put(core)


def _run(tool: str, program: str, cache: str) -> tuple[int, str, str]:
    """Exit code, standard output, and the beginning of standard error."""
    executable = located(tool)
    if executable is None:
        raise DidNotRun("it is not installed")
    text, env = program.encode(), str(Path(cache).parent)
    # A name of its own for each text: mypy's cache goes by name, size and second.
    name = f"program_{hashlib.sha256(text).hexdigest()[:16]}.py"
    major, minor = sys.version_info[:2]
    values = {"file": name, "env": env, "cache": cache, "version": f"{major}.{minor}", "digits": f"{major}{minor}"}
    command = [executable, *(argument.format(**values) for argument in TOOLS[tool].arguments.split())]
    with tempfile.TemporaryDirectory(dir=env) as folder, tempfile.TemporaryFile() as errors:
        path = Path(folder, name)
        path.write_bytes(text)
        with path.open("rb") as source:
            code, printed = _watched(command, folder, source, errors)
        errors.seek(0)
        complaint = " ".join(errors.read(1000).decode(errors="replace").split())[:200]
    return code, printed.decode(errors="replace"), complaint or "it gave no reason"


def _watched(command: list[str], folder: str, source: IO[bytes], errors: IO[bytes]) -> tuple[int, bytes]:
    """Exit code and output; a tool that takes too long or prints too much is killed, which is an error."""
    environment = {"HOME": folder, "PATH": os.defpath, "PYTHONUTF8": "1", "TY_MAX_PARALLELISM": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
    )
    killer, deadline = threading.Timer(SECONDS, process.kill), time.monotonic() + SECONDS
    killer.daemon = True
    with process:
        killer.start()
        _restrain(process.pid)
        assert process.stdout is not None
        printed = process.stdout.read(PRINTED)
        if len(printed) == PRINTED:
            process.kill()
        code = process.wait()
        killer.cancel()
    if len(printed) == PRINTED:
        raise DidNotRun(f"it printed more than {PRINTED} bytes")
    if code < 0:
        over = time.monotonic() >= deadline
        raise DidNotRun(f"it was ended after {SECONDS:g} seconds" if over else f"it was ended by signal {-code}")
    return code, printed


def _restrain(process: int) -> None:
    """Low priority and bounded memory, unless the lab itself runs under something stricter."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, NICE)
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(process, resource.RLIMIT_AS, (MEMORY, MEMORY))
            # The kernel ends it if the lab is killed. A limit of no second would end it at its first tick.
            most = math.ceil(2 * SECONDS)
            resource.prlimit(process, resource.RLIMIT_CPU, (most, most))


@cache
def _environment() -> Scratch:
    """An empty Python environment, removed when this process ends; folders of programs and mypy's cache live in it."""
    environment = Scratch()
    major, minor = sys.version_info[:2]
    (environment.path / "lib" / f"python{major}.{minor}" / "site-packages").mkdir(parents=True)
    (environment.path / "ty.toml").touch()  # no configuration from folders further up
    return environment
