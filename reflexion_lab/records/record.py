"""What all records have in common."""

from __future__ import annotations

import msgspec

DIGITS = 9
"""Decimals that rewards, scores and severities are compared to: 0.3 - 0.2 is less than 0.1 only in binary."""


class Record(msgspec.Struct, frozen=True):
    """Base of all records: immutable; subclasses repeat `frozen=True`, which type checkers need."""
