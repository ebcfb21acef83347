"""Writes the traces of a run that has ended.

MLflow's own exporter takes each trace for itself, about 17 a second. Here their heads are written first and the spans
of many at once: spans that find their head need no second look.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Usage
from reflexion_lab.studies.tracking.spans import AFTER, Placed, Trace, drawn, traces

BATCH = 50
"""Traces written at once."""
DELETED_AT_ONCE = 100
"""Traces that MLflow deletes by id in one call, at most."""


class TraceWriter:
    """Writes and removes the traces of runs.

    Parameters
    ----------
    share : float, default 0.0
        Of the tasks, in [0, 1]; above 1, so many tasks.
    most : int, default 1000
        Attempts of one run, at most.

    Raises
    ------
    ConfigError
        An argument is impossible.
    """

    def __init__(self, share: float = 0.0, most: int = 1000) -> None:
        if not (0 <= share <= 1 or (share > 1 and share == int(share))):
            raise ConfigError("tracker.traces", share, "a share of the tasks in [0, 1], or a number of them")
        if most < 1:
            raise ConfigError("tracker.max_traces", most, "1 or more")
        self.share = share
        self.most = most

    def write(self, client: Any, experiment_id: str, run_id: str, log: Log, began: int) -> int:
        """Write the traces of `log` beside MLflow's run; returns how many. `began`: milliseconds since the epoch."""
        tasks = drawn(list(log.attempts), self.share, log.manifest.seed)
        total = sum(len(log.attempts[task_id]) for task_id in tasks)
        if not total:
            return 0
        from tqdm.auto import tqdm

        records = islice(traces(log, tasks, began * 1_000_000), self.most)
        with tqdm(total=min(total, self.most), unit="trace", desc="traces", leave=False, disable=None) as bar:
            while batch := list(islice(records, BATCH)):
                _write(client.tracking_uri, experiment_id, run_id, batch)
                bar.update(len(batch))
        if total > self.most:
            print(f"traces: {self.most} of {total} attempts written; tracker.max_traces ends them", file=sys.stderr)
        return min(total, self.most)


def remove(client: Any, experiment_id: str, run_id: str) -> None:
    """Delete every trace of MLflow's run."""
    where = f"metadata.`mlflow.sourceRun` = '{run_id}'"
    while stored := client.search_traces(
        locations=[experiment_id], filter_string=where, include_spans=False, max_results=DELETED_AT_ONCE
    ):
        client.delete_traces(experiment_id, trace_ids=[trace.info.trace_id for trace in stored])


def _write(uri: str, experiment_id: str, run_id: str, batch: Sequence[Trace]) -> None:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

    client = TracingClient(uri)
    for trace in batch:
        client.start_trace(_head(trace, experiment_id, run_id))
    spans = [_span(placed, number, _id(trace, run_id)) for trace in batch for number, placed in enumerate(trace.placed)]
    client.log_spans(experiment_id, [Span.from_dict(span) for span in spans])


def _head(trace: Trace, experiment_id: str, run_id: str) -> Any:
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    usage = _tokens([placed.span.usage for placed in trace.placed])
    tags = trace.tags
    arm = f"{tags['arm']} s{tags['seed']}"
    name = f"{tags['task_id']}, attempt {tags['attempt']}: {arm}"
    return TraceInfo(
        trace_id=_id(trace, run_id),
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=trace.began // 1_000_000,
        state=TraceState.OK,
        execution_duration=trace.span.lasted // 1_000_000,
        request_preview=name,
        response_preview=f"feedback: {tags['feedback']}; {AFTER}: {tags[AFTER]}",
        tags={"mlflow.traceName": name, **tags},
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace.session": _fitting(
                f"{tags['task_id']} {arm} {tags['run_id']}"
            ),  # a column of a few characters
            "mlflow.trace.tokenUsage": json.dumps(usage),
        },
    )


def _fitting(session: str) -> str:
    """A session's id within the 250 characters that MLflow takes, different for different sessions."""
    if len(session) <= 250:
        return session
    return f"{session[:230]}… {hashlib.sha256(session.encode()).hexdigest()[:16]}"


def _span(placed: Placed, number: int, trace_id: str) -> dict[str, Any]:
    """As MLflow's `Span.from_dict` reads it; attributes are JSON each."""
    span = placed.span
    attributes = {
        "mlflow.traceRequestId": json.dumps(trace_id),
        "mlflow.spanType": json.dumps(span.kind),
        "mlflow.spanInputs": span.inputs,
        "mlflow.spanOutputs": span.outputs,
    }
    if span.usage.calls:
        attributes["mlflow.chat.tokenUsage"] = json.dumps(_tokens([span.usage]))
    return {
        "trace_id": trace_id,
        "span_id": _span_id(number),
        "parent_span_id": None if placed.parent is None else _span_id(placed.parent),
        "name": span.name,
        "start_time_unix_nano": placed.began,
        "end_time_unix_nano": placed.began + span.lasted,
        "status": {"code": "OK", "message": ""},
        "attributes": attributes,
        "events": [],
    }


def _id(trace: Trace, run_id: str) -> str:
    name = f"{run_id}/{trace.tags['task_id']}/{trace.tags['attempt']}"
    return f"tr-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _span_id(number: int) -> str:
    return f"{number + 1:016x}"


def _tokens(usages: Iterable[Usage]) -> dict[str, int]:
    total = sum(usages, Usage())
    return {
        "input_tokens": total.prompt_tokens,
        "output_tokens": total.completion_tokens,
        "total_tokens": total.tokens,
    }
