from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.tracking import arm_runs

SOLVED = {
    "feedback_only": ((1, 0, 0, 0), (1, 2, 0, 0)),
    "reflexion": ((1, 2, 3, 0), (1, 2, 0, 3)),
    "oracle": ((1, 2, 3, 2), (1, 2, 3, 3)),
}


@pytest.fixture
def undrawn(monkeypatch):
    """Reports without figures."""
    monkeypatch.setattr("reflexion_lab.analysis.report.documents.save_figures", lambda *_, **__: [])


def test_arms_and_their_runs_as_mlflow_holds_them(tracker, run, logged, monkeypatch):
    """Three arms of two seeds; the first run was there before."""
    from mlflow import MlflowClient

    folders = [
        run(
            f"{arm}-{seed}",
            solved_at=solved,
            arm=arm,
            seed=seed,
            feedback_source="oracle" if arm == "oracle" else "visible",
        )
        for arm, by_seed in SOLVED.items()
        for seed, solved in enumerate(by_seed)
    ]
    tracker.track(folders[0])
    links, client, jobs = tracker.track_arms(folders), MlflowClient(tracker.uri), logged()
    by_arm = {run.data.params["summary_of"]: run for run in logged("arm")}
    metrics = {(run.data.params["arm"], run.data.params["seed"]): run.data.metrics for run in jobs}

    # One summary an arm, and every run once; grouping by arm takes jobs alone.
    assert sorted(by_arm) == sorted(SOLVED) and len(logged("arm")) == len(SOLVED)
    assert sorted(run.data.tags["run_id"] for run in jobs) == sorted(f"{folder.name}-id" for folder in folders)
    assert not [run for run in by_arm.values() if "arm" in run.data.params]

    # Without prices no cost, in either kind of run: 0 would be read as free.
    assert not [name for run in [*jobs, *by_arm.values()] for name in run.data.metrics if name.endswith("cost")]

    # Every curve has every step; that of a summary has an interval.
    for job in (job for job in jobs if job.data.params["arm"] != "oracle"):
        for key in ("curve/pass_at_1", "curve/reward", "curve/visible_pass", "usage/tokens_cum"):
            assert [point.step for point in client.get_metric_history(job.info.run_id, key)] == [1, 2, 3]
    own_id = by_arm["reflexion"].info.run_id
    low, mean, high = (
        [(point.step, point.value) for point in client.get_metric_history(own_id, f"curve/pass_at_1{end}")]
        for end in ("_low", "", "_high")
    )
    assert mean == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert all(a[1] < b[1] < c[1] for a, b, c in zip(low, mean, high, strict=True))

    check_differences(folders, by_arm["reflexion"].data)
    assert not [key for key in by_arm["feedback_only"].data.metrics if "as_run" in key or "equal" in key]
    check_upper_bound(by_arm["oracle"].data)

    # A run has the difference to the baseline of its seed, and no p.
    assert [metrics["reflexion", seed]["final/pass_at_1_as_run"] for seed in ("0", "1")] == [0.5, 0.25]
    assert metrics["oracle", "0"]["final/upper_bound_as_run"] == 0.75
    assert "final/pass_at_1_as_run" not in metrics["oracle", "0"].keys() | metrics["feedback_only", "0"].keys()
    assert not [key for key in metrics["reflexion", "0"] if key.startswith("final/pass_at_1_as_run_")]

    for summary in by_arm.values():
        names = {item.path for item in client.list_artifacts(summary.info.run_id)}
        assert {"report.md", "report.html"} <= names
        assert [name for name in names if name.endswith((".svg", ".png"))]

    # Links filter by kind and sweep.
    assert set(links) == {"arms", "runs", "charts"}
    filters = {name: parse_qs(link.partition("?")[2]) for name, link in links.items()}
    assert filters["arms"]["searchFilter"] == ["tags.kind = 'arm' and tags.sweep_id = 'sweep-7'"]
    assert filters["charts"]["compareRunsMode"] == ["CHART"]

    # Tracked again, summaries alone are renewed.
    monkeypatch.setattr("reflexion_lab.analysis.report.documents.save_figures", lambda *_: [])
    former = {run.info.run_id for run in by_arm.values()}
    assert tracker.track_arms(folders) == links
    renewed = {run.info.run_id for run in logged("arm")}
    assert sorted(run.info.run_id for run in logged()) == sorted(run.info.run_id for run in jobs)
    assert not former & renewed and len(former) == len(renewed)


def check_differences(folders, data):
    row = next(row for row in compare(arms(folders)).rows if row.arm == "reflexion")
    metrics, tags = data.metrics, data.tags
    as_run, price = row.differences["as_run"], row.differences["equal_tokens"].price
    assert metrics["final/pass_at_1_as_run"] == 0.375
    pairs = {
        "final/pass_at_1_as_run": as_run.value, "final/pass_at_1_as_run_low": as_run.low,
        "final/pass_at_1_as_run_high": as_run.high, "final/pass_at_1_as_run_p": as_run.p,
        "final/pass_at_1_as_run_p_tasks": as_run.p_tasks, "final/pass_at_1_as_run_p_holm": as_run.p_holm,
        "final/pass_at_1_as_run_n": as_run.n,
        "final/pass_at_1_equal_tokens": row.differences["equal_tokens"].value,
        "final/price_ratio_equal_tokens": price.ratio, "final/price_break_even_equal_tokens": price.break_even,
        "final/pass_at_1_equal_attempts": row.differences["equal_attempts"].value,
        "final/pass_at_1_equal_completion_tokens": row.differences["equal_completion_tokens"].value,
        "final/pass_at_1": row.final.value, "final/pass_at_1_area": row.number("pass_at_1_area"), "final/repair": 4 / 6,
        "final/tokens": row.of.usage.tokens, "final/n": row.final.n, "final/seeds": 2,
    }  # fmt: skip
    assert {key: metrics[key] for key in pairs} == pytest.approx(pairs, rel=1e-5)
    expected = {
        "baseline": "feedback_only",
        "interval": f"[{row.final.low:.3f}, {row.final.high:.3f}]",
        "verdict": as_run.verdict,
    }
    assert {key: tags[key] for key in expected} == expected
    note = tags["mlflow.note.content"]
    assert all(text in note for text in ("75.0", as_run.verdict, "MDE", "exploratory"))


