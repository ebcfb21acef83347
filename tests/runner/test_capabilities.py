"""What a part can do is said by its class: a subclass under another name is treated as what it is."""

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.assemble import assemble, manifest_of
from reflexion_lab.runner.config.build import has_durable_store, plain
from reflexion_lab.runner.config.check import arm_warnings
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import draws_from_runs, has_shared_memory, load_models
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.manifest import measured

OWN = """
from reflexion_lab.agent.actors.warming import Warming
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.memory.recall import Similar, Window
from reflexion_lab.runner.pool import Shuffled
from reflexion_lab.storage.in_memory import InMemory


class MyRecall(Window): ...
class MyWindow(Window):
    reads_other_tasks = False
class MySimilar(Similar): ...
class MyStore(InMemory): ...
class MyWarming(Warming): ...
class MyWords(Shuffled): ...
class MyServer(OpenAIModel): ...
class Durable:
    def __init__(self, place, retention_days=None): ...
critics = []
class Words:
    def __init__(self, critic=None):
        critics.append(type(critic).__name__)
    def reflect(self, task, attempt, episodes): ...
class Several(Words):
    def __init__(self, kinds):
        self.kinds = kinds
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_capabilities.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(("overrides", "expected"), [
    ([], (False, False)), (["recall._target_=own_capabilities.MyRecall"], (False, True)),
    (["recall._target_=own_capabilities.MyWindow"], (False, False)), (["recall=similar"], (False, True)),
    (["recall=similar", "recall._target_=own_capabilities.MySimilar"], (False, True)),
    (["store._target_=own_capabilities.MyStore"], (True, True)),
    (["store=sqlite", "store._target_=own_capabilities.Durable"], (True, True)),
])  # fmt: skip
def test_store_and_recall_say_whether_memory_is_shared(overrides, expected):
    cfg = RunConfig.of(compose(*overrides))
    assert (has_durable_store(cfg.store), has_shared_memory(cfg)) == expected


def test_an_arm_keeps_its_promise_with_a_subclass():
    overrides = ["experiment=warming", "loop.max_attempts=2"]
    assert list(arm_warnings(RunConfig.of(compose(*overrides, "actor._target_=own_capabilities.MyWarming")))) == []
    doubts = arm_warnings(RunConfig.of(compose(*overrides, "actor=single_shot")))
    assert ["expected Warming" in doubt for doubt in doubts] == [True]


def test_a_reflector_says_whether_it_reads_runs_or_solutions():
    shuffled = ["reflector=shuffled", "reflector.pool=[runs]"]
    assert draws_from_runs(RunConfig.of(compose(*shuffled, "reflector._target_=own_capabilities.MyWords")))
    assert not draws_from_runs(RunConfig.of(compose("reflector=rules")))
    manifests = (manifest_of(compose("model=simulated", f"reflector={name}")) for name in ("quoted", "rules"))
    assert [manifest.shows_solutions for manifest in manifests] == [True, False]


def test_a_subclass_of_a_served_model_only_chats(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "EMPTY")
    served = ["model=openai", "model.model=m", "model.base_url=http://127.0.0.1:1/v1",
              "model._target_=own_capabilities.MyServer"]  # fmt: skip
    with pytest.raises(ConfigError, match=r"got continuation with model=openai, .*chat"):
        load_models(RunConfig.of(compose(*served, "actor=continuation")))


def test_how_a_server_is_asked_is_measured_of_every_other_part():
    """A part of one's own that has a server, too, may give other results with another deadline."""
    own = {"_target_": "mine.Remote", "base_url": "http://127.0.0.1:1/v1", "timeout": 1}
    assert measured({"evaluator": own})["evaluator"]["timeout"] == 1
    served = measured(plain(compose("model=openai", "model.model=m")))["model"]
    assert {"timeout", "retries"} & served.keys() == set()


@pytest.mark.parametrize("reflector", [
    {"_target_": "own_capabilities.Words"},
    {"_target_": "own_capabilities.Several", "kinds": {"a": {"_target_": "own_capabilities.Words", "_partial_": True}}},
])  # fmt: skip
def test_any_part_that_takes_a_critic_gets_one(tmp_path, reflector):
    import own_capabilities

    settings = ("model=simulated", "actor=single_shot", "critic=llm", "tracker=none", "cache.mode=off")
    cfg = compose(*settings, f"run_root={tmp_path}", "benchmark.load.n=1", "reflector=none")
    cfg.reflector = reflector
    lab = assemble(cfg)
    own_capabilities.critics.clear()
    lab.runner.loop()
    lab.close()
    assert own_capabilities.critics == ["LLMCritic"]
