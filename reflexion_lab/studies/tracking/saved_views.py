"""Saved views of MLflow's runs page, which are tags of an experiment, and links to them.

MLflow stores sorting, columns and grouping in the reader's browser: a plain link shows ten runs by time. A saved view,
in the menu at the top of the runs page of MLflow 3.17, brings its own; older versions ignore it.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from reflexion_lab.records import Record

TAG = "mlflow.sharedViewState."
BY_ARM = ("arm",)
RUN_WIDTHS = {
    "attributes.`Run Name`": 185,
    "runDateAndNestInfo": 40,  # the mark of success; MLflow shows it whether it is asked for or not
    "params.`arm`": 105,
    "params.`feedback_source`": 115,
    "metrics.`final/n`": 58,
    "metrics.`final/pass_at_1`": 110,
    "tags.`interval`": 103,
    "metrics.`final/difference`": 108,
    "tags.`difference_to`": 105,
    "metrics.`usage/tokens`": 98,
    "metrics.`final/upper_bound`": 128,
}
"""Columns of runs in pixels; together they fit beside MLflow's menu in a window of 1400."""
ARM_WIDTHS = {
    "attributes.`Run Name`": 168,
    "runDateAndNestInfo": 40,
    "params.`feedback_source`": 115,
    "metrics.`final/n`": 58,
    "metrics.`final/pass_at_1`": 110,
    "tags.`interval`": 103,
    "tags.`difference`": 152,
    "tags.`p_holm`": 68,
    "metrics.`usage/tokens`": 98,
    "tags.`at_equal_tokens`": 152,
    "metrics.`final/upper_bound`": 128,
}
"""Columns of arms."""


OPEN_CHARTS = ("curve/pass_at_1", "curve/upper_bound", "curve/visible_pass")
"""Metrics of the first charts; MLflow adds one for every other metric."""
SECTIONS = {"curve": True, "final": False, "reflections": False, "usage": False}
"""Sections of charts by the prefix of their metrics, and which of them stand open."""


class SavedView(Record, frozen=True, kw_only=True):
    """One entry of the menu."""

    key: str
    name: str
    filter: str
    """MLflow's filter of runs."""
    widths: dict[str, int]
    group_by: tuple[str, ...] = ()
    """Parameters; charts draw one mean and one band, minimum to maximum, for each of their values."""

    @property
    def tag(self) -> tuple[str, str]:
        """Key and value of the experiment's tag; equal views are equal tags."""
        state: dict[str, Any] = {
            "searchFilter": self.filter,
            "orderByKey": "metrics.`final/pass_at_1`",
            "orderByAsc": False,
            "lifecycleFilter": "Active",
            "startTime": "ALL",
            "selectedColumns": [key for key in self.widths if "." in key],
            "columnOrder": list(self.widths),
            "columnWidths": self.widths,
            "runsHiddenMode": "SHOW_ALL",
            "hideEmptyCharts": True,
        }
        if self.group_by:
            keys = [{"mode": "param", "groupByData": key} for key in self.group_by]
            state |= {
                "groupBy": {"aggregateFunction": "average", "groupByKeys": keys},
                "useGroupedValuesInCharts": True,
                "compareRunCharts": [_chart(metric) for metric in OPEN_CHARTS],
                "compareRunSections": [_section(name, is_open) for name, is_open in SECTIONS.items()],
                "isAccordionReordered": True,  # else they are sorted, and new ones put between them
            }
        view = {"name": self.name, "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)}
        return TAG + self.key, json.dumps(view)


class Page(NamedTuple):
    """The runs page of one experiment."""

    site: str
    experiment_id: str
    sweep_id: str = ""
    """"" for all runs."""

    @property
    def charts(self) -> str:
        """The address of the charts of arms."""
        return self._address("charts", "compareRunsMode=CHART&")

    @property
    def runs(self) -> str:
        """The address of the table of runs."""
        return self._address("runs")

    @property
    def arms(self) -> str:
        """The address of the table of arms."""
        return self._address("arms")

    def _address(self, name: str, mode: str = "") -> str:
        key = views(self.sweep_id)[name].key
        page = f"{self.site}/#/experiments/{self.experiment_id}/runs"
        return f"{page}?{mode}workflowType=machine_learning&viewStateShareKey={quote(key, safe='')}"


def views(sweep_id: str = "", group_by: Sequence[str] = BY_ARM) -> dict[str, SavedView]:
    """Views by name: `charts` of arms, `runs`, `arms` with intervals; of one sweep, or of all runs.

    Parameters
    ----------
    group_by : Sequence[str], default BY_ARM
        Parameters that distinguish arms.
    """
    tail, of_sweep = (f"-{sweep_id}", f" of sweep {sweep_id}") if sweep_id else ("", "")
    within = f" and tags.sweep_id = '{sweep_id}'" if sweep_id else ""
    job, arm = f"tags.kind = 'job'{within}", f"tags.kind = 'arm'{within}"
    saved = (
        SavedView(
            key=f"charts{tail}",
            name=f"Arms{of_sweep}: mean and range over seeds",
            filter=job,
            widths=RUN_WIDTHS,
            group_by=tuple(group_by),
        ),
        SavedView(key=f"runs{tail}", name=f"Runs{of_sweep}, by pass@1", filter=job, widths=RUN_WIDTHS),
        SavedView(key=f"arms{tail}", name=f"Arms{of_sweep}: intervals and differences", filter=arm, widths=ARM_WIDTHS),
    )
    return {view.key.removesuffix(tail) if tail else view.key: view for view in saved}


def missing(there: Container[str], sweep_id: str, group_by: Sequence[str]) -> list[tuple[str, str]]:
    """Tags that an experiment with the tags `there` still needs, for the sweep and for all runs.

    An existing view stays, since a reader may have changed it, unless `arm` alone does not distinguish these arms.
    """
    own = [view.tag for view in views(sweep_id, group_by).values()]
    every = [view.tag for view in views().values()] if sweep_id else []
    is_finer = tuple(group_by) != BY_ARM
    return [tag for tag in own if is_finer or tag[0] not in there] + [tag for tag in every if tag[0] not in there]


def _chart(metric: str) -> dict[str, Any]:
    """A line over attempts. MLflow's default smoothing would draw points that were not measured."""
    return {
        "uuid": metric,
        "type": "LINE",
        "metricKey": metric,
        "metricSectionId": metric.partition("/")[0],
        "xAxisKey": "step",
        "useGlobalXaxisKey": False,
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": False,
    }


def _section(name: str, is_open: bool) -> dict[str, Any]:
    """One chart per row: with three abreast, a legend shows two arms."""
    return {"uuid": name, "name": name, "display": is_open, "isReordered": True, "columns": 1, "cardHeight": 440}
