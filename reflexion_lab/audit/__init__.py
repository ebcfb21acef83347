"""Logs of other people: read, import, execute again, explain; and checks of benchmarks.

In: files that the lab did not write. Out: verdicts, run folders, tables. Called by `cli` and `notebook`.
"""
