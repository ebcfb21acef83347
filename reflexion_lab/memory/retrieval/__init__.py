"""Which earlier texts are near: lexical, embedding, hybrid, and the controls."""
