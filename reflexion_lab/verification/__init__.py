"""Does a run folder still say what its run found? Digests, records and figures, computed again from the folder."""
