"""Overrides from Python values, classes and objects, and one-line errors about them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.errors import CapReached, ConfigError
from reflexion_lab.io.files import replace
from reflexion_lab.records import Task
from reflexion_lab.runner import objects
from reflexion_lab.runner.config.build import METHODS, unknown
from reflexion_lab.runner.config.compose import compose, conf_version, set_without
from reflexion_lab.runner.config.grid import lines
from reflexion_lab.runner.config.messages import is_user_error, one_line
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

Override = str | Mapping[str, Any] | Sequence[str]
"""An override as on the command line, a list of them, or a mapping of keys to values."""

KEYS = ("experiment", "only", "preset", "resume", "run_root", "seed", "workers")
"""Config keys and groups of plain values, which may be keywords beside parts."""
SEVERAL = re.compile(r"(.*: got several values, expected one); `-m` sweeps over them")


def as_lines(overrides: Sequence[Override]) -> list[str]:
    """Overrides as `reflexion-lab run` takes them. Raises TypeError: one is neither string, mapping nor list."""
    return [line for override in overrides for line in _lines(override)]


def with_objects(overrides: Sequence[Override], parts: Mapping[str, object]) -> list[str]:
    """Overrides with `parts` among them: classes, objects or names of choices by config group, a `benchmark`, `KEYS`.

    Tasks in memory are written below the run root, where a run that is resumed or replayed finds them. Raises
    ConfigError: no such group.
    """
    lines = as_lines(overrides)
    for group, part in parts.items():
        if group in KEYS:
            lines += as_lines([{group: getattr(part, "path", part)}])  # of a `Run`, its folder
            continue
        if group not in (groups := (*METHODS, "reviser", "benchmark")):
            raise unknown(group, groups)
        if isinstance(part, str | Path):
            lines.append(f"{group}={part}")
        elif group == "benchmark":
            path = _kept_tasks(part, lines)
            lines += ["benchmark=jsonl", *as_lines([{"benchmark.load.path": path}])]
        else:
            for line in lines:
                if line.startswith(f"{group}."):
                    got = f"a value beside {group}={getattr(part, '__name__', type(part).__name__)}"
                    hint = f"give it its values yourself, or to its constructor with '+{line}'"
                    raise ConfigError(line.partition("=")[0], got, "none: a part of your own replaces the group", hint)
            sets = [line for line in lines if re.match(r"(experiment|preset)=[^,]*$|hydra\.searchpath=", line)]
            version = object() if any(line.startswith("hydra") for line in sets) else conf_version()
            left = [f"~{group}.{key}" for key in set_without(version, (group,), *sets).get(group, ())]
            lines += [f"~{group}", *left, f"+{group}._target_={objects.register(part)}"]
    return lines


def _kept_tasks(tasks: object, lines: Sequence[str]) -> Path:
    """The file of tasks, named by a digest of its content.

    Raises ConfigError: they are no list of tasks, nor a `Benchmark`.
    """
    if not isinstance(tasks, list | tuple | Benchmark) or not all(isinstance(task, dict | Task) for task in tasks):
        expected = "a list of tasks: `Task` or mappings of its fields (of a DataFrame: df.to_dict('records'))"
        raise ConfigError("benchmark", type(tasks).__name__, expected)
    rows = [msgspec.json.encode(task) + b"\n" for task in tasks]
    name = f"{getattr(tasks, 'name', 'tasks')}-{hashlib.sha256(b''.join(rows)).hexdigest()[:8]}.jsonl"
    run_root = compose(*(line for line in lines if line.startswith("run_root="))).run_root
    path = Path(run_root, "benchmarks", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, rows)
    return path


@contextmanager
def one_line_errors(applies: Callable[[Exception], bool] = is_user_error) -> Iterator[None]:
    """Raise errors for which `applies`, except CapReached, as a one-line ConfigError without Hydra's traceback."""
    try:
        yield
    except CapReached:
        raise
    except Exception as problem:
        if not applies(problem):
            raise
        message = one_line(problem, "`rl.compose()` shows all keys")
        raise ConfigError(SEVERAL.sub(r"\1; `rl.sweep` sweeps over them", message)) from None


def _lines(override: Override) -> list[str]:
    if isinstance(override, str):
        return [override]
    if isinstance(override, Mapping) and not type(override).__module__.startswith("omegaconf"):
        return lines(dict(override))
    if isinstance(override, list | tuple) and all(isinstance(line, str) for line in override):
        return list(override)
    expected = "expected words such as 'seed=1', mappings such as {'seed': 1}, or lists of words"
    raise TypeError(f"overrides: got {type(override).__name__}, {expected}")
