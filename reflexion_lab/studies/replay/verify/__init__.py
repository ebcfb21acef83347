"""A run's digests, records and figures computed again and compared."""
