"""Environments: worlds of several steps, played by actions in text and graded by a replay."""
