"""Memory of earlier attempts and tasks: episodes, wisdom, mistakes, insights.

In: attempts with their reflections. Out: a recollection that fits the prompt. Rooms: `retrieval`, `embedders`. Called
by the loop through the protocol `Memory`, and by `runner`.
"""
