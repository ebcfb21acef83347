"""Analysis of runs: metrics, arms, paired differences, cost, learning, figures and reports.

In: run folders, read once as a `run_log.Log`. Out: numbers with n and interval. Subpackages: `stats` (formulas, each
with its paper), `comparison` (arms against a baseline), `learning` (reflections, repairs, memory), `figures`, `report`
(tables and pages). A metric is one function of `metrics`, a figure one file of `figures`. Called by everything above;
reads records, never a running loop.
"""
