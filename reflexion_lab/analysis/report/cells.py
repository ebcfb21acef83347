"""Values as the text of a cell; lines and empty tables for a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.io.terminal_text import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from reflexion_lab.analysis.comparison.lines import Difference

NONE = "-"
"""Cell without a value."""


def table(title: str, *columns: str, names: int = 1) -> Table:
    """An empty table: the first `names` columns are left-aligned text, the others right-aligned figures, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    empty = Table(title=line(title, "bold"), box=SIMPLE_HEAD, collapse_padding=True)
    empty.title_justify = empty.caption_justify = "left"
    for number, column in enumerate(columns):
        is_name = number < names
        side: Literal["left", "right"] = "left" if is_name else "right"
        empty.add_column(
            line(column), justify=side, overflow="fold", no_wrap=not is_name, min_width=7 if is_name else None
        )
    return empty


def line(text: str, style: str = "") -> Text:
    """Text in which brackets are no markup and control characters are escaped."""
    from rich.text import Text

    return Text(visible(text), style=style)


def number(value: float, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """`value` times `scale`, by default in per cent: 34.2. Zero has no sign."""
    text = f"{scale * value:{'+' * signed}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def interval(low: float, high: float, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """An interval, by default in per cent: [26.3, 43.0]."""
    return f"[{number(low, digits, scale, signed)}, {number(high, digits, scale, signed)}]"


def rate(value: Rate, unit: str = "tasks") -> str:
    """A rate with interval and counts: 50.0 % [15.0, 85.0] (2 of 4 tasks, Wilson 95 %)."""
    if not value.n:
        return f"not known (0 {unit})"
    share = f"{100 * value.share:.1f} % {interval(value.low, value.high)}"
    unit = re.sub(r"s\b", "", unit, count=1) if value.n == 1 else unit
    return f"{share} ({value.k} of {value.n} {unit}, {value.method} 95 %)"


def estimate(value: Estimate | Rate | Difference, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """An estimate with its interval, by default in per cent: 34.2 [26.3, 43.0]."""
    return f"{number(value.value, digits, scale, signed)} {interval(value.low, value.high, digits, scale, signed)}"


def counts(amounts: Mapping[str, int]) -> str:
    """Counts by name, the most frequent first: 3 fail, 1 timeout."""
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {name}" for name, count in ordered) or "none"


def share(value: Rate) -> str:
    """A share in per cent with its counts: 5.0 (4/80)."""
    return f"{number(value.share)} ({value.k}/{value.n})" if value.n else NONE


def p_value(p: float) -> str:
    """A p-value with enough digits to compare it with 0.05."""
    if p < 1e-4:
        return "<.0001"
    if abs(p - 0.05) <= 0.005:
        return f"{p:.4f}" if f"{p:.4f}" != "0.0500" else f"{p:.5g}"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}" if p < 0.995 else "1"


def amount(value: float) -> str:
    """A count with commas; a small sum of money with three significant digits."""
    if value == 0 or value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def listed(names: Iterable[str], most: int = 20) -> str:
    """The first `most` names, and the number of others."""
    items = list(names)
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
