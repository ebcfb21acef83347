"""How a model's own word for a failure becomes one of the lab's categories, and what systems before it called them."""

from __future__ import annotations

import re

from reflexion_lab.records import Category
from reflexion_lab.reflectors.classes import CLASSES

FROM_SUBAGENT_LOOP = {
    name: Category(name)
    for name in ("root_cause", "approach_flaw", "missing_context", "tool_misuse", "test_gap", "verification")
}
"""The six names of replies with `analysis`, `suggestion` and `actionItems`, each kept as it is."""
FROM_RALPH_LOOP = {name: Category(name) for name in ("edge_case_miss", "integration_error")}
"""The failure categories of `ralph-…` loops, each kept as it is. Their schema is said to have nine; what is published
of it names these two. `named` reads the others where they are called as our classes are (`type_error`).
"""


def named(stated: str, otherwise: Category = Category.ROOT_CAUSE) -> Category:
    """The category that `stated` names: any case, any separators, with or without "error"; else `otherwise`."""
    return _BY_LETTERS.get(_letters(stated), otherwise)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold().removesuffix("error")


_BY_LETTERS = {_letters(category): category for category in Category}
FAILURE_CLASSES = tuple(Category(name) for name in CLASSES)
"""What the evidence of an attempt can show."""
