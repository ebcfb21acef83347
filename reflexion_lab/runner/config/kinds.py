"""Whether the parts of a run can do its tasks: known before anything runs, from the tasks' `kind`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.runner.config.build import capability, takes
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.tasks.sandbox.packages import packages
from reflexion_lab.text.shorten import number_of


def check_kinds(cfg: RunConfig, tasks: Iterable[Task]) -> None:
    """Raises ConfigError: a part of the lab has no form for a task of this kind. A part that declares no `kinds`, such
    as a class of yours, does all of them. Or a task needs a package that is not installed, without `keep_failing`.
    """
    _check_installed(cfg, tasks := tuple(tasks))
    _check_environment(cfg, tasks)
    by_kind = {task.kind: task.task_id for task in tasks}
    nodes = [*_nodes("actor", cfg.actor), *_nodes("evaluator", cfg.evaluator)]
    nodes += _nodes("reviser", cfg.reviser) if takes("actor", cfg.actor, "reviser") else []
    for key, node in nodes:
        kinds = ("function",) if node.get("style") == "continuation" else capability(node, "kinds", None)
        for kind, task_id in by_kind.items():
            if kinds is not None and kind not in kinds:
                name = str(node["_target_"]).rpartition(".")[2] + f", style {node.get('style')}" * ("style" in node)
                hint = "for a critique: actor@actor.generator=single_shot reviser=llm" if "." in key else ""
                actor = "play" if kind == "actions" else "single_shot"
                choice = "evaluator=unit_tests" if key.startswith("evaluator") else f"actor={actor}"
                expected = f"one for tasks of the kind `{kind}`, such as {task_id}: {choice}"
                raise ConfigError(key, f"{name}, for {' and '.join(kinds)} tasks", expected, hint)
    if cfg.feedback_source == "self_tests" and (others := by_kind.keys() - {"function"}):
        such = by_kind[min(others)]
        expected = f"visible or oracle: written tests call a function, and tasks such as {such} have none"
        raise ConfigError("feedback_source", "self_tests", expected)


def _check_installed(cfg: RunConfig, tasks: Iterable[Task]) -> None:
    """Raises ConfigError: packages that tasks need are not installed, so that they would have no verdict."""
    lacking = {task.task_id: missing for task in tasks if (missing := packages(task.requires).missing)}
    if lacking and not cfg.benchmark.keep_failing:
        names = sorted(set[str]().union(*lacking.values()))
        got = f"{number_of(len(lacking), 'task')} needing {', '.join(names)}, such as {min(lacking)}"
        hint = f"pip install {' '.join(names)}, or keep them without a verdict by benchmark.keep_failing=true"
        raise ConfigError("benchmark", got, "tasks whose packages are installed", hint)


def _check_environment(cfg: RunConfig, tasks: Iterable[Task]) -> None:
    """Raises ConfigError: the environment needs a field of `Task.data` that tasks lack: they would have no verdict."""
    node = cfg.environment if takes("actor", cfg.actor, "environment") else None
    needed = capability(node, "needs", None) if node else None
    lacking = [task.task_id for task in tasks if needed and needed not in task.data]
    if node and lacking and not cfg.benchmark.keep_failing:
        got = f"{number_of(len(lacking), 'task')} without {needed}, such as {min(lacking)}"
        name = str(node["_target_"]).rpartition(".")[2]
        hint = "another benchmark or environment, or keep them without a verdict by benchmark.keep_failing=true"
        raise ConfigError("environment", f"{name} and {got}", f"tasks with {needed}", hint)


def _nodes(key: str, node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The config nodes of parts in `node`, with their keys."""
    if isinstance(node, list):
        for i, each in enumerate(node):
            yield from _nodes(f"{key}[{i}]", each)
    elif isinstance(node, dict):
        if "_target_" in node:
            yield key, node
        for name, each in node.items():
            yield from _nodes(f"{key}.{name}", each)
