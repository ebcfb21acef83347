"""Nouns: frozen records of tasks, attempts, evaluations, reflections, memory and runs.

In: values. Out: the same values, checked and in one form on disk. Called by everything.

A record is what one step hands to the next and what the run folder stores. `msgspec.json.decode(line, type=Attempt)`
checks every field; `msgspec.json.schema(Attempt)` is the schema for other tools.
"""

from __future__ import annotations

import msgspec

from reflexion_lab.records.attempt import *  # noqa: F403
from reflexion_lab.records.items import *  # noqa: F403
from reflexion_lab.records.memory import *  # noqa: F403
from reflexion_lab.records.run import *  # noqa: F403

for _kind in Record.__subclasses__():  # noqa: F405
    # msgspec (0.22) prepares a type at its first decoder: a second thread that decodes it meanwhile reads what is not
    # there yet, and the process dies. Types that threads decode get theirs on import.
    msgspec.json.Decoder(_kind)
