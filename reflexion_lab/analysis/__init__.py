"""What runs show: frames, metrics, arms, paired differences, cost, calibration.

In: run folders. Out: numbers with n and interval. Rooms: `stats` (formulas on numbers), `figures`, `report` (tables and
pages). Called by everything above; reads records, never a running loop.
"""
