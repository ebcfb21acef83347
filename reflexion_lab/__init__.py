"""reflexion_lab: measure, honestly and fast, whether a language model learns from its own words."""

__version__ = "0.1.0"
