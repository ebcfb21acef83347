"""Vectors of texts, and their cache."""
