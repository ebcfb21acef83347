"""Programs of a model, run in locked-down processes."""
