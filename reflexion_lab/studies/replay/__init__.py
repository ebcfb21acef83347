"""Bundles: a run packed with all that it read, and carried out again."""
