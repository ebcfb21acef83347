"""Nouns: frozen records of tasks, attempts, evaluations, reflections, memory and runs.

In: values. Out: the same values, checked and in one form on disk. Called by everything.
"""

from reflexion_lab.records.records import *  # noqa: F403
