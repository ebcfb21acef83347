import json

from reflexion_lab.studies.tracking.saved_views import TAG, links, missing, views


def state(name, sweep_id="", span=None):
    tags = views(sweep_id, span)
    view = json.loads(tags[f"{TAG}{name}-{sweep_id}" if sweep_id else TAG + name])
    assert isinstance(view["name"], str)
    assert isinstance(view["createdAt"], int)
    return dict(json.loads(view["state"]))


def test_views_hide_no_run_and_sort_by_pass_at_1():
    for name in ("runs", "arms", "charts"):
        page = state(name)
        assert (page["orderByKey"], page["orderByAsc"]) == ("metrics.`final/pass_at_1`", False)
        assert page["runsHiddenMode"] == "SHOW_ALL"


def test_the_columns_fit_into_a_window():
    runs, arms = state("runs")["selectedColumns"], state("arms")["selectedColumns"]
    shared = ["params.`feedback_source`", "metrics.`final/n`", "metrics.`final/pass_at_1`", "tags.`interval`"]
    for columns in (runs, arms):
        assert [column for column in columns if column in shared] == shared
        assert "metrics.`usage/tokens`" in columns
    assert {"params.`arm`", "metrics.`final/difference`"} <= set(runs)
    assert {"tags.`difference`", "tags.`p_holm`", "tags.`at_equal_tokens`"} <= set(arms)
    for name in ("runs", "arms"):
        widths = state(name)["columnWidths"]
        boxes, bound = 75, widths["metrics.`final/upper_bound`"]  # shown only if a run has it
        assert sum(widths.values()) + boxes - bound < 1140  # what a window of 1400 has left


def test_charts_draw_one_mean_and_band_an_arm_of_single_runs():
    page = state("charts")
    assert page["searchFilter"] == "tags.kind = 'job'"
    assert page["groupBy"] == {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "arm"}]}
    assert page["useGroupedValuesInCharts"] is True
    first = page["compareRunCharts"][0]
    assert first["metricKey"] == "curve/pass_at_1"
    assert (first["lineSmoothness"], first["useGlobalLineSmoothing"]) == (0, False)
    assert first["metricSectionId"] in {section["uuid"] for section in page["compareRunSections"] if section["display"]}


def test_a_sweep_has_views_of_its_own():
    assert state("charts", "s-1")["searchFilter"] == "tags.kind = 'job' and tags.sweep_id = 's-1'"
    assert state("arms", "s-1")["searchFilter"] == "tags.kind = 'arm' and tags.sweep_id = 's-1'"
    assert not views("s-1").keys() & views().keys()


def test_links_name_the_views():
    page = links("http://host:5000", "7", "a b")
    assert page["charts"].startswith("http://host:5000/#/experiments/7/runs?compareRunsMode=CHART&")
    assert page["charts"].endswith("viewStateShareKey=charts-a%20b")
    assert page["arms"].endswith("?workflowType=machine_learning&viewStateShareKey=arms-a%20b")
    assert links("http://host:5000", "7")["runs"].endswith("viewStateShareKey=runs")


def test_existing_views_stay_but_the_charts_of_a_sweep_follow_its_arms():
    existing = list(missing((), "s-1"))
    assert len(existing) == 6
    assert missing(existing, "s-1") == {}
    assert list(missing(existing, "s-1", (0.5, 1.0))) == [f"{TAG}charts-s-1"]
    assert missing(existing, "", (0.5, 1.0)) == {}


def test_charts_of_compared_arms_group_by_short_name_and_begin_where_the_data_do():
    page = state("charts", "s-1", (0.41, 0.97))
    assert page["groupBy"]["groupByKeys"] == [{"mode": "tag", "groupByData": "name"}]
    ranges = {chart["metricKey"]: chart.get("range") for chart in page["compareRunCharts"]}
    assert ranges["curve/pass_at_1"] == {"yMin": 0.41, "yMax": 0.97}
    assert ranges["curve/visible_pass"] is None


def test_a_view_fits_into_a_tag():
    assert all(len(tag) < 5000 for tag in views("s" * 60, (0.123, 0.987)).values())
