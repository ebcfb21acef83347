"""Present names of moved modules, for configs, run folders, bundles and imports of version 0.1."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

MOVED = {
    "actors": "agent.actors",
    "actors.critique_revise": "agent.critique.critique_revise",
    "analysis.budgets": "analysis.comparison.budgets",
    "analysis.calibration": "analysis.learning.calibration",
    "analysis.clusters": "analysis.learning.transitions",
    "analysis.differences": "analysis.comparison.row",
    "analysis.effect": "analysis.learning.effect",
    "analysis.cases": "analysis.comparison.cases",
    "analysis.ceiling": "analysis.comparison.ceiling",
    "analysis.estimators": "analysis.stats.estimators",
    "analysis.frame_columns": "notebook.frame_rows",
    "analysis.frame_rows": "notebook.frame_rows",
    "analysis.frames": "notebook.frames",
    "analysis.progression": "analysis.learning.transitions",
    "analysis.rating": "analysis.learning.rating",
    "analysis.reflections": "analysis.learning.reflections",
    "analysis.repairs": "analysis.learning.transitions",
    "analysis.row": "analysis.comparison.row",
    "analysis.side_by_side": "analysis.comparison",
    "analysis.similarity": "analysis.learning.similarity",
    "analysis.solutions": "runner.solutions",
    "analysis.spending": "analysis.comparison.budgets",
    "analysis.tallies": "analysis.comparison.row",
    "analysis.task_texts": "analysis.learning.similarity",
    "analysis.transfer": "analysis.learning.transfer",
    "analysis.transitions": "analysis.learning.transitions",
    "analysis.uses": "analysis.learning.effect",
    "audit.own_runs": "audit.samples",
    "benchmarks": "tasks.benchmarks",
    "config": "runner.config.compose",
    "critics": "agent.critique",
    "critics.llm": "agent.critique.llm_critic",
    "critics.merged": "agent.critique.merged_critic",
    "critics.tool": "agent.critique.tool_critic",
    "embedders": "memory.embedders",
    "embedders.replay": "memory.embedders.cached",
    "evaluators": "tasks.evaluators",
    "extract": "text.replies.extract",
    "figures": "analysis.figures",
    "figures.convergence": "analysis.figures.curves",
    "memory.curated": "memory.curators.curated",
    "memory.history": "memory.curators.history",
    "memory.insights": "memory.lessons.insights",
    "memory.items": "memory.curators.items",
    "memory.mistakes": "memory.lessons.mistakes",
    "memory.texts": "memory.retrieval.texts",
    "memory.wisdom": "memory.lessons.wisdom",
    "memory.embedders.replay": "memory.embedders.cached",
    "models": "agent.models",
    "prompts": "text.prompts",
    "reflectors": "agent.reflectors",
    "reflectors.shuffled": "runner.pool",
    "reports": "analysis.report",
    "retrievers": "memory.retrieval",
    "revisers": "agent.critique",
    "revisers.llm": "agent.critique.llm_reviser",
    "revisers.targeted": "agent.critique.targeted_reviser",
    "run_folder": "runner.folder.folder",
    "sandbox": "tasks.sandbox",
    "statistics": "analysis.stats",
    "stores": "storage",
    "studies.finished": "studies.sweeps.finished",
    "studies.sweep": "studies.sweeps.running",
    "studies.sweep_report": "studies.sweeps.sweep",
    "suite_writers": "tasks.evaluators",
    "suite_writers.agreement": "tasks.evaluators.self_tests_agreement",
    "suite_writers.self_tests": "tasks.evaluators.self_tests",
    "trackers": "studies.tracking",
    # Modules that joined another one. The first old name of a module is the one in digests, so its own comes first.
    "models.prices": "agent.models.prices",
    "models.capped": "agent.models.prices",
    "agent.models.capped": "agent.models.prices",
    "prompts.render": "text.prompts.render",
    "prompts.asking": "text.prompts.render",
    "text.prompts.asking": "text.prompts.render",
    "stores.call_store": "storage.call_store",
    "storage.ledger": "storage.call_store",
    "text.replies.blocks": "text.replies.extract",
}
"""New names by old, below `reflexion_lab`; names that are not listed moved with their folder."""
_FORMER = {new: old for old, new in reversed(MOVED.items())}
"""Old names by new; of several old names, the first."""


def current(name: str) -> str:
    """The present dotted name of a module or object of version 0.1; other names are unchanged."""
    return _renamed(name, MOVED)


def former(name: str) -> str:
    """The dotted name of a module or object in version 0.1; names that did not change are unchanged."""
    return _renamed(name, _FORMER)


def _renamed(name: str, names: Mapping[str, str]) -> str:
    parts = name.split(".")
    if parts[0] != __package__:
        return name
    for end in range(len(parts), 1, -1):
        if other := names.get(".".join(parts[1:end])):
            return ".".join([__package__, other, *parts[end:]])
    return name


def updated(config: Any) -> Any:
    """A config with present names in `_target_` and `path`."""
    return _with_names(config, current)


def outdated(config: Any) -> Any:
    """A config with the names of version 0.1; digests are taken of it, so that old and new runs have equal ones."""
    return _with_names(config, former)


def _with_names(config: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(config, Mapping):
        named = ("_target_", "path")
        renamed = {k: rename(v) for k, v in config.items() if k in named and isinstance(v, str)}
        return {k: renamed[k] if k in renamed else _with_names(v, rename) for k, v in config.items()}
    return [_with_names(value, rename) for value in config] if isinstance(config, list | tuple) else config


class _Finder:
    """Import hook: returns the present module for an old name, with a warning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if current(fullname) != fullname else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import warnings

        new = current(spec.name)
        warnings.warn(f"{spec.name} is now {new}; the old name goes with the next version", FutureWarning, stacklevel=2)
        module = importlib.import_module(new)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec and isinstance(spec.loader_state, ModuleSpec):
            module.__spec__ = spec.loader_state  # restored, since imports of submodules use it


sys.meta_path.insert(0, _Finder())
