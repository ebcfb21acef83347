"""reflexion_lab: measure, honestly and fast, whether a language model learns from its own words.

    import reflexion_lab as rl

    run = rl.run("experiment=reflexion", "benchmark.sample=8")   # with live progress; shows itself
    frames = rl.load(run)                                         # pandas: runs, tasks, attempts, checks, …
    rl.plot.curves(run)                                           # takes and returns an Axes

Each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflexion_lab.notebook import plot
    from reflexion_lab.notebook.compare import compare, report
    from reflexion_lab.notebook.explore import explore
    from reflexion_lab.notebook.run import by_hand, compose, estimate, load, run, runs, sweep
    from reflexion_lab.notebook.view import view

__version__ = "0.1.0"

__all__ = [
    "by_hand",
    "compare",
    "compose",
    "estimate",
    "explore",
    "load",
    "plot",
    "report",
    "run",
    "runs",
    "sweep",
    "view",
]

_HOMES = {
    "run": ("by_hand", "compose", "estimate", "load", "run", "runs", "sweep"),
    "compare": ("compare", "report"),
    "explore": ("explore",),
    "view": ("view",),
}


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("reflexion_lab.notebook.plot")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'reflexion_lab' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"reflexion_lab.notebook.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
