"""Lessons of many attempts: wisdom, mistakes with their corrections, key insights."""
