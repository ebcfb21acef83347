"""Reflectors, which explain an attempt in words: a model, rules, and control conditions."""
