"""Run folders side by side: their arms, and what is found out of these."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from reflexion_lab.analysis.arms import Arm, arms, flat
from reflexion_lab.analysis.comparison import Comparison, compare
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder


def side_by_side(
    runs: Sequence[RunFolder],
    baseline: str | None = None,
    by: Sequence[str] = (),
    unit: str = "tokens",
    one_seed: bool = False,
) -> tuple[list[Arm], Comparison]:
    """The arms that `runs` make, compared; what their study registered is held apart from what is exploratory.

    Parameters
    ----------
    runs : Sequence[RunFolder]
        At most one an arm and seed.
    baseline, unit, one_seed : str | None, optional
        As of `comparison.compare`.
    by : Sequence[str], default ()
        As of `arms.arms`.

    Raises
    ------
    ConfigError
        As `arms` and `compare`, what is wrong, and of which run; or no run has a key of `by`.
    """
    _check(runs, by)
    grouped = arms(runs, by)
    mine = [run for run in runs if run.manifest.study_digest]
    study = registration.of_runs([run.path for run in mine], [run.manifest for run in mine]) if mine else None
    return grouped, compare(grouped, baseline, unit, one_seed, study)


def _check(runs: Sequence[RunFolder], by: Sequence[str]) -> None:
    known = list(dict.fromkeys(key for run in runs if by for key, _ in flat(run.manifest.config)))
    for key in by:
        if key not in known:
            near = (difflib.get_close_matches(key, known, n=1) or ["recall.omega"])[0]
            raise ConfigError("by", repr(key), f"a config key of a run, such as {near}")
