"""`rl.run(actor=Mine, metrics={…}, benchmark=[…])`: classes, objects and tasks of a notebook as parts of a run."""

import asyncio
import dataclasses
import functools
import json
import linecache
import random
import re
import threading
from pathlib import Path

import msgspec
import numpy
import pytest

import reflexion_lab as rl
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.reflectors.none import NoReflection
from reflexion_lab.analysis import metrics
from reflexion_lab.errors import ConfigError
from reflexion_lab.memory.retrieval.controls import Recency
from reflexion_lab.notebook.frame_rows import OF_LAB
from reflexion_lab.records import Completion, Message, Reflection, Sampling, Task, Trajectory, Usage
from reflexion_lab.runner import objects
from reflexion_lab.runner.config.build import capability
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

TWICE = {
    "task_id": "mine/twice", "prompt": 'def twice(x):\n    """Two times x."""\n', "entry_point": "twice",
    "visible_tests": ["assert twice(2) == 4"], "hidden_tests": ["assert twice(5) == 10"],
    "canonical_solution": "    return 2 * x\n",
}  # fmt: skip
NEGATIVE = Task(
    task_id="mine/negative", prompt='def negative(x):\n    """Minus x."""\n', entry_point="negative",
    visible_tests=("assert negative(2) == -2",), hidden_tests=("assert negative(5) == -5",),
    canonical_solution="    return -x\n",
)  # fmt: skip


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
            reflection_id=f"{task.task_id}-{attempt.number}", about_attempt=attempt.number,
            root_cause=f"{self.opening} {check.name}", what_went_wrong=check.message,
            what_to_change=f"I will make {check.name} hold", confidence=0.5, source="rules:first_failure",
        )  # fmt: skip


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
    assert run(resume=own).path == run(resume=own.path, only="unscored").path == own.path
    assert (own.path / "attempts.jsonl").read_bytes() == before
    with pytest.raises(ConfigError, match="began with another reflector, source of FirstFailure"):
        run(f"resume={own.path}", opening="I forgot")


def test_the_same_in_a_sweep_an_estimate_and_by_hand(here):
    parts = {"model": Stubborn(), "actor": Direct, "reflector": "rules", "benchmark": [TWICE]}
    swept = rl.sweep({"seed": [0, 1], "tracker": "none"}, quiet=True, **parts)
    assert [state.pass_at_1.k for state in swept.states.values()] == [1, 1]
    assert "1 task of" in repr(rl.by_hand(**parts)) and rl.estimate(**parts).tasks == 1


class Changed(Direct):
    limit = 3


def of_closure(number):
    class Inner:
        def act(self):
            return number

    return Inner


class Struct(msgspec.Struct):
    value: object


@dataclasses.dataclass(slots=True)
class Slotted:
    value: object


class Holder:
    def __init__(self, value):
        self.value, self.lock, self.me = value, threading.Lock(), self

    @functools.cached_property
    def longer(self):
        return [self.value, self.value]


PAIRS = [
    (1, 2), ({(1, 2): 3}, {(1, 2): 4}), ({1, "a"}, {1, "b"}), ("\ud800", "\ud801"), (re.compile("a"), re.compile("b")),
    (Path("a"), Path("b")), (functools.partial(of_closure, 1), functools.partial(of_closure, 2)),
    (numpy.arange(3), numpy.arange(4)), (random.Random(1), random.Random(2)), (of_closure(1), of_closure(2)),
]  # fmt: skip


@pytest.mark.parametrize("kind", [Holder, Struct, Slotted, FirstFailure])
def test_the_digest_is_of_the_state(kind):
    for first, other in PAIRS:
        assert objects.digest(kind(first)) == objects.digest(kind(first)) != objects.digest(kind(other)), first
        assert objects.digest(kind(Holder(first))) != objects.digest(kind(Holder(other))), first


