"""reflexion_lab: measure, honestly and fast, whether a language model learns from its own words.

    import reflexion_lab as rl

    run = rl.run("experiment=reflexion", "benchmark.sample=8")   # with live progress; shows itself
    frames = rl.load(run)                                         # pandas: runs, tasks, attempts, checks, …
    rl.plot.curves(run)                                           # takes and returns an Axes
    agent = rl.agent(generate=…, test=…, memory="memory.sqlite")  # the loop in a program of your own

Each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reflexion_lab.agent.reflectors.fallback import WithFallback
    from reflexion_lab.agent.reflectors.llm import LLMReflector
    from reflexion_lab.agent.reflectors.rules import Rules
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, Passed, Plateau, TimeOut
    from reflexion_lab.memory.archive import Archive
    from reflexion_lab.memory.buffer import EpisodeBuffer
    from reflexion_lab.memory.episodic import EpisodicMemory
    from reflexion_lab.memory.recall import Similar, Window, WindowThenSimilar
    from reflexion_lab.notebook import plot
    from reflexion_lab.notebook.agent import Agent as agent  # noqa: N813
    from reflexion_lab.notebook.compare import compare, report
    from reflexion_lab.notebook.explore import explore
    from reflexion_lab.notebook.frames import load
    from reflexion_lab.notebook.run import by_hand, calibrate, compose, estimate, run, runs, sweep
    from reflexion_lab.notebook.view import view
    from reflexion_lab.records import Evaluation, Task, Trajectory
    from reflexion_lab.tasks.evaluators.combined import Combined
    from reflexion_lab.tasks.evaluators.static import StaticCheck
    from reflexion_lab.tasks.evaluators.trajectory import TrajectoryHeuristics, WithTrajectory
    from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

__version__ = "0.1.0"

_HOMES = {
    "agent.reflectors.fallback": ("WithFallback",),
    "agent.reflectors.llm": ("LLMReflector",),
    "agent.reflectors.rules": ("Rules",),
    "loop.reflexion": ("Reflexion",),
    "loop.stop": ("FirstOf", "MaxAttempts", "Passed", "Plateau", "TimeOut"),
    "memory.archive": ("Archive",),
    "memory.buffer": ("EpisodeBuffer",),
    "memory.episodic": ("EpisodicMemory",),
    "memory.recall": ("Similar", "Window", "WindowThenSimilar"),
    "notebook.compare": ("compare", "report"),
    "notebook.explore": ("explore",),
    "notebook.frames": ("load",),
    "notebook.run": ("by_hand", "calibrate", "compose", "estimate", "run", "runs", "sweep"),
    "notebook.view": ("view",),
    "records": ("Evaluation", "Task", "Trajectory"),
    "tasks.evaluators.combined": ("Combined",),
    "tasks.evaluators.static": ("StaticCheck",),
    "tasks.evaluators.trajectory": ("TrajectoryHeuristics", "WithTrajectory"),
    "tasks.evaluators.unit_tests": ("UnitTests",),
}
_MODULES = {"agent": "agent", "plot": "notebook.plot"}

__all__ = [
    "Archive", "Combined", "EpisodeBuffer", "EpisodicMemory", "Evaluation", "FirstOf", "LLMReflector",
    "MaxAttempts", "Passed", "Plateau", "Reflexion", "Rules", "Similar", "StaticCheck", "Task", "TimeOut",
    "Trajectory", "TrajectoryHeuristics", "UnitTests", "Window", "WindowThenSimilar", "WithFallback",
    "WithTrajectory", "agent", "by_hand", "calibrate", "compare", "compose", "estimate", "explore", "load", "plot",
    "report", "run", "runs", "sweep", "view",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"reflexion_lab.{_MODULES[name]}")
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'reflexion_lab' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"reflexion_lab.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
