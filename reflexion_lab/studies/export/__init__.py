"""Runs in the formats of other tools: logs of inspect_ai, and ATIF trajectories."""