def test_the_digest_is_of_the_source_of_a_cell_or_file_and_without_it_of_the_code():
    assert objects.digest(Direct) == objects.digest(Direct) != objects.digest(Changed)
    first, other = (lambda model: Direct(model=model)), (lambda model: Changed(model=model))
    assert objects.digest(first) != objects.digest(other)
    assert objects.named(objects.register(Direct)) == ("Direct", objects.digest(Direct))
    assert objects.named("my_parts.Checklist") is None
    digests = []
    for word in ("x", "x", "y"):
        namespace = {"__name__": "notebook_without_file"}
        exec(ACTOR.replace("WORDS", repr(word)), namespace)
        digests.append(objects.digest(namespace["Mine"]))
    assert digests[0] == digests[1] != digests[2]
    first, again, edited = (cell(ACTOR + more, n, WORDS="x")["Mine"] for n, more in enumerate(("", "", "# new\n")))
    assert objects.digest(first) == objects.digest(again) != objects.digest(edited)
    assert objects.digest(cell(ACTOR, 4, WORDS="y")["Mine"]) != objects.digest(first)


def cell(source, number, **names):
    """The names that a notebook's cell defines, after `names` of other cells."""
    filename = f"<cell {number}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace = {"__name__": "notebook_without_file", **names}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


ACTOR = "class Mine:\n    def act(self): return WORDS\n"


class Words(Stubborn):
    """Its `fingerprint` stays while its program changes."""

    def __init__(self, program):
        self.inner = Holder(program)

    def complete(self, messages, *, sampling, sample=0):
        return Completion(text=f"def twice(x):\n    return {self.inner.value}\n", model="words", usage=Usage(calls=1))


def test_no_reply_of_a_former_version_of_a_model_is_used(here):
    rates = [run(model=Words(program), benchmark=[TWICE]).summary.pass_at_1.k for program in ("2 * x", "x - x")]
    assert rates == [1, 0]


class Guess(Direct):
    only_chats = "a class attribute"


class Inherits(Guess):
    pass


def test_an_object_has_the_capabilities_of_its_class(here):
    node = {"_target_": objects.register(Inherits(None))}
    assert capability(node, "only_chats", "") == "a class attribute"
    assert capability(node, "only_chats", "", is_inherited=False) == ""


@pytest.mark.parametrize("experiment", ["retry", "reflexion", "reflexion_shuffled", "omega_sweep"])
def test_a_part_replaces_what_an_experiment_sets(here, experiment):
    cfg = rl.compose(f"experiment={experiment}", recall=of_closure(1), reflector=FirstFailure("a"))
    assert [*cfg.recall] == [*cfg.reflector] == ["_target_"]


def untyped(attempt, grade):
    return True


def of_nothing(words) -> bool:
    return True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resume": "runs/none"}, r"runs/none: got no manifest\.json"),
        ({"seed": "x"}, "seed: got 'x', expected an int"),
        ({"actr": Direct}, "actr: unknown key; expected one of model, actor"),
        ({"actor": object()}, "actor: the part is of type object; expected one that has `act`"),
        ({"evaluator": 42}, "evaluator: the part is of type int; expected one that has `evaluate`"),
        (
            {"actor": lambda task, recollection: "x"},
            "actor: <lambda> cannot .* a function that makes an object with `act`",
        ),
        ({"model": lambda messages: "x"}, "model: <lambda> cannot .* a function that makes an object with `complete`"),
        ({"metrics": {"untyped": untyped}}, "metrics.untyped: .* bool or float, expected -> bool"),
        ({"metrics": {"words": of_nothing}}, r"metrics.words: got a first parameter words, expected one of attempt"),
        ({"metrics": {"pass_at_1": lambda log: 1}}, "metrics.pass_at_1: got no return annotation bool or float"),
        ({"benchmark": [{"prompt": "def f(): pass"}]}, r"tasks-\w+\.jsonl, line 1"),
        ({"benchmark": TWICE}, "benchmark: got dict, expected a list of tasks"),
        ({"model": OpenAIModel("any", "http://127.0.0.1:9/v1")}, "got a OpenAIModel object, expected its config"),
        ({"metrics": {"passed": tries}}, "metrics.passed: got the name of a metric or column of the lab"),
        ({"metrics": {"seeds": tries}}, "metrics.seeds: got the name of a metric or column of the lab"),
        ({"metrics": {"tries_as_run": tries}}, "metrics.tries_as_run: got the name of a metric or column of the lab"),
    ],
)
def test_what_it_refuses_before_anything_runs(here, arguments, message):
    with pytest.raises(ConfigError, match=message):
        run(**arguments)
    assert not list(here.glob("runs/2*"))


