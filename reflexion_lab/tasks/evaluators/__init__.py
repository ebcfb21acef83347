"""Evaluators (feedback on a program), and the judge of the hidden tests."""
