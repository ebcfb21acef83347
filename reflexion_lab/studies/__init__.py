"""Whole studies: a run with its report, sweeps, estimates, registered questions.

In: configs. Out: finished run folders. Subpackages: `sweeps`, `replay` (bundles, verification), `tracking` (MLflow).
Called by `cli` and `notebook`.
"""
