"""SIGKILL at any moment of a run and of a sweep: what is resumed ends as if nothing had happened."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from reflexion_lab.analysis.summary import bare
from reflexion_lab.records import Episode, Mistake, Session, Wisdom
from reflexion_lab.storage.place import opened

LEARNS = ("store=sqlite", "memory.shared.shown.wisdom=2", "memory.shared.round_size=2", "arm=learns")
SWEEP = ("-m", "recall.omega=0,1")


def moments(n, seed):
    """Shares of a life, one in each n-th part of it: start-up, loops, seal, summary, figures, tracker."""
    drawn = random.Random(seed)
    return [(part + drawn.random()) / n for part in range(n)]


def remembered(lab):
    """What memory holds, without the run's own id and times; nothing of it twice."""
    with closing(opened(lab.runs / "memory.sqlite")) as store:
        records = {kind.__name__: list(store.read(kind)) for kind in (Episode, Wisdom, Mistake, Session)}
    names = [(episode.task_id, episode.attempt_number) for episode in records["Episode"]]
    assert len(set(names)) == len(names) > 0
    return bare(records, lab.folders[0].name)


def disturbed(lab, seconds, kills, share, seed):
    """Kill the command, and what resumes it, then let it end; how often it was killed."""
    drawn, is_sweep = random.Random(seed), "-m" in lab.overrides
    for kill in range(kills):
        process = lab.start(*([] if is_sweep else lab.resume))
        # what resumes takes less, since its replies are there
        if not lab.killed(process, seconds * (share if kill == 0 else drawn.random())):
            return kill
    lab.run(*([] if is_sweep else lab.resume))
    return kills


def check_a_run(place, undisturbed, outcome, overrides, share, kills, seed):
    (whole,), calls, seconds, reference = undisturbed(*overrides)
    lab = place(*overrides)
    killed = disturbed(lab, seconds, kills, share, seed)
    (folder,) = lab.folders
    assert outcome(folder) == whole
    assert lab.stored == calls
    lab.check(killed)
    if overrides == LEARNS:
        assert remembered(lab) == remembered(reference)


def check_a_sweep(place, undisturbed, outcome, share, kills, seed):
    whole, calls, seconds, _ = undisturbed(*SWEEP)
    lab = place(*SWEEP)
    killed = disturbed(lab, seconds, kills, share, seed)
    assert sorted(map(str, map(outcome, lab.folders))) == sorted(map(str, whole))
    assert lab.stored == calls
    lab.check(killed)


@pytest.mark.parametrize(("share", "kills"), [pytest.param(0.55, 2, marks=pytest.mark.soak), (0.9, 1)])
@pytest.mark.slow
def test_a_run_that_was_killed_ends_as_if_it_had_not_been(place, undisturbed, outcome, share, kills):
    check_a_run(place, undisturbed, outcome, (), share, kills, seed=1)


@pytest.mark.slow
@pytest.mark.soak
def test_a_run_that_was_killed_remembers_nothing_twice(place, undisturbed, outcome):
    check_a_run(place, undisturbed, outcome, LEARNS, 0.65, kills=1, seed=2)


@pytest.mark.slow
def test_a_sweep_that_was_killed_ends_as_if_it_had_not_been(place, undisturbed, outcome):
    check_a_sweep(place, undisturbed, outcome, 0.75, kills=2, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("overrides", [(), LEARNS], ids=["alone", "learns"])
def test_a_run_may_be_killed_at_a_hundred_moments(place, undisturbed, outcome, overrides):
    for number, share in enumerate(moments(50, seed=4)):
        check_a_run(place, undisturbed, outcome, overrides, share, kills=1 + number % 2, seed=number)


@pytest.mark.soak
def test_a_sweep_may_be_killed_at_a_hundred_moments(place, undisturbed, outcome):
    for number, share in enumerate(moments(100, seed=5)):
        check_a_sweep(place, undisturbed, outcome, share, kills=1 + number % 2, seed=number)


@pytest.mark.soak
def test_mlflow_shows_a_run_once_whenever_it_was_killed(place, undisturbed):
    """Mostly killed while it is tracked, which comes last."""
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    overrides = ("tracker=mlflow", "arm=tracked")
    _, _, seconds, _ = undisturbed(*overrides)
    for share in (0.3 + 0.7 * share for share in moments(12, seed=6)):
        lab = place(*overrides)
        killed = disturbed(lab, seconds, 1, share, seed=7)
        lab.check(killed)
        client = MlflowClient(f"sqlite:///{lab.runs / 'mlflow.db'}")
        (experiment,) = [outcomes for outcomes in client.search_experiments() if outcomes.name == "reflexion"]
        (run,) = client.search_runs([experiment.experiment_id], run_view_type=ViewType.ACTIVE_ONLY)
        assert (run.info.status, run.data.tags["run_id"]) == ("FINISHED", lab.folders[0].name)
