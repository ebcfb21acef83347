"""Type checkers and linters: command lines and output parsers.

They parse a program and do not execute it. Each runs with an empty environment in its own folder, at low priority, with
limits on time, memory and output; otherwise it has the rights of the lab's user.
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
"""Wall-clock limit of one tool on one program, without the wait for a free core."""
MEMORY = 2 << 30
PRINTED = 1 << 20
NICE = 10
"""Lower priority than tests, which get nine times the CPU share of a tool on a busy machine."""
FREE_CORES: queue.LifoQueue[int] = queue.LifoQueue()
"""Numbers of idle cores; the last used comes first because its mypy cache is warm."""
FREE_CORES.queue.extend(range(os.cpu_count() or 1))
MAKING = threading.Lock()
"""Without the lock two threads would create two environments, one of which is removed at once."""

Finding = tuple[int, str, str]
"""Line, 1-based; rule; message."""


class DidNotRun(Exception):
    """A tool gave no valid findings; the message is the reason."""


class Tool(NamedTuple):
    kind: str
    """`type` or `lint`, as in `Check.kind`."""
    arguments: str
    """With the fields `{file}`, `{version}`, `{digits}` (the version without its dot), `{env}` (a Python environment
    without packages, like the sandbox's) and `{cache}` (a folder for one process at a time)."""
    read: Callable[[str], list[Finding]]
    """Parses the errors from the output; any exception means that the output is invalid."""
    codes: tuple[int, ...] = (0, 1)
    """Exit codes of a completed run; 0 means no errors."""


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
        arguments="check --exit-zero-on-warning --output-format=gitlab --no-progress --python={env} "
        "--python-version={version} {file}",
        read=_ty,
    ),
    "mypy": Tool(
        kind="type",
        arguments="--config-file= --no-site-packages --output=json --no-error-summary --cache-dir={cache} "
        "--python-version={version} {file}",
        read=_mypy,
        codes=(0, 1, 2),  # 2 with findings is a syntax error
    ),
    # Not F401, unused imports: HumanEval's prompts import names that a solution need not use.
    "ruff": Tool(
        kind="lint",
        arguments="check --isolated --no-cache --output-format=json --select=E9,F --ignore=F401 "
        "--target-version=py{digits} -",
        read=_ruff,
    ),
}


@cache
def located(tool: str) -> str | None:
    """Path of the tool, next to this interpreter or on the PATH; None, with one warning, if it is missing."""
    here = Path(sys.executable).with_name(tool)
    path = str(here) if os.access(here, os.X_OK) else shutil.which(tool)
    if path is None:
        warnings.warn(
            f"{tool} is neither next to {sys.executable} nor on the PATH: evaluations leave it out. Install it with "
            f"`pip install {tool}` (the extra `static` has ty and ruff)",
            RuntimeWarning,
            stacklevel=2,
        )
    return path


def ask(tool: str, program: str) -> list[Finding]:
    """Errors that `tool` reports for `program`, by line. Thread-safe.

    Raises DidNotRun: the tool is missing, crashed, timed out, or printed invalid output.
    """
    try:
        with _core_with_cache() as cache:
            return _parsed(TOOLS[tool], *_run(tool, program, cache))
    except OSError as problem:
        raise DidNotRun(str(problem)) from problem


def _parsed(tool: Tool, code: int, printed: str, errors: str) -> list[Finding]:
    """The findings, if exit code and output agree."""
    try:
        findings = sorted(tool.read(printed))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise DidNotRun(f"exit code {code} without the expected JSON; {errors}") from None
    if code not in tool.codes or bool(code) != bool(findings):
        raise DidNotRun(f"exit code {code} with {len(findings)} errors; {errors}")
    return findings


@contextlib.contextmanager
def _core_with_cache() -> Iterator[str]:
    """Cache folder of a free core; removed after a failure, because a damaged cache would fail every later run.

    One folder per core, because two mypy processes that share a cache crash.
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
    """Exit code, standard output, and the start of standard error."""
    executable = located(tool)
    if executable is None:
        raise DidNotRun("it is not installed")
    text, env = program.encode(), str(Path(cache).parent)
    # A unique name per text: mypy's cache compares name, size and modification time in seconds.
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
        message = " ".join(errors.read(1000).decode(errors="replace").split())[:200]
    return code, printed.decode(errors="replace"), message or "it gave no reason"


def _watched(command: list[str], folder: str, source: IO[bytes], errors: IO[bytes]) -> tuple[int, bytes]:
    """Exit code and output. Kills a tool that takes too long or prints too much, and raises DidNotRun."""
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
    """Lower the priority and limit memory and CPU time, unless the lab's own limits are stricter."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, NICE)
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(process, resource.RLIMIT_AS, (MEMORY, MEMORY))
            # So that the tool ends even if the lab is killed. A limit of 0 seconds would end it at once.
            seconds = math.ceil(2 * SECONDS)
            resource.prlimit(process, resource.RLIMIT_CPU, (seconds, seconds))


@cache
def _environment() -> Scratch:
    """An empty Python environment until this process ends; it also holds the programs' folders and mypy's caches."""
    environment = Scratch()
    major, minor = sys.version_info[:2]
    (environment.path / "lib" / f"python{major}.{minor}" / "site-packages").mkdir(parents=True)
    (environment.path / "ty.toml").touch()  # hides configuration in parent folders
    return environment
