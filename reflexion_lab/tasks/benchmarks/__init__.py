"""Benchmarks: HumanEval, HumanEval+, MBPP, MultiPL-E, JSON lines, recorded runs, generated basics and families."""
