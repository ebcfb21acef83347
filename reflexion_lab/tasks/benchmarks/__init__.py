"""Tasks with visible and hidden tests: HumanEval, MBPP, MultiPL-E, JSON lines, generated basics."""
