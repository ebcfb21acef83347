"""What went wrong, in words: by a model, by rules, and the controls."""
