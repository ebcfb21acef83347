"""Output of commands. Markup and control characters in models' texts are escaped."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.analysis.report.cells import line, table
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.records import Episode
from reflexion_lab.text import shorten

if TYPE_CHECKING:
    from rich.table import Table

CHARS = 120
"""Maximum characters of a model's text in a cell."""


def short(text: str, chars: int = CHARS) -> str:
    """`text` on one line, of at most `chars` characters, with control characters escaped."""
    return visible(shorten.line(text[: 10 * chars], chars))


def sheet(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], names: int = 1, note: str = "") -> Table:
    """A table: the first `names` columns are text, the others numbers."""
    grid = table(title, *columns, names=names)
    for row in rows:
        grid.add_row(*(line(short(cell)) for cell in row))
    if note:
        grid.caption = line(note)
    return grid


def episode_table(title: str, episodes: Iterable[Episode], note: str = "") -> Table:
    columns = ("episode", "root cause", "category", "passed", "sure")
    rows = (
        (
            _named(episode),
            episode.reflection.root_cause if episode.reflection else "",
            episode.category,
            "yes" if episode.passed else "no",
            f"{episode.confidence:.2f}",
        )
        for episode in episodes
    )
    return sheet(title, columns, rows, names=2, note=note)


def _named(episode: Episode) -> str:
    """The episode's id, with task and attempt unless the id contains them."""
    name, attempt = episode.episode_id, f"{episode.task_id}, attempt {episode.attempt_number}"
    return name if name.endswith(f"{episode.task_id}-{episode.attempt_number}") else f"{name} ({attempt})"


def say(*parts: Any) -> None:
    """Print tables, and text without line breaks of its own."""
    from rich.console import Console

    console = Console()
    for part in parts:
        if isinstance(part, str):
            console.print(visible(part), markup=False, highlight=False, soft_wrap=True, emoji=False)
        else:
            console.print(part)


def say_json(value: Any) -> None:
    """Print one JSON object on one line, in ASCII, lone surrogates included; NaN becomes null."""
    print(json.dumps(_without_nan(msgspec.to_builtins(value))))


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def when(timestamp: float) -> str:
    """A time such as 2026-11-22 05:03 UTC; `never` for 0."""
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(timestamp)) if timestamp else "never"
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} s"
