"""Learning within and across loops: reflections and who read them, repairs, memory, confidence."""
