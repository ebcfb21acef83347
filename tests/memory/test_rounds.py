"""Rounds of tasks: what is recalled depends on the seed and the round size, on nothing else."""

import json
import random
import time
from functools import partial

import pytest

from reflexion_lab.errors import ModelError
from reflexion_lab.records import Episode, Wisdom
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import ConfigError
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from tests.builders import TABLES
from tests.studies.small_runs import run_lab

SCRIPT = [{"when": "", "scope": "conversation", "reply": "\n    return None\n"}]
SHARED = (
    "recall=window_then_similar", "recall.min_score=0",
    "retriever=recency",  # wisdom in the rules' words shares no word with a task
    "memory.shared.round_size=4", "memory.shared.shown={wisdom:2,mistakes:1,insights:2}", "memory.show_session=true",
)  # fmt: skip


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A run over twelve tasks in rounds of four whose actors read all that is known."""
    root = tmp_path_factory.mktemp("rounds")
    (root / "script.json").write_text(json.dumps(SCRIPT))

    def config(*overrides):
        return compose(
            "model=scripted", f"model.path={root / 'script.json'}", f"run_root={root / 'runs'}", "benchmark.limit=12",
            "reflector=rules", "tracker=none", "quiet=true", "cache.mode=off", *overrides,
        )  # fmt: skip

    return config


@pytest.fixture(scope="module")
def unbroken(config):
    """The folder of such a run by one worker."""
    return carried_out(config(*SHARED, "workers=1"))


def carried_out(cfg, wrap=lambda model: model):
    return run_lab(cfg, lambda lab: setattr(lab.model, "_model", wrap(lab.model._model))).folder


def read_by_the_actors(folder):
    """Everything that recall decides, without the run's name."""
    run = folder.path.name

    def read(attempt):
        ids = (*attempt.recalled, *attempt.recalled_wisdom, *attempt.recalled_mistakes)
        messages = [message.content for message in attempt.trajectory.messages]
        return [name.replace(run, "RUN") for name in ids], messages, attempt.memory

    return {task_id: [read(attempt) for attempt in attempts] for task_id, attempts in folder.attempts.items()}


class Jittery:
    """A model whose calls take anything between nothing and a few milliseconds."""

    def __init__(self, model, seed):
        self.fingerprint, self.slots, self.context = model.fingerprint, model.slots, model.context
        self.model, self.random = model, random.Random(seed)

    def complete(self, messages, *, sampling, sample=0):
        time.sleep(self.random.random() / 200)
        return self.model.complete(messages, sampling=sampling, sample=sample)


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing_in_a_round(config, unbroken):
    single = read_by_the_actors(unbroken)
    for n in (2, 8):
        assert read_by_the_actors(carried_out(config(*SHARED, f"workers={n}"), partial(Jittery, seed=n))) == single
    recalled = [ids for attempts in single.values() for ids, _, _ in attempts]
    assert any("wis-" in name for ids in recalled for name in ids)
    assert any("mistake-" in name for ids in recalled for name in ids)
    attempts = unbroken.attempts
    rounds = {task_id: place // 4 for place, task_id in enumerate(attempts)}
    others = [
        (rounds[task_id], rounds[name.split("/", 1)[1].rsplit("-", 1)[0]])
        for task_id, history in attempts.items()
        for attempt in history
        for name in attempt.recalled
        if f"/{task_id}-" not in name
    ]
    assert others and all(earlier < own for own, earlier in others)


def test_the_round_size_counts(config, unbroken):
    large = carried_out(config(*SHARED, "memory.shared.round_size=12"))
    assert read_by_the_actors(large) != read_by_the_actors(unbroken)


class Breaking(Jittery):
    """Breaks at the call of that number."""

    def __init__(self, model, at):
        super().__init__(model, at)
        self.left = at

    def complete(self, messages, *, sampling, sample=0):
        self.left -= 1
        if self.left == 0:
            raise ModelError("the key has expired")
        return self.model.complete(messages, sampling=sampling, sample=sample)


@pytest.mark.parametrize("at", [14, 33, *(pytest.param(at, marks=pytest.mark.slow) for at in (2, 20))])
@pytest.mark.slow
def test_a_resumed_run_recalls_what_an_unbroken_one_does(config, unbroken, tmp_path, at):
    place = f"store.place={tmp_path / 'memory.sqlite'}"
    lab = assemble(config(*SHARED, "workers=2", "store=sqlite", place))
    lab.model._model = Breaking(lab.model._model, at)
    with pytest.raises(ModelError):
        lab.runner.run()
    lab.close()
    folder = carried_out(config(*SHARED, "workers=2", "store=sqlite", place, f"resume={lab.folder.path}"))
    assert read_by_the_actors(folder) == read_by_the_actors(unbroken)
    store = opened(str(tmp_path / "memory.sqlite"))
    assert len(list(store.read(Episode))) == sum(map(len, folder.attempts.values()))
    assert [entry.frequency for entry in store.read(Wisdom)] == [36]
    store.close()


def test_a_second_run_learns_from_the_first_through_the_store(config, tmp_path):
    # One round: so nobody wears the wisdom out before the second run.
    stored = (*SHARED, "memory.shared.round_size=12", "store=jsonl", f"store.place={tmp_path / 'memory'}")
    first, second = carried_out(config(*stored)), carried_out(config(*stored))
    task_id = next(iter(first.attempts))
    assert first.attempts[task_id][0].recalled_wisdom == ()
    assert len(second.attempts[task_id][0].recalled_wisdom) == 1
    assert first.path.name in " ".join(second.attempts[task_id][0].recalled)


@pytest.mark.parametrize(("overrides", "message"), TABLES["leaking_reflections"])
def test_words_about_hidden_tests_and_solutions_reach_no_other_run(config, overrides, message):
    with pytest.raises(ConfigError, match=message):
        assemble(config(*overrides))


def test_without_shared_memory_there_are_no_rounds(config):
    lab = assemble(config())
    lab.close()
    assert lab.runner.rounds is None
    assert lab.archive is None
    assert not (RunFolder.existing(lab.folder.path).path / "memory.json").exists()
