"""What loops learn: reflections and who read them, repairs, memory, confidence."""
