"""A run on disk: manifest, records, registration, checksums."""
