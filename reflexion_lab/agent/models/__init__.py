"""Chat and completion models behind one protocol, their cache, budget and prices."""
