"""`rl.run(actor=Mine, metrics={…}, benchmark=[…])`: classes, objects and tasks of a notebook as parts of a run."""

import json

import pytest

import reflexion_lab as rl
from reflexion_lab.analysis import metrics
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Completion, Message, Reflection, Sampling, Task, Trajectory, Usage
from reflexion_lab.runner import objects

TWICE = {
    "task_id": "mine/twice",
    "prompt": 'def twice(x):\n    """Two times x."""\n',
    "entry_point": "twice",
    "visible_tests": ["assert twice(2) == 4"],
    "hidden_tests": ["assert twice(5) == 10"],
    "canonical_solution": "    return 2 * x\n",
}
NEGATIVE = Task(
    task_id="mine/negative",
    prompt='def negative(x):\n    """Minus x."""\n',
    entry_point="negative",
    visible_tests=("assert negative(2) == -2",),
    hidden_tests=("assert negative(5) == -5",),
    canonical_solution="    return -x\n",
)


class Stubborn:
    fingerprint, slots, context = "stubborn:1", 4, 0

    def complete(self, messages, *, sampling, sample=0):
        usage = Usage(calls=1, prompt_tokens=3, completion_tokens=7)
        return Completion(text="def twice(x):\n    return x + x\n", model="stubborn", usage=usage)


class Direct:
    def __init__(self, model):
        self.model = model

    def act(self, task, recollection):
        ask = Message(role="user", content=task.prompt)
        answer = self.model.complete([ask], sampling=Sampling())
        usage = answer.usage
        return Trajectory(solution=answer.text, strategy="direct", messages=(ask,), reply=answer.text, usage=usage)


class FirstFailure:
    def __init__(self, opening):
        self.opening = opening

    def reflect(self, task, attempt, episodes):
        check = attempt.evaluation.failures[0]
        return Reflection(
            reflection_id=f"{task.task_id}-{attempt.number}",
            about_attempt=attempt.number,
            root_cause=f"{self.opening} {check.name}",
            what_went_wrong=check.message,
            what_to_change=f"I will make {check.name} hold",
            confidence=0.5,
            source="rules:first_failure",
        )


def long_program(attempt, grade) -> bool:
    return len(attempt.trajectory.solution) > 10


def tries(attempts, grades) -> float:
    return len(attempts)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = dict(metrics.REGISTRY)
    yield tmp_path
    metrics.REGISTRY.clear()
    metrics.REGISTRY.update(known)


def run(*overrides, opening="I missed", **others):
    parts = {"model": Stubborn(), "actor": Direct, "reflector": FirstFailure(opening), "benchmark": [TWICE, NEGATIVE]}
    return rl.run("tracker=none", "loop.max_attempts=2", *overrides, quiet=True, **{**parts, **others})


def test_a_run_of_own_parts(here):
    own = run(metrics={"long_program": long_program, "tries": tries})
    assert own.summary.pass_at_1.k == 1
    assert own.attempts("mine/negative")[0].reflection.root_cause == "I missed assert negative(2) == -2"
    frame = rl.load(own).runs
    assert frame["long_program_rate"].item() == 1
    assert frame["tries"].item() == 1.5  # two tries at the task that it cannot solve
    digests = own.folder.manifest.provenance.own_parts
    assert digests.keys() == {"Stubborn", "Direct", "FirstFailure"}
    assert own.folder.manifest.config["actor"]["_target_"].endswith(f"Direct_{digests['Direct']}")
    (tasks,) = (here / "runs" / "benchmarks").iterdir()  # for a resumption and a replay
    assert [json.loads(line)["task_id"] for line in tasks.read_text().splitlines()] == ["mine/twice", "mine/negative"]

    before = (own.path / "attempts.jsonl").read_bytes()
    assert run(f"resume={own.path}").path == own.path
    assert (own.path / "attempts.jsonl").read_bytes() == before
    with pytest.raises(ConfigError, match="began with another reflector, source of FirstFailure"):
        run(f"resume={own.path}", opening="I forgot")


def test_the_same_in_a_sweep_an_estimate_and_by_hand(here):
    parts = {"model": Stubborn(), "actor": Direct, "reflector": "rules", "benchmark": [TWICE]}
    swept = rl.sweep({"seed": [0, 1], "tracker": "none"}, quiet=True, **parts)
    assert [state.pass_at_1.k for state in swept.states.values()] == [1, 1]
    assert "1 tasks" in repr(rl.by_hand(**parts))
    assert rl.estimate(**parts).tasks == 1


class Changed(Direct):
    limit = 3


def test_the_digest_is_of_source_and_state():
    assert objects.digest(Direct) == objects.digest(Direct) != objects.digest(Changed)
    assert objects.digest(FirstFailure("a")) == objects.digest(FirstFailure("a")) != objects.digest(FirstFailure("b"))
    assert objects.digest(FirstFailure(object())) == objects.digest(FirstFailure(object()))
    namespace = {}
    exec("class Made:\n    def act(self): return 1\nclass Other:\n    def act(self): return 2\n", namespace)
    assert objects.digest(namespace["Made"]) != objects.digest(namespace["Other"])  # without source
    assert objects.named(objects.register(namespace["Made"])) == ("Made", objects.digest(namespace["Made"]))
    assert objects.named("my_parts.Checklist") is None


def untyped(attempt, grade):
    return True


def of_nothing(words) -> bool:
    return True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"actr": Direct}, "actr: got an argument, expected one of model, actor"),
        ({"actor": object()}, "actor: its _target_ makes a object; expected a part that has `act`"),
        ({"metrics": {"untyped": untyped}}, r"metrics.untyped: got no such return annotation, expected -> bool"),
        ({"metrics": {"words": of_nothing}}, r"metrics.words: got a first parameter words, expected one of attempt"),
        ({"metrics": {"pass_at_1": lambda log: 1}}, "metrics.pass_at_1: got no such return annotation"),
        ({"benchmark": [{"prompt": "def f(): pass"}]}, r"tasks-\w+\.jsonl, line 1"),
    ],
)
def test_what_it_refuses_before_anything_runs(here, arguments, message):
    with pytest.raises(ConfigError, match=message):
        run(**arguments)
    assert not list(here.glob("runs/2*"))


def test_a_metric_is_replaced_by_its_next_version_but_never_one_of_the_lab(here):
    metrics.register_own({"tries": tries})
    metrics.register_own({"tries": tries})

    def pass_at_1(log) -> float:
        return 1.0

    with pytest.raises(ConfigError, match="the name of a metric of the lab"):
        metrics.register_own({"pass_at_1": pass_at_1})


def test_another_process_names_what_is_missing(here):
    own = run()
    objects._OBJECTS.clear()
    with pytest.raises(ConfigError, match=r"Direct_\w+, an object of a notebook, expected one that this process"):
        rl.run("tracker=none", f"actor._target_={own.folder.manifest.config['actor']['_target_']}", "~actor.sampling")
