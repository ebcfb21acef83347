"""Prompt templates, rendering, and fitting into a context."""
