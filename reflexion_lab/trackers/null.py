"""No tracking: the run folder alone."""

from __future__ import annotations

from pathlib import Path


class NullTracker:
    command = ""

    def track(self, folder: Path) -> str:
        """Does nothing with `folder`; there is nowhere to look."""
        return ""
