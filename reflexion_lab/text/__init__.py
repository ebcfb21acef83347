"""Text of prompts and replies.

In: templates and records, or a model's reply. Out: messages that fit the context, or code and fields. Subpackages:
`prompts`, `replies`. Called by `agent`.
"""
