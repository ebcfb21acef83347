"""Categories of failures from a model's words, which may be names of earlier systems.

Unchanged are the six names of replies with `analysis`, `suggestion` and `actionItems` (root_cause, approach_flaw,
missing_context, tool_misuse, test_gap, verification), and the two that are published of the nine of `ralph-…` loops
(edge_case_miss, integration_error). Others are read where they name our classes (`type_error`).
"""

from __future__ import annotations

import re

from reflexion_lab.records import Category


def named(stated: str, otherwise: Category = Category.ROOT_CAUSE) -> Category:
    """The category of that name, in any case, with any separators, with or without "error"; else `otherwise`."""
    return _BY_LETTERS.get(_letters(stated), otherwise)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).casefold().removesuffix("error")


_BY_LETTERS = {_letters(category): category for category in Category}
