"""Logs of other people: read, execute again, explain; and checks of benchmarks.

In: files that the lab did not write. Out: verdicts, tables. Called by `cli` and `notebook`.
"""
