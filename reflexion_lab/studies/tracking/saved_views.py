"""Saved views of MLflow's runs page, which are tags of an experiment, and links to them.

MLflow stores sorting, columns and grouping in the reader's browser: a plain link shows ten runs by time. A saved view,
in the menu at the top of the runs page of MLflow 3.17, brings its own; older versions ignore it.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any
from urllib.parse import quote

TAG = "mlflow.sharedViewState."
RUN_WIDTHS = {
    "attributes.`Run Name`": 185,
    "runDateAndNestInfo": 40,  # the mark of success, which MLflow always shows
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
CURVES = ("curve/pass_at_1", "curve/upper_bound")
OPEN_CHARTS = (*CURVES, "curve/visible_pass")
"""Metrics of the first charts; MLflow adds one for every other metric."""
SECTIONS = {"curve": True, "final": False, "memory": False, "reflections": False, "usage": False}
"""Sections of charts by the prefix of their metrics, and which of them are open."""


def links(site: str, experiment_id: str, sweep_id: str = "") -> dict[str, str]:
    """Addresses of the views `arms`, `runs` and `charts` of a sweep, or of all runs."""
    page = f"{site}/#/experiments/{experiment_id}/runs"
    modes = {"arms": "", "runs": "", "charts": "compareRunsMode=CHART&"}
    return {
        name: f"{page}?{mode}workflowType=machine_learning&viewStateShareKey={quote(_key(name, sweep_id), safe='')}"
        for name, mode in modes.items()
    }


def views(sweep_id: str = "", span: tuple[float, float] | None = None) -> dict[str, str]:
    """Tags with the views of one sweep, or of all runs: charts of arms, runs, and arms with intervals.

    Charts draw one mean and one band, minimum to maximum, per arm.

    Parameters
    ----------
    span : tuple[float, float] | None, optional
        Once the arms of a sweep are compared: the range of their curves. Charts then group by the tag `name`, the short
        name of an arm, instead of the parameter `arm`, which arms of one sweep can share.
    """
    of_sweep, within = (f" of sweep {sweep_id}", f" and tags.sweep_id = '{sweep_id}'") if sweep_id else ("", "")
    jobs, arms = f"tags.kind = 'job'{within}", f"tags.kind = 'arm'{within}"
    names = {
        "charts": f"Arms{of_sweep}: mean and range over seeds",
        "runs": f"Runs{of_sweep}, by pass@1",
        "arms": f"Arms{of_sweep}: intervals and differences",
    }
    states = {
        "charts": _state(jobs, RUN_WIDTHS) | _grouped(span),
        "runs": _state(jobs, RUN_WIDTHS),
        "arms": _state(arms, ARM_WIDTHS),
    }
    return {
        TAG + _key(name, sweep_id): json.dumps(
            {"name": names[name], "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)}
        )
        for name, state in states.items()
    }


def missing(there: Container[str], sweep_id: str, span: tuple[float, float] | None = None) -> dict[str, str]:
    """Tags that an experiment with the tags `there` still needs, for the sweep and for all runs.

    An existing view stays, since a reader may have changed it; but the charts of a sweep follow its arms (`span`).
    """
    own, every = views(sweep_id, span if sweep_id else None), views()
    renewed = {TAG + _key("charts", sweep_id)} if sweep_id and span else set()
    return {key: tag for key, tag in (own | every).items() if key not in there or key in renewed}


def _key(name: str, sweep_id: str) -> str:
    return f"{name}-{sweep_id}" if sweep_id else name


def _state(runs: str, widths: dict[str, int]) -> dict[str, Any]:
    """A table sorted by pass@1. `runs`: MLflow's filter."""
    return {
        "searchFilter": runs,
        "orderByKey": "metrics.`final/pass_at_1`",
        "orderByAsc": False,
        "lifecycleFilter": "Active",
        "startTime": "ALL",
        "selectedColumns": [key for key in widths if "." in key],
        "columnOrder": list(widths),
        "columnWidths": widths,
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
    }


def _grouped(span: tuple[float, float] | None) -> dict[str, Any]:
    key = {"mode": "tag", "groupByData": "name"} if span else {"mode": "param", "groupByData": "arm"}
    return {
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [key]},
        "useGroupedValuesInCharts": True,
        "compareRunCharts": [_chart(metric, span if metric in CURVES else None) for metric in OPEN_CHARTS],
        "compareRunSections": [_section(name, is_open) for name, is_open in SECTIONS.items()],
        "isAccordionReordered": True,  # else they are sorted, and new ones put between them
    }


def _chart(metric: str, span: tuple[float, float] | None) -> dict[str, Any]:
    """A line over attempts. MLflow's default smoothing would draw points that were not measured, and its axis begins at
    0 without a range.
    """
    limits = {"range": {"yMin": round(span[0], 3), "yMax": round(span[1], 3)}} if span else {}
    return limits | {
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
