"""Commands of `reflexion-lab`, one file a subject.

In: arguments. Out: a short answer on the terminal and an exit code. Called by the console script alone.
"""
