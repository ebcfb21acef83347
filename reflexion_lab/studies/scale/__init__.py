"""Execution of loops and programs, and of the cells of a sweep: threads, processes, or a cluster.

Only the starting process writes the run folder. Results do not depend on the place.
"""
