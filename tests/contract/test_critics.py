"""What every critic and every reviser keeps to, whoever it is."""

import pytest

from reflexion_lab.agent.critique.llm_critic import LLMCritic
from reflexion_lab.agent.critique.llm_reviser import LLMReviser
from reflexion_lab.agent.critique.merged_critic import Merged
from reflexion_lab.agent.critique.targeted_reviser import Targeted
from reflexion_lab.agent.critique.tool_critic import ToolCritic
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.protocols import Critic, Reviser
from reflexion_lab.records import Critique, Sampling, Usage
from reflexion_lab.tasks.evaluators.static import StaticCheck
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

DRAFTS = {
    "right": "def double(x):\n    return 2 * x\n", "wrong": "def double(x):\n    return x\n",
    "no Python": "def double(x:\n", "nothing": "", "endless": "while True:\n    pass\n",
    "gone": "import os\nos._exit(0)\n", "odd": "# \x00 \ud800 ```\ndef double(x): return x\n",
}  # fmt: skip


@pytest.fixture(params=["tests", "lint", "llm", "merged"])
def critic(request, sandbox) -> Critic:
    model = ScriptedModel(lambda messages: "ISSUE: It is slow.\nSEVERITY: 0.4\nSCORE: 0.5")
    tests, lint = ToolCritic(UnitTests(sandbox)), ToolCritic(StaticCheck("ruff"), 0.4)
    llm = LLMCritic(model, Sampling())
    return {"tests": tests, "lint": lint, "llm": llm, "merged": Merged([tests, lint, llm])}[request.param]


@pytest.fixture(params=["chat", "continuation", "targeted"])
def reviser(request) -> Reviser:
    model = ScriptedModel(lambda messages: "```python\ndef double(x):\n    return 2 * x\n```")
    chat, file = LLMReviser(model, Sampling()), LLMReviser(model, Sampling(), style="continuation")
    return {"chat": chat, "continuation": file, "targeted": Targeted(chat)}[request.param]


@pytest.mark.parametrize("draft", DRAFTS)
@pytest.mark.slow
def test_every_draft_gets_a_critique_in_range(critic, task, draft):
    critique = critic.critique(task.public, DRAFTS[draft])
    assert 0 <= critique.severity <= 1 and 0 <= critique.confidence <= 1
    assert critique.score is None or 0 <= critique.score <= 1
    assert critique.source
    assert critique.severity < 0.3 or critique.issues  # whoever asks for a revision says what for
    assert critique.usage == Usage() or critique.messages


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_draft_is_revised_whatever_was_said_of_it(reviser, task, draft):
    for issues in ((), ("SyntaxError: invalid syntax", "name 'math' is not defined", "got None")):
        revision = reviser.revise(task.public, DRAFTS[draft], Critique(severity=1.0, issues=issues, source="test"))
        assert revision.solution.strip() and revision.extraction
        assert revision.usage == Usage() or revision.messages
