"""Logs of other people and benchmarks: read, import, execute again, explain.

In: files that the lab did not write. Out: verdicts, run folders, tables. Called by `cli` and `notebook`.
"""
