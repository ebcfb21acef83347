"""Benchmarks: HumanEval, HumanEval+, MBPP, JSON lines, generated basics."""
