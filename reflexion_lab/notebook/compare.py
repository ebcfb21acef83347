"""Runs side by side in a notebook, and as a report on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import some_folders

if TYPE_CHECKING:
    import pandas as pd

    from reflexion_lab.analysis.arms import Arm
    from reflexion_lab.analysis.comparison import Comparison
    from reflexion_lab.analysis.report.sheets import Sheet


class Compared(NamedTuple):
    """Arms side by side; shows warnings, then its sheets."""

    arms: list[Arm]
    """In the order in which their runs were named."""
    comparison: Comparison

    @property
    def warnings(self) -> list[str]:
        """Warnings to show above the results, one per line."""
        from reflexion_lab.analysis.report.comparison import warnings

        return list(warnings(self.comparison))

    @property
    def sheets(self) -> list[Sheet]:
        """The tables that `reflexion-lab compare` prints."""
        from reflexion_lab.analysis.report.comparison import sheets

        return sheets(self.comparison)

    @property
    def table(self) -> pd.DataFrame:
        """One row an arm, shares in [0, 1], as `reflexion-lab compare --csv` writes it; unknown values are missing."""
        import pandas as pd

        from reflexion_lab.analysis.report.documents import rows

        return pd.DataFrame(rows(self.comparison)).replace("", pd.NA).convert_dtypes()

    def pass_at_k(self, k: int) -> pd.DataFrame:
        """pass@k by hidden tests, one row an arm, with its 95 % interval over tasks. The draws of a task are the first
        attempts of an arm's seeds; they must be independent, which those of a model at temperature 0 are not.

        Raises
        ------
        ConfigError
            `k` is below 1, or a task has fewer draws.
        """
        import numpy as np
        import pandas as pd

        from reflexion_lab.analysis.stats.permutation import mean_pass_at_k

        estimates = {}
        for arm in self.arms:
            outcomes = arm.outcomes(arm.verdicts(1))
            draws, passed = np.isfinite(outcomes).sum(axis=1), np.nansum(outcomes, axis=1)
            estimates[arm.label] = mean_pass_at_k([(int(n), int(c)) for n, c in zip(draws, passed, strict=True)], k)
        rows = [
            {"arm": arm, "k": k, "pass_at_k": e.value, "low": e.low, "high": e.high} for arm, e in estimates.items()
        ]
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return "\n\n".join([*self.warnings, *map(repr, self.sheets)])

    def _repr_html_(self) -> str:
        from reflexion_lab.analysis.report.sheets import said

        return said(self.warnings, loud=True) + "".join(sheet._repr_html_() for sheet in self.sheets)


def compare(
    *runs: object,
    baseline: str | None = None,
    by: str | Sequence[str] = (),
    unit: Literal["tokens", "calls", "cost"] = "tokens",
    one_seed: bool = False,
) -> Compared:
    """pass@1 of each arm with its interval, and each paired with the baseline: as run, and at an equal budget.

    Parameters
    ----------
    runs : object
        Run folders, patterns such as `"runs/*"`, what `run` or `sweep` returned, or lists of these; those of one
        arm are put together over seeds.
    baseline : str | None, optional
        The arm to compare others with; by default `feedback_only`, or the first one.
    by : str | Sequence[str], default ()
        Config keys to name arms by, such as `recall.omega`; by default those in which runs of one arm differ.
    unit : {'tokens', 'calls', 'cost'}, default "tokens"
        What an equal budget is counted in.
    one_seed : bool, default False
        Also say differences that rest on a single seed, which are refused otherwise.

    Raises
    ------
    FolderError
        No run is named, a folder is none, or a pattern fits none.
    ConfigError
        The runs cannot be compared; what is wrong, and of which run.
    """
    from reflexion_lab.analysis.comparison import side_by_side

    keys = (by,) if isinstance(by, str) else tuple(by)
    return Compared(*side_by_side(some_folders(*runs), baseline, keys, unit, one_seed))


def report(
    *runs: object,
    out: Path | str,
    baseline: str | None = None,
    by: str | Sequence[str] = (),
    unit: Literal["tokens", "calls", "cost"] = "tokens",
    one_seed: bool = False,
    figures: Literal["png", "svg", "pdf"] = "png",
) -> list[Path]:
    """Write what `compare` shows as Markdown, HTML and LaTeX into the folder `out`, with figures and the numbers behind
    them; returns the files.

    Parameters
    ----------
    out : Path | str
        Made where there is none.
    figures : {'png', 'svg', 'pdf'}, default "png"
        Their kind. LaTeX includes PNG by itself; SVG has to be converted first.

    Raises
    ------
    OSError
        `out` cannot be a folder, or cannot be written to.
    ConfigError
        As of `compare`.
    """
    from reflexion_lab.analysis.figures.drawing import Kind
    from reflexion_lab.analysis.report.documents import save_report

    if figures not in get_args(Kind):
        raise ConfigError("figures", repr(figures), f"one of {', '.join(get_args(Kind))}")
    comparison = compare(*runs, baseline=baseline, by=by, unit=unit, one_seed=one_seed)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return save_report(folder, comparison.comparison, comparison.arms, figures)
