"""The sandbox: runs programs of a model in locked-down processes."""
