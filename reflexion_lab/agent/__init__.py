"""Agent: models, actors, critics and revisers, reflectors.

In: tasks, recollections, evaluations. Out: programs and words. Subpackages: `models`, `actors`, `critique`,
`reflectors`. Called by the loop through protocols. Called itself, the package makes a `notebook.agent.Agent`:

    >>> agent = rl.agent(generate=lambda task, recollection: "x = 4", test=lambda code: code == "x = 4")
    >>> agent.solve("Set x to 4.").passed
    True
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *overrides: Any, **parts: Any) -> Any:
        return import_module("reflexion_lab.notebook.agent").Agent(*overrides, **parts)


sys.modules[__name__].__class__ = _Callable  # `rl.agent` is both this package and a function