@pytest.mark.parametrize("group", ["reflector", "recall", "actor", "evaluator"])
def test_a_value_beside_a_part_that_replaces_its_group_is_named(here, group):
    with pytest.raises(ConfigError, match=f"{group}.depth: got a value beside {group}=Direct, expected none"):
        run(f"{group}.depth=2", **{group: Direct})
    assert rl.compose("+actor.model=2", actor=Direct).actor.model == 2, "of its constructor"


def waits(cls, method):
    """The part with an async method, which answers after others had their turn."""

    async def later(self, *values, **named):
        await asyncio.sleep(0.001)
        return getattr(cls, method)(self, *values, **named)

    return type(cls.__name__, (cls,), {method: later})


async def waited(attempt, grade) -> bool:
    await asyncio.sleep(0.001)
    return grade.passed


SLOW = {"model": waits(Stubborn, "complete"), "actor": waits(Direct, "act"), "evaluator": waits(UnitTests, "evaluate"),
        "reflector": waits(NoReflection, "reflect"), "retriever": waits(Recency, "rank")}  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "in_a_loop"), [([name], n % 2 == 0) for n, name in enumerate(SLOW)] + [([*SLOW], True)]
)
def test_async_parts_and_metrics_are_waited_for(here, parts, in_a_loop):
    async def cell():
        words = ("workers=1", "memory.shared.round_size=1", "recall=similar", "recall.min_score=0")
        return run(*words, **{name: SLOW[name] for name in parts}, metrics={"waited": waited})

    done = asyncio.run(cell()) if in_a_loop else run(metrics={"waited": waited}, **{name: SLOW[name] for name in parts})
    assert (done.summary.pass_at_1.k, done.summary.pass_at_1.n) == (1, 2)
    assert rl.load(done).runs.waited_rate.tolist() == [pytest.approx(1 / len(done.log.every))]


def test_a_metric_is_replaced_by_its_next_version_but_never_one_of_the_lab(here):
    metrics.register_own({"tries": tries})
    metrics.register_own({"tries": tries})

    for name in ("pass_at_1", "passed", "seed", "upper_bound"):  # at any level, and every column of a frame
        with pytest.raises(ConfigError, match="the name of a metric or column of the lab"):
            metrics.register_own({name: tries}, OF_LAB)


def test_another_process_names_what_is_missing(here):
    own = run()
    objects._OBJECTS.clear()
    with pytest.raises(ConfigError, match=r"Direct_\w+, an object of a notebook, expected one that this process"):
        rl.run("tracker=none", f"actor._target_={own.folder.manifest.config['actor']['_target_']}", "~actor.sampling")


def test_models_in_one_word_from_a_mapping_and_in_a_sweep():
    assert rl.compose({"model": "anthropic/claude-x"}).model.model == "anthropic/claude-x"
    swept = cells(["model=openai/a,ollama/b:1b"])
    assert [(cell.cfg.model["model"], cell.overrides[-1]) for cell in swept] == [
        ("a", "model.model='a'"),
        ("b:1b", "model.model='b:1b'"),
    ]


def test_a_look_for_a_special_name_among_objects_is_no_users_error():
    assert not hasattr(objects, "__wrapped__")  # as `inspect` and `doctest` look for it
