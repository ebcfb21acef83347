"""Windows over the recorded loops of other systems: what the next prompt has room for."""

from collections import Counter

import pytest

from reflexion_lab.audit.transcripts import read_transcripts
from reflexion_lab.memory.episodic import NoSharedMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.records import Episode, Task
from reflexion_lab.text.prompts.render import Prompts
from tests import builders

LOGS = ("noah_ucs_humaneval_gpt4", "cray_deepseek_humaneval", "agentevals_reflexion_humaneval", "noah_mbpp_gpt4")
REPLY = 512 + 64
"""Tokens of the reply, and what a server may add."""


def episodes_of(loop):
    for step in loop.steps[:-1]:
        words = step.reflection[:600]
        yield Episode(
            episode_id=f"ep-{step.number}", agent_id="a", task_id="t", attempt_number=step.number, passed=False,
            task_description=loop.text("prompt"), code=step.code or step.raw,
            test_results="\n".join(step.feedback.failing)[:900],
            reflection=builders.reflection(step.number, root_cause=words, what_went_wrong="", what_to_change="")
            if words else None,
        )  # fmt: skip


@pytest.mark.parametrize(("context", "both"), [(2048, 0.95), (8192, 0.99), (128_000, 0.99)])
def test_the_newest_attempts_are_shown(recorded_runs, context, both):
    counts = Counter()
    for name in LOGS:
        for loop in read_transcripts(recorded_runs / "transcripts" / f"{name}.jsonl.gz"):
            if len(loop.steps) < 2:
                continue
            task = Task(task_id="t", prompt=loop.text("prompt"), entry_point=loop.text("entry_point"))
            newest = list(episodes_of(loop))[-2:]
            window = Window("all").select(newest, task, NoSharedMemory())
            fitted = Prompts().fit("solve", context - REPLY, window, prompt=task.prompt, task_id="t")
            counts["loops"] += 1
            counts["newest"] += newest[-1].episode_id not in fitted.left_out
            counts["pairs"] += len(newest) == 2
            counts["both"] += len(newest) == 2 and not fitted.left_out
    assert counts["loops"] == counts["newest"] == 481
    assert counts["both"] >= both * counts["pairs"] > 100
