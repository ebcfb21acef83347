"""Bundles: a run packed with all of its inputs, and repeated from them."""
