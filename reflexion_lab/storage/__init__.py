"""Durable records: stores of episodes and lessons, caches of calls, spending; JSON lines, SQLite, PostgreSQL.

In: records with a key. Out: the same records, after any crash. Called by `memory`,
`agent.models` and `runner`.
"""
