"""Where a run's loops and programs are executed: threads of this process, or the processes of a cluster.

The run folder is written here, and only here, wherever the loops are. What comes of them is the same everywhere.
"""