def check_upper_bound(oracle):
    assert not [key for key in oracle.metrics if "pass_at_1" in key]
    assert oracle.metrics["final/upper_bound"] == 1.0
    assert oracle.metrics["final/upper_bound_as_run"] == 0.625
    final = [key for key in oracle.metrics if key.startswith("final/")]
    assert not [key for key in final if key.endswith(("_p", "_p_holm"))]  # it claims nothing
    note = oracle.tags["mlflow.note.content"]
    assert [text for text in ("Holm", "p = ", "detected", "size below", "undecided") if text in note] == []
    assert "UPPER BOUND" in note
    assert oracle.tags["verdict"] == "UPPER BOUND"


@pytest.mark.usefixtures("undrawn")
def test_a_difference_belongs_to_the_newest_comparison(tracker, run, logged):
    def differences():
        return {
            job.data.params["arm"]: (job.data.metrics.get("final/pass_at_1_as_run"), job.data.tags.get("difference_to"))
            for job in logged()
        }

    solved = {"simple": (1, 0, 0, 0), "retry": (1, 2, 0, 0), "reflexion": (1, 2, 3, 0)}
    folders = [run(arm, solved_at=at, arm=arm) for arm, at in solved.items()]
    tracker.track_arms(folders, baseline="simple")
    assert differences() == {"simple": (None, None), "retry": (0.25, "simple"), "reflexion": (0.5, "simple")}
    tracker.track_arms(folders, baseline="reflexion")
    assert differences() == {"simple": (-0.5, "reflexion"), "retry": (-0.25, "reflexion"), "reflexion": (None, None)}


@pytest.mark.usefixtures("undrawn")
def test_only_summaries_of_the_same_runs_are_replaced(tracker, run, logged):
    def summaries():
        return sorted(f"{arm.data.tags['benchmark_digest'][:1]} {arm.info.run_name}" for arm in logged("arm"))

    first, other = ([run(f"{name}-{seed}", seed=seed) for seed in (0, 1)] for name in ("first", "other"))
    for folder in other:
        manifest = folder / "manifest.json"
        manifest.write_text(manifest.read_text().replace("d" * 64, "e" * 64))
    tracker.track_arms(first)
    tracker.track_arms(other)
    assert summaries() == ["d reflexion, 2 seeds", "e reflexion, 2 seeds"]
    wider = [run(f"wider-{seed}", seed=seed, recall__omega=3) for seed in (0, 1)]
    tracker.track_arms([*first, *wider])
    assert summaries() == ["d Ω1 reflexion, 2 seeds", "d Ω3 reflexion, 2 seeds", "e reflexion, 2 seeds"]
    assert {arm.data.tags["label"] for arm in logged("arm")} == {f"reflexion recall.omega={o}" for o in (1, 3)} | {
        "reflexion"
    }


def test_runs_are_tagged_with_short_names_of_their_arms(tracker, run, logged, undrawn):
    sizes = [run(f"{n}-{seed}", seed=seed, recall__omega=n, sweep_id="s-1") for n in (0, 3) for seed in (0, 1)]
    tracker.track_arms(sizes)
    assert sorted(job.data.tags["name"] for job in logged("job")) == ["Ω0", "Ω0", "Ω3", "Ω3"]
    tracker.track(sizes[0])
    assert sorted(job.data.tags["name"] for job in logged("job")) == ["Ω0", "Ω0", "Ω3", "Ω3"]


def test_a_note_names_the_study_and_marks_a_budget_that_did_not_match(run):
    both = arms([run(f"{arm}-{seed}", arm=arm, seed=seed) for arm in ("feedback_only", "reflexion") for seed in (0, 1)])
    comparison = compare(both, unit="calls")
    row = comparison.rows[1]
    assert "not matched" not in arm_runs.note(row, comparison) and "exploratory" in arm_runs.note(row, comparison)
    at = replace(row.differences["equal_calls"], matched=False, reasons="")
    logs = [replace(log, manifest=replace(log.manifest, study="words help")) for log in both[1].logs]
    note = arm_runs.note(replace(row, of=Arm("a", logs), differences=row.differences | {"equal_calls": at}), comparison)
    assert "not matched" in note and "registered: words help (equal calls; other comparisons are exploratory)" in note


def test_runs_of_several_studies_and_unfinished_ones_make_no_arm(tracker, run):
    first, second = run("first", seed=0), run("second", seed=1)
    folder = RunFolder.existing(second)
    folder.write_manifest(replace(folder.manifest, study="another"))
    with pytest.raises(ValueError, match="another, none, expected runs of one study"):
        tracker.track_arms([first, second])
    with pytest.raises(ValueError, match="finish it with the same command and resume="):
        tracker.track_arms([run(n_expected=5)])
