"""Agent: models, actors, critics and revisers, reflectors.

In: tasks, recollections, evaluations. Out: programs and words. Subpackages: `models`, `actors`, `critique`,
`reflectors`. Called by the loop through protocols.
"""
