"""What a run or a sweep is expected to take; shows itself."""

from __future__ import annotations

from reflexion_lab.records import Record, Usage


class Range(Record, frozen=True):
    """All tasks as cheap as the cheapest probed one, as their mean, as the dearest. A few tasks give no confidence
    interval.
    """

    low: float = 0.0
    mean: float = 0.0
    high: float = 0.0

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.mean + other.mean, self.high + other.high)


class Part(Record, frozen=True, kw_only=True):
    """What some of the calls take."""

    calls: Range = Range()
    prompt_tokens: Range = Range()
    completion_tokens: Range = Range()
    tokens: Range = Range()
    cost: Range = Range()
    """Of calls whose price is known."""

    def __add__(self, other: Part) -> Part:
        return Part(**{field: getattr(self, field) + getattr(other, field) for field in self.__struct_fields__})


class Estimate(Record, frozen=True, kw_only=True):
    """What is to be expected, cells and seeds together; distinct calls count once."""

    cells: int
    tasks: int
    """Over all cells."""
    probed: int
    """Of each cell's tasks; those of cells with the same tasks are the same."""
    roles: dict[str, Part]
    first_attempts: Part
    """With the tests that a model writes, and without any reflection."""
    retries: Part
    """Reflections, and attempts after the first."""
    total: Part
    apart: Part
    """The same, were every cell to pay for all of its calls: what the run folders will say, added up."""
    paid: Usage
    """What the probe newly spent."""
    to_pay: Part
    """`total` without the probed tasks."""
    at_most: Usage
    """Were no task to pass and every reply as long as allowed; each cell by itself, with as many calls an attempt and
    as long prompts as the probe saw.
    """
    seconds: tuple[float, float]
    """Wall time that is left: every worker always busy; no more at once than in the probe."""
    prices: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def unpriced(self) -> bool:
        """Whether nobody knows what some role costs."""
        return "unknown" in self.prices.values()

    def __repr__(self) -> str:
        from reflexion_lab.studies.estimate_report import lines, sheet

        return "\n".join((repr(sheet(self)), *lines(self)))

    def _repr_html_(self) -> str:
        from reflexion_lab.analysis.report.sheets import said
        from reflexion_lab.studies.estimate_report import lines, sheet

        return sheet(self)._repr_html_() + said(lines(self))
