"""Templates, rendering, and fitting into a context."""
