"""Benchmarks, evaluators and the sandbox.

In: rows of a benchmark, programs. Out: tasks, verdicts. Subpackages: `benchmarks`, `evaluators` (with the judge of the
hidden tests), `sandbox`. Programs of a model run only in the sandbox.
"""
