"""Judging and revising drafts within one attempt."""
