"""Comparison of runs in a notebook, and as a report on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import Comparison, side_by_side
from reflexion_lab.analysis.figures.drawing import Kind
from reflexion_lab.analysis.report.comparison import sheets, warnings
from reflexion_lab.analysis.report.documents import rows, save_report
from reflexion_lab.analysis.report.sheets import Sheet, paragraphs
from reflexion_lab.analysis.run_list import selected
from reflexion_lab.errors import ConfigError
from reflexion_lab.notebook.overrides import Override, as_lines
from reflexion_lab.runner.folder.folder import some_folders

if TYPE_CHECKING:
    import pandas as pd

Unit = Literal["attempts", "completion_tokens", "tokens", "calls", "cost"]
"""Unit of an equal budget."""


class Compared(NamedTuple):
    """Arms side by side, displayed as warnings and tables."""

    arms: list[Arm]
    """In the order in which their runs were named."""
    comparison: Comparison

    @property
    def warnings(self) -> list[str]:
        """Warnings to show above the results, one per line."""
        return list(warnings(self.comparison.short))

    @property
    def sheets(self) -> list[Sheet]:
        """The tables that `reflexion-lab compare` prints."""
        return sheets(self.comparison)

    @property
    def table(self) -> pd.DataFrame:
        """One line per arm, metric and budget, shares in [0, 1], as `reflexion-lab compare --csv` writes it."""
        import pandas as pd

        return pd.DataFrame(rows(self.comparison)).convert_dtypes()

    def pass_at_k(self, k: int) -> pd.DataFrame:
        """pass@k by hidden tests, one row per arm, with its 95 % interval over clusters of tasks.

        The draws of a task are the first attempts of an arm's seeds. They must be independent: at temperature 0 they
        are not. Raises ConfigError: `k` is below 1, or a task has fewer draws.

        Examples
        --------
        >>> rl.compare(sweep).pass_at_k(2)["pass_at_k"].tolist()
        [0.75, 0.75]
        """
        import pandas as pd

        rows = [(arm.label, k, each.value, each.low, each.high) for arm in self.arms for each in [arm.pass_at(k)]]
        return pd.DataFrame(rows, columns=["arm", "k", "pass_at_k", "low", "high"])

    def __repr__(self) -> str:
        return "\n\n".join([*self.warnings, *map(repr, self.sheets)])

    def _repr_html_(self) -> str:
        return paragraphs(self.warnings, loud=True) + "".join(sheet._repr_html_() for sheet in self.sheets)


def compare(
    *runs: object,
    baseline: str | None = None,
    by: str | Sequence[str] = (),
    unit: Unit | None = None,
    margin: float | None = None,
    where: Override = (),
) -> Compared:
    """pass@1 of each arm with its interval, and each paired with the baseline at equal budgets.

    Raises FolderError: no run, or no run folder; ConfigError: the runs cannot be compared. `runs`: as of `load`; one
    arm's seeds are pooled. `baseline`: arm to compare the others with; by default that of the registered study, else
    `feedback_only`, `retry` or `simple`, else the lab's default cell of a grid, else the first one. `by`: config keys
    to name arms by, such as `recall.omega`; by default those in which runs of one arm differ. `unit`: budget to compare
    at beside equal attempts; by default completion tokens, and cost where all arms have a price, else tokens. `margin`:
    equivalence margin in (0, 1]; by default that of the registered study, or none. `where`: as of `load`.

    Examples
    --------
    >>> compared = rl.compare(sweep)
    >>> [arm.label for arm in compared.arms]
    ['retry', 'reflexion']
    >>> table = compared.table
    >>> table[(table.metric == "pass_at_1") & (table.budget == "")][["arm", "n", "value"]].values.tolist()
    [['retry', 16, 0.8125], ['reflexion', 16, 0.9375]]
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    return Compared(*side_by_side(selected(some_folders(*runs), as_lines([where])), baseline, keys, unit, margin))


def report(
    *runs: object,
    out: Path | str,
    baseline: str | None = None,
    by: str | Sequence[str] = (),
    unit: Unit | None = None,
    figures: Literal["png", "svg", "pdf"] = "png",
    captions: bool = True,
    margin: float | None = None,
    where: Override = (),
) -> list[Path]:
    """Write tables of `compare` as Markdown, HTML and LaTeX into `out`, with figures and numbers; returns the files.

    Raises OSError: `out` cannot be written to; FolderError, ConfigError: as for `compare`, whose parameters mean the
    same here. `out`: created if missing. `figures`: LaTeX includes PNG and PDF; SVG has to be converted first.
    `captions`: write titles and captions into the figures; off for papers.

    Examples
    --------
    >>> files = rl.report(sweep, out="paper")
    >>> [path.name for path in files[:3]]
    ['report.md', 'report.html', 'table.csv']
    """
    if figures not in get_args(Kind):
        raise ConfigError("figures", repr(figures), f"one of {', '.join(get_args(Kind))}")
    comparison = compare(*runs, baseline=baseline, by=by, unit=unit, margin=margin, where=where)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return save_report(folder, comparison.comparison, comparison.arms, figures, are_captioned=captions)
