from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reflexion_lab.studies.tracking.mlflow import MlflowTracker, TrackerError
from reflexion_lab.studies.tracking.traces import TraceWriter

Run = Callable[..., Path]


@pytest.fixture
def traced(tracker: MlflowTracker) -> Callable[[], list[Any]]:
    """Reads back the traces of the experiment, spans included."""
    from mlflow import MlflowClient

    def read() -> list[Any]:
        client = MlflowClient(tracker.uri)
        place = client.get_experiment_by_name("trial").experiment_id
        return list(client.search_traces(locations=[place], max_results=500))

    return read


def showing(tracker: MlflowTracker, traces: float, most: int = 1000) -> MlflowTracker:
    return MlflowTracker(tracker.uri, experiment="trial", traces=traces, max_traces=most)


def test_nothing_is_traced_unless_asked_for(tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]]) -> None:
    tracker.track(run())
    assert traced() == []


def test_every_attempt_of_the_drawn_tasks_is_a_trace_of_its_run(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]], logged: Callable[..., list[Any]]
) -> None:
    showing(tracker, 1.0).track(run(solved_at=(1, 2, 3, 0)))
    (job,), found = logged(), traced()
    assert len(found) == 9
    assert {trace.info.trace_metadata["mlflow.sourceRun"] for trace in found} == {job.info.run_id}
    assert {(trace.info.tags["task_id"], trace.info.tags["attempt"]) for trace in found} >= {("t/2", "3"), ("t/3", "1")}
    assert {str(trace.info.state.value) for trace in found} == {"OK"}


def test_a_trace_reads_back_with_roles_tokens_and_verdicts(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]]
) -> None:
    showing(tracker, 1.0).track(run(solved_at=(2,), n_expected=1))
    first = next(trace for trace in traced() if trace.info.tags["attempt"] == "1")
    root, *inner = first.data.spans
    assert [span.name for span in inner] == ["actor", "evaluator", "reflector"]
    assert [span.span_type for span in (root, *inner)] == ["AGENT", "LLM", "EVALUATOR", "LLM"]
    assert {span.parent_id for span in inner} == {root.span_id}
    assert first.info.token_usage == {"input_tokens": 87, "output_tokens": 23, "total_tokens": 110}
    assert root.name == "attempt 1: t/0"
    assert first.info.request_preview == first.info.tags["mlflow.traceName"] == "t/0, attempt 1: reflexion s0"
    assert first.info.response_preview == "feedback: fail; graded after the loop: fail"
    assert root.outputs["program"] == "```python\nx\n```"
    assert inner[1].outputs["outcome"] == first.info.tags["feedback"] == "fail"
    assert first.info.tags["graded after the loop"] == "fail"
    assert first.info.tags["arm"] == "reflexion"


def test_traces_of_tasks_with_long_names_keep_to_their_sessions(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]]
) -> None:
    folder = run(solved_at=(0, 0), n_expected=2)
    for path in folder.glob("*.jsonl"):
        path.write_text(path.read_text().replace("t/", "long" * 75))
    showing(tracker, 1.0).track(folder)
    sessions = {trace.info.tags["task_id"]: trace.info.trace_metadata["mlflow.trace.session"] for trace in traced()}
    assert len(sessions) == len(set(sessions.values())) == 2


def test_no_secret_of_the_config_is_in_a_trace(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]]
) -> None:
    showing(tracker, 1.0).track(run(solved_at=(0,), n_expected=1))
    text = "".join(trace.to_json() for trace in traced())
    assert "t/0" in text
    assert not [secret for secret in ("hunter2", "abc", "SOME_API_KEY", "/home/someone") if secret in text]


def test_tracking_again_replaces_the_traces(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]], logged: Callable[..., list[Any]]
) -> None:
    path = run(solved_at=(1, 2), n_expected=2)
    showing(tracker, 1.0).track(path)
    showing(tracker, 1.0).track(path)
    assert len(traced()) == 3
    assert {trace.info.trace_metadata["mlflow.sourceRun"] for trace in traced()} == {logged()[0].info.run_id}
    tracker.track(path)
    assert traced() == []


def test_a_cap_ends_them_and_says_so(
    tracker: MlflowTracker, run: Run, traced: Callable[[], list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    showing(tracker, 1.0, most=4).track(run(solved_at=(1, 2, 3, 0)))
    assert len(traced()) == 4
    assert "4 of 9 attempts written; tracker.max_traces ends them" in capsys.readouterr().err


def test_a_failure_within_traces_leaves_the_former_run(
    tracker: MlflowTracker, run: Run, logged: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(solved_at=(1, 2), n_expected=2)
    tracker.track(path)
    (former,) = logged()

    def broken(*_: object) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(TraceWriter, "write", broken)
    with pytest.raises(TrackerError, match=r"no space left.*the run is safe in its folder"):
        showing(tracker, 1.0).track(path)
    assert [found.info.run_id for found in logged()] == [former.info.run_id]


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"tracker\.traces"):
        TraceWriter(share)


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tracker\.max_traces"):
        TraceWriter(1.0, 0)
