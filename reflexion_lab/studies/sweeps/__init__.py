"""Sweeps: cells that share their calls, the states by which a sweep resumes, and its table."""
