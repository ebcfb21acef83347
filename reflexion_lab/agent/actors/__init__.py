"""How a program is written: in one reply, step by step, with tools, from candidates."""
