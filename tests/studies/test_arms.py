"""The arms that a comparison is made of: common random numbers from the first call on, and names that hold."""

import json
import sqlite3
import warnings
from contextlib import closing

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.check import arm_warnings
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.record import RunConfig
from tests.studies.small_runs import REFLECTION, run_lab, script

RULES = [
    {"when": "^My Python program failed", "scope": "conversation", "reply": REFLECTION.format("return 1")},
    {"when": "return 1", "scope": "conversation", "reply": "\n    return 1\n"},
    {"when": "", "reply": "\n    return None\n"},
]
WORLDS = {"textworld", "reasoning", "hotpotqa"}
"""Experiments on tasks of another kind; their arms are those of the others."""
EXPERIMENTS = sorted({path.stem for path in (CONF / "experiment").glob("*.yaml")} - WORLDS)
N_ATTEMPTS = {"omega_sweep": 4, "simple": 1, "matts_parallel": 5, "matts_sequential": 5}
N_ATTEMPTS |= {"repair_tree": 60, "best_first": 8, "tree_search": 8, "intrinsic": 1, "self_consistency": 1}
"""Attempts at each task, by experiment; 3 by default."""
ARMS = [name for name in EXPERIMENTS if not name.endswith("_sweep")]


@pytest.fixture
def run(tmp_path):
    """Run an experiment with a call cache of its own; returns its log, and its calls in their order."""

    def run_experiment(name, *overrides):
        calls = tmp_path / f"{name}.sqlite"
        where = (f"model.path={script(tmp_path, RULES)}", f"run_root={tmp_path / 'runs'}", f"cache.path={calls}")
        small = ("model=scripted", "workers=1", "benchmark.limit=3", "tracker=none", "quiet=true")
        lab = run_lab(compose(f"experiment={name}", *small, *where, *overrides))
        with closing(sqlite3.connect(calls)) as store:
            rows = store.execute("SELECT key, request FROM calls ORDER BY rowid")
            return Log.read(lab.folder), [(key, json.loads(request)) for key, request in rows]

    return run_experiment


def first_calls(log, calls):
    """By task: the first program, the first prompt and the key of the first call."""
    keys = {tuple(message["content"] for message in request["messages"]): key for key, request in reversed(calls)}
    by_task = {task_id: attempts[0].trajectory for task_id, attempts in log.attempts.items()}
    return {
        task_id: (first.solution, first.messages, keys[tuple(message.content for message in first.messages)])
        for task_id, first in by_task.items()
    }


@pytest.mark.filterwarnings("ignore:temperature:RuntimeWarning")
@pytest.mark.slow
def test_every_arm_begins_with_the_same_calls(run):
    expected = first_calls(*run("reflexion"))
    assert len(expected) == 3
    for name in EXPERIMENTS:
        log, calls = run(name)
        assert first_calls(log, calls) == expected, name
        assert log.is_graded, name
        lengths = {len(attempts) for attempts in log.attempts.values()}
        assert lengths == {N_ATTEMPTS.get(name, 3)}, name


def test_an_arm_with_another_first_draw_sends_the_same_prompts_and_draws_anew(run):
    (log, calls), (again, others) = (
        run("retry", "temperature=0.8"),
        run("retry", "temperature=0.8", "loop.first_draw=9"),
    )
    draws = {request["sample"] for _, request in calls}
    assert {request["sample"] for _, request in others[len(calls) :]} == {draw + 9 for draw in draws}
    assert {task: loop[0].trajectory.messages for task, loop in log.attempts.items()} == {
        task: loop[0].trajectory.messages for task, loop in again.attempts.items()
    }
    with pytest.raises(ConfigError, match="first_draw"):
        run("retry", "temperature=0.8", "loop.first_draw=1000000")


@pytest.mark.slow
@pytest.mark.soak
def test_arms_at_one_temperature_share_their_first_calls(run):
    expected = first_calls(*run("reflexion", "temperature=0.8"))
    for name in ARMS:
        assert first_calls(*run(name, "temperature=0.8")) == expected, name


def test_the_first_temperature_of_warming_is_that_of_all_arms(run):
    _, calls = run("warming", "temperature=0.7", "actor.temperatures=[0.0,0.1,0.2]")
    assert {request["sampling"]["temperature"] for _, request in calls} == {0.7, 0.8, 0.9}


@pytest.mark.filterwarnings("ignore:temperature:RuntimeWarning")
@pytest.mark.parametrize("name", ARMS)
def test_an_arm_is_called_as_its_experiment(name):
    cfg = compose(f"experiment={name}")
    assert cfg.arm == name
    assert [message for message in arm_warnings(RunConfig.of(cfg)) if message.startswith("arm:")] == []


def test_retries_that_cannot_differ_are_warned_of(run):
    with pytest.warns(RuntimeWarning, match="draws the same program at every attempt"):
        run("retry")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("retry", "temperature=0.8")


@pytest.mark.parametrize(("name", "override"), [
    ("warming", "actor=single_shot"), ("escalation", "actor@actor.make_actor=single_shot reflector=llm"),
    ("retry", "reflector=llm"), ("feedback_only", "reflector=rules"), ("reflexion_generic", "reflector=llm"),
])  # fmt: skip
def test_an_override_that_makes_an_arm_another_one_is_warned_of(name, override):
    messages = list(arm_warnings(RunConfig.of(compose(f"experiment={name}", *override.split()))))
    group = override.split()[-1].partition("=")[0]
    assert any(f"arm: got {name} with {group}" in message for message in messages)


def test_an_arm_of_any_other_name_promises_nothing_and_an_actor_that_is_no_escalation_is_refused():
    assert not list(arm_warnings(RunConfig.of(compose("experiment=retry", "reflector=llm", "arm=mine"))))
    with pytest.raises(Exception, match="Could not override 'actor@actor"):
        compose("experiment=escalation", "actor=single_shot")
