"""Commands of `reflexion-lab`, one file per subject.

In: arguments. Out: a short answer on the terminal and an exit code. Called by the console script alone.
"""
