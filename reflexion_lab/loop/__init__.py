"""The algorithm: recall, act, evaluate, reflect, remember, retry; when it stops, and what it submits.

In: parts that fit the protocols. Out: attempts, one by one. Called by `runner`.
"""
