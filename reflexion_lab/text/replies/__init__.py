"""Code and fields out of a reply."""
