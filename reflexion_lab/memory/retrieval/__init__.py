"""Retrievers: lexical, embedding, hybrid, and the control retrievers."""
