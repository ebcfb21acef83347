"""Invalid options of models, actors, critics, revisers and reflectors are named."""

from functools import partial

import pytest

from reflexion_lab.agent.actors.candidates import Candidates
from reflexion_lab.agent.actors.chain_of_thought import ChainOfThought
from reflexion_lab.agent.actors.escalation import Escalation
from reflexion_lab.agent.actors.react import ReAct
from reflexion_lab.agent.actors.warming import Warming
from reflexion_lab.agent.critique.convergence import Convergence
from reflexion_lab.agent.critique.critique_revise import CritiqueRevise
from reflexion_lab.agent.critique.llm_reviser import LLMReviser
from reflexion_lab.agent.critique.merged_critic import Merged
from reflexion_lab.agent.critique.tool_critic import ToolCritic
from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.models.replay import ReplayModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.placebo import FeedbackOnly
from reflexion_lab.agent.reflectors.reviewed import Reviewed
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.records import Sampling
from reflexion_lab.text.prompts.render import PromptedModel, Prompts

MODEL = ScriptedModel(lambda messages: "")
ACTS, CRITICISES, REVISES = (type(name, (), {name: lambda self: None})() for name in ("act", "critique", "revise"))
CALLER = {"model": MODEL, "sampling": Sampling()}
LOOP = {"generator": ACTS, "critic": CRITICISES, "reviser": REVISES}
OPENAI = partial(OpenAIModel, "tiny")
OPTIONS = [
    (partial(Convergence), "convergence_threshold", (1.5, -0.1, float("nan")), r"Convergence\.{}: "),
    (partial(Convergence), "severity_threshold", (1.5, -0.1, float("nan")), r"Convergence\.{}: "),
    (partial(CritiqueRevise, **LOOP), "max_iterations", (0, 11, 2.5), r"CritiqueRevise\.{}: "),
    (partial(CritiqueRevise, **LOOP), "convergence_threshold", (1.5,), r"CritiqueRevise\.{}: got 1\.5"),
    (partial(CritiqueRevise, **LOOP), "generator", (CRITICISES,), r"actor\.{}: got .*, expected a part with a method"),
    (partial(CritiqueRevise, **LOOP), "critic", (None, ACTS), "^{}: got .*, expected a part with a method"),
    (partial(CritiqueRevise, **LOOP), "reviser", (CRITICISES,), "^{}: got .*, expected a part with a method"),
    (Merged, "critics", ([],), r"Merged\.{}: "),
    (partial(ToolCritic, None), "weight", (0, 1.1, float("nan")), r"ToolCritic\.{}: "),
    (partial(LLMReviser, **CALLER), "style", ("file",), "{}: got 'file'"),
    (partial(ChainOfThought, **CALLER), "style", ("prose",), "{}: got 'prose', expected one of chat, continuation"),
    (partial(PromptedModel, **CALLER), "style", ("letters",), "{}: got 'letters', expected one of chat, continuation"),
    (partial(ReAct, **CALLER, sandbox=None), "style", ("prose",), r"ReAct\.{}"),
    (partial(ReAct, **CALLER, sandbox=None), "max_steps", (0,), r"ReAct\.{}"),
    (partial(ReAct, **CALLER, sandbox=None), "max_observation", (9,), r"ReAct\.{}"),
    (partial(Candidates, None, None), "n", (0, 1.5), r"Candidates\.{}: "),
    (partial(Candidates, None, None), "rule", ("x",), r"Candidates\.{}: "),
    (partial(Warming, MODEL, lambda model: None), "temperatures", ([], [0.1, -0.1]), r"actor\.{}: "),
    (
        partial(Escalation, {"actor": MODEL}, lambda model: None), "rungs", ([], ["actor", "nobody"]),
        r"actor\.{}: .* expected one or more of actor",
    ),
    *((partial(LLMReflector, **CALLER), name, (0,), r"LLMReflector\.{}")
      for name in ("max_description", "max_evidence", "max_code")),
    (partial(LLMReflector, **CALLER), "max_priors", (-1,), r"LLMReflector\.{}"),
    (
        partial(LLMReflector, **CALLER), "shape", ("prose",),
        r"LLMReflector\.{}: got 'prose', expected one of fields, lessons, service, session",
    ),
    (partial(Reviewed, None), "policy", ("drop",), r"Reviewed\.{}: got 'drop'"),
    (partial(Reviewed, None), "severe", (["vague", "generic"],), r"quality\.{}: got vague"),
    (Rules, "enough", (0,), r"Rules\.{}"),
    (FeedbackOnly, "max_evidence", (0,), r"FeedbackOnly\.{}"),
    (Prompts, "variant", ("loud",), r"Prompts\.{}: got"),
    (Prompts, "examples", (4,), r"prompts\.{}: got"),
    (partial(ScriptedModel, lambda messages: ""), "seconds", (-1.0,), r"ScriptedModel\.{}: got -1"),
    (partial(ScriptedModel, lambda messages: ""), "slots", (0,), r"ScriptedModel\.{}: got 0"),
    *((partial(SimulatedModel, []), name, (1.5,), r"SimulatedModel\.{}: got 1\.5")
      for name in ("first", "spread", "repair", "damage")),
    (partial(CachedModel, MODEL, "x"), "mode", ("write",), r"CachedModel\.{}: got 'write', expected one of off"),
    (partial(ReplayModel, "x"), "slots", (0,), r"ReplayModel\.{}: got 0"),
    (LlamaCppModel, "path", ("absent.gguf",), r"model\.{}: got no file at absent\.gguf, expected a GGUF file"),
    (OPENAI, "base_url", ("ftp://localhost:8000/v1",), r"model\.{}: .*, expected"),
    (OPENAI, "retries", (-1,), r"OpenAIModel\.{}: .*, expected"),
    *((OPENAI, name, (0,), r"OpenAIModel\.{}: .*, expected")
      for name in ("timeout", "deadline", "requests_per_minute", "slots")),
    (OPENAI, "price_per_million", ((1.0,),), r"OpenAIModel\.{}: .*, expected"),
]  # fmt: skip


def name_of(value):
    if isinstance(value, partial):
        return value.func.__name__
    return (
        value.__name__ if isinstance(value, type) else value if isinstance(value, str) and value.isidentifier() else ""
    )


@pytest.mark.parametrize(("make", "option", "values", "message"), OPTIONS, ids=name_of)
def test_an_invalid_option_is_named(make, option, values, message):
    for value in values:
        with pytest.raises(ValueError, match=message.format(option)):
            make(**{option: value})
