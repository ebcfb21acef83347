"""The same seed gives the same bytes for any number of workers: results by task, without ids, times and cache marks."""

import random
import time

import pytest

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.summary import Log, bare, canonical_form, differences, figures
from reflexion_lab.records import Usage
from reflexion_lab.runner.config.compose import compose
from tests.builders import canonical_bytes, scripted
from tests.studies.small_runs import run_lab

SHARED = (
    "recall=window_then_similar", "recall.min_score=0", "recall.omega=adaptive", "retriever=jaccard",
    "memory.shared.round_size=4", "memory.shared.priors=true", "memory.show_session=true",
    "memory.shared.shown={wisdom:2,mistakes:1,insights:2}",
)  # fmt: skip


class Unsteady(ScriptedModel):
    """Fails, reflects, and finds its way by what it reads; every call takes another time."""

    def __init__(self, seed):
        super().__init__(self.answer, name="unsteady")
        self.random = random.Random(seed)

    def answer(self, messages):
        time.sleep(self.random.random() / 100)
        text = messages[-1].content
        if "ROOT_CAUSE" in text:
            return f"ROOT_CAUSE: c{len(text) % 7}\nWHAT_WENT_WRONG: w\nWHAT_TO_CHANGE: look again\nCONFIDENCE: 0.6\n"
        return f"\n    return {len(text) % 5}\n"


def carried_out(tmp_path, workers, *overrides):
    cfg = compose(
        *scripted(tmp_path), f"run_root={tmp_path / str(workers)}", "benchmark.limit=12",
        "tracker=none", "quiet=true", f"workers={workers}", "seed=3", *overrides,
    )  # fmt: skip
    # In the place of the script.
    return Log.read(run_lab(cfg, lambda lab: setattr(lab.model, "_model", Unsteady(workers))).folder)


@pytest.mark.parametrize("overrides", [
    pytest.param((), id="alone", marks=pytest.mark.slow), pytest.param(SHARED, id="shared"),
    pytest.param((*SHARED, "store=sqlite"), id="stored", marks=pytest.mark.slow),
])  # fmt: skip
@pytest.mark.slow
def test_one_two_and_eight_workers_write_the_same_bytes(tmp_path, overrides):
    single, two, eight = (carried_out(tmp_path, workers, *overrides) for workers in (1, 2, 8))
    assert canonical_bytes(single) == canonical_bytes(two) == canonical_bytes(eight)
    assert figures(single) == figures(two) == figures(eight)
    assert len(canonical_form(single)) == 12
    if overrides:  # tasks did learn from each other
        recalled = [name for attempt in single.every for name in attempt.recalled if f"/{attempt.task_id}-" not in name]
        assert recalled


def test_another_reply_gives_another_canonical_form(tmp_path):
    log = carried_out(tmp_path, 2)
    before, other = canonical_form(log), canonical_form(log)
    task = next(iter(other))
    other[task]["attempts"][0]["trajectory"]["solution"] += "#"
    ((place, _, _),) = differences(before, other)
    assert place == f"{task}.attempts[0].trajectory.solution"


def test_ids_times_and_cache_marks_are_not_in_the_canonical_form():
    early = {"recalled": ["ep-run-1/t-1"], "usage": Usage(seconds=1.0, calls=2), "cached": True, "timestamp": 5.0}
    late = {"recalled": ["ep-run-2/t-1"], "usage": Usage(seconds=2.0, calls=2), "cached": False, "timestamp": 6.0}
    assert bare(early, "run-1") == bare(late, "run-2")
    assert bare(early, "run-1") != bare({**late, "usage": Usage(calls=3)}, "run-2")


def test_differences_name_every_place_in_order():
    first, other = {"a": [1, {"b": 2}], "c": 3, "d": 4}, {"a": [1, {"b": 5}, 6], "c": 3, "e": None}
    assert list(differences(first, other)) == [("a[1].b", 2, 5), ("a[2]", None, 6), ("d", 4, None)]
    assert list(differences(first, first)) == []
