"""Figures: each takes a frame and Axes."""
