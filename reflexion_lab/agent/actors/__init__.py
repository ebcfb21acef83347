"""Actors, which write programs: in one reply, with reasoning, with tools, from candidates."""
