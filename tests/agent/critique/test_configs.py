"""The config groups critic and reviser, and the actors that use them, as Hydra puts them together."""

import pytest

from reflexion_lab.agent.actors.candidates import Candidates
from reflexion_lab.agent.critique.critique_revise import CritiqueRevise
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Recollection
from reflexion_lab.runner.config.assemble import loop_factory
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import Models, load_models
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.text.prompts.render import Prompts

MODEL = ScriptedModel(lambda messages: "ISSUE: none\nSEVERITY: 0\n```python\ndef double(x):\n    return 2 * x\n```")


def wired(sandbox, *overrides):
    cfg = compose(*overrides)
    parts = {"model": MODEL, "sandbox": sandbox, "prompts": Prompts()}
    for name in ("evaluator", "critic", "reviser", "actor"):
        parts[name] = build(cfg[name], name, parts)
    return parts


@pytest.mark.parametrize("critic", ["tests", "lint", "llm", "merged"])
@pytest.mark.parametrize("reviser", ["llm", "continuation", "targeted"])
@pytest.mark.slow
def test_every_pair_makes_a_loop_that_works(sandbox, task, critic, reviser):
    chat = ["actor=critique_revise", "actor@actor.generator=single_shot", f"critic={critic}", f"reviser={reviser}"]
    actor = wired(sandbox, *chat)["actor"]
    assert isinstance(actor, CritiqueRevise)
    trajectory = actor.act(task.public, Recollection())
    assert (trajectory.ended, trajectory.solution) == ("low_severity", "def double(x):\n    return 2 * x\n")


def test_a_reviser_is_asked_as_the_actor_around_it_asks(sandbox, task):
    """Warming draws all calls of an attempt at its temperature, those of a reviser within it too."""
    sampled = []

    class Noting(ScriptedModel):
        def complete(self, messages, *, sampling, sample=0):
            sampled.append(sampling.temperature)
            return super().complete(messages, sampling=sampling, sample=sample)

    cfg = compose("actor=warming", "actor@actor.make_actor=critique_revise", "model=scripted", "model.path=none")
    model = CachedModel(Noting(lambda messages: "\n    return x\n"), "unused", "off")
    loop = loop_factory(RunConfig.of(cfg), Models({"actor": model}), sandbox)()
    loop.actor.act(task.public, Recollection(attempt=3))
    assert sampled == [0.4, 0.4]


def test_a_continuation_reviser_needs_a_completion_model():
    served = ("model=openai", "model.model=x", "model.base_url=http://127.0.0.1:9/v1")
    nested = ("actor=warming", "actor@actor.make_actor=critique_revise", "actor@actor.make_actor.generator=single_shot")
    with pytest.raises(ConfigError, match=r"reviser: got continuation with model=openai"):
        load_models(RunConfig.of(compose(*nested, *served, "reviser=continuation")))


def test_the_lint_critic_has_a_linter_of_its_own(sandbox):
    assert isinstance(wired(sandbox, "critic=lint")["critic"].evaluator, StaticCheck)


def test_candidates_are_drawn_warm(sandbox):
    actor = wired(sandbox, "actor=candidates", "actor.n=2", "actor.rule=vote")["actor"]
    assert isinstance(actor, Candidates)
    assert actor.actor.ask.sampling.temperature > 0
