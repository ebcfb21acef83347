"""A grid: the arms of a sweep over two config keys or more."""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.analysis.comparison.grouping import values_of


def default_cell(labels: Sequence[str]) -> str | None:
    """The label whose swept keys have the values that the lab gives them by itself; None if no label has, or fewer than
    two keys are swept.
    """
    cells = {label: values_of(label) for label in labels}
    names = {label.partition(" ")[0] for label in labels}
    if len({key for cell in cells.values() for key in cell}) < 2 or len(names) > 1:
        return None
    from reflexion_lab.runner.config.build import plain
    from reflexion_lab.runner.config.choices import CONF, by_choice
    from reflexion_lab.runner.config.compose import compose

    experiments = [f"experiment={name}" for name in names if (CONF / "experiment" / f"{name}.yaml").is_file()]
    (own,) = by_choice([(plain(compose(*experiments)), ())])
    return next((label for label, cell in cells.items() if all(str(own.get(k)) == cell[k] for k in cell)), None)
