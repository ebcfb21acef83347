"""Text in both directions: prompts out, replies in.

In: templates and records, or a model's reply. Out: messages that fit the context, or code and fields. Rooms: `prompts`,
`replies`. Called by `agent`.
"""
