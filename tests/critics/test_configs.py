"""The config groups critic and reviser, and the actors that use them, as Hydra puts them together."""

import pytest

from reflexion_lab.actors.candidates import Candidates
from reflexion_lab.actors.critique_revise import CritiqueRevise
from reflexion_lab.config import compose
from reflexion_lab.evaluators.static import StaticCheck
from reflexion_lab.models.scripted import ScriptedModel
from reflexion_lab.parts import instantiate, wire
from reflexion_lab.prompts.render import Prompts
from reflexion_lab.records import Recollection

MODEL = ScriptedModel(lambda messages: "ISSUE: none\nSEVERITY: 0\n```python\ndef double(x):\n    return 2 * x\n```")


def wired(sandbox, *overrides):
    cfg = compose(*overrides)
    parts = {"model": MODEL, "sandbox": sandbox, "prompts": Prompts()}
    for name in ("evaluator", "critic", "reviser", "actor"):
        parts[name] = wire(instantiate(cfg[name]), parts)
    return parts


@pytest.mark.parametrize("critic", ["tests", "lint", "llm", "merged"])
@pytest.mark.parametrize("reviser", ["llm", "continuation", "targeted"])
def test_every_pair_makes_a_loop_that_works(sandbox, task, critic, reviser):
    chat = ["actor=critique_revise", "actor@actor.generator=single_shot", f"critic={critic}", f"reviser={reviser}"]
    actor = wired(sandbox, *chat)["actor"]
    assert isinstance(actor, CritiqueRevise)
    made = actor.act(task.public, Recollection())
    assert (made.ended, made.solution) == ("low_severity", "def double(x):\n    return 2 * x\n")


def test_the_lint_critic_has_a_linter_of_its_own(sandbox):
    assert isinstance(wired(sandbox, "critic=lint")["critic"].evaluator, StaticCheck)


def test_thresholds_and_iterations_come_from_the_config(sandbox):
    options = ("actor.convergence_threshold=0.2", "actor.severity_threshold=0.4", "actor.max_iterations=5")
    actor = wired(sandbox, "actor=critique_revise", *options)["actor"]
    found = actor.convergence.convergence_threshold, actor.convergence.severity_threshold, actor.max_iterations
    assert found == (0.2, 0.4, 5)


def test_candidates_are_drawn_warm(sandbox):
    actor = wired(sandbox, "actor=candidates", "actor.n=2", "actor.rule=vote")["actor"]
    assert isinstance(actor, Candidates)
    assert actor.actor.ask.sampling.temperature > 0
