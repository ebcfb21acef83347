"""Memory of earlier attempts and tasks: episodes, lessons, items of a curator.

In: attempts with their reflections. Out: a recollection that fits the prompt. Subpackages: `lessons`, `curators`,
`retrieval`, `embedders`. Called by the loop through the protocol `Memory`, and by `runner`.
"""
