"""Files, append-only logs, temporary folders, secrets, signals, text for a terminal.

In and out: bytes and text. Knows nothing of tasks or models.
"""
