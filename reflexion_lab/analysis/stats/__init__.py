"""Formulas on numbers, each with its paper: intervals, tests, bootstrap, power."""
