"""Curators: methods that learn across tasks, each as operations on items.

In: finished loops with the verdicts of their feedback. Out: operations, and the items for a prompt. Called by
`curated`. One module per method; its docstring names the source and what differs between paper and code.
"""
