"""No tracking: the run folder alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class NullTracker:
    command = ""

    def track(self, folder: Path, log: Any = None) -> str:
        """Does nothing with `folder`; there is nowhere to look."""
        return ""

    def track_arms(self, folders: Sequence[Path], baseline: str | None = None) -> dict[str, str]:
        """Likewise."""
        return {}
