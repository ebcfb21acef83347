"""Tables, rates and counts as text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.io.terminal_text import visible

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def table(title: str, *columns: str, names: int = 1) -> Table:
    """An empty table: the first columns, `names` of them, to the left; figures to the right, never cut."""
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
    """Plain text: ids and intervals may hold brackets, which are no markup here, and others' words what no terminal can
    bear.
    """
    from rich.text import Text

    return Text(visible(text), style=style)


def number(value: float, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """`value` times `scale`, by default in per cent: 34.2; zero has no sign."""
    text = f"{scale * value:{'+' * signed}.{digits}f}"
    return text.lstrip("+-") if float(text) == 0 else text


def interval(low: float, high: float, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """By default in per cent: [26.3, 43.0]."""
    return f"[{number(low, digits, scale, signed)}, {number(high, digits, scale, signed)}]"


def rate(value: Rate, unit: str = "tasks") -> str:
    if not value.n:
        return f"not known (0 {unit})"
    share = f"{100 * value.share:.1f} % {interval(value.low, value.high)}"
    return f"{share} ({value.k} of {value.n} {unit}, Wilson 95 %)"


def estimate(value: Estimate, digits: int = 1, scale: float = 100, signed: bool = False) -> str:
    """With its interval, by default in per cent: 34.2 [26.3, 43.0]."""
    return f"{number(value.value, digits, scale, signed)} {interval(value.low, value.high, digits, scale, signed)}"


def counts(amounts: Mapping[str, int]) -> str:
    """Most frequent first."""
    ordered = sorted(amounts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {name}" for name, count in ordered) or "none"
