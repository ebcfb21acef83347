"""Formulas, each with its paper: intervals, tests, bootstrap, power; and estimators on attempts and grades."""
