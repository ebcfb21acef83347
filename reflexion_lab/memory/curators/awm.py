"""Agent Workflow Memory (Wang et al., arXiv 2409.07429; zorazrw/agent-workflow-memory@5a91577): each success rewrites
the whole file of workflows.

Paper: workflows are induced from tasks that were judged successful; each has a goal and two or more steps, in which the
task's own values are named variables. All of them are in every prompt, without a limit. Released: after each task the
file is written anew, from one success of each of the benchmark's templates (`intent_template_id`) and without the file
so far; a rule-based variant keeps raw steps, and a human may veto.

Here: the judge is the feedback, a failed task makes no call, and the file so far stands for the earlier successes.
There is no grouping by template: it is structure of the test set, which `Task.cluster` holds as metadata that changes
no result of a task.
"""

from __future__ import annotations

from collections.abc import Sequence

from reflexion_lab.agent.reflectors.fields import VALUE
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.curators.calls import Calls
from reflexion_lab.protocols import Model
from reflexion_lab.records import Batch, Curation, Finished, Item, Operation, Sampling, Selection, Task
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import BULLET, Labels, entries, letters, one_line

SECTION = "Workflows that solved other tasks"
CHARS = 300
"""Length of a goal, and of a step."""
FORM = "its goal, in one sentence"
"""What the prompt says in the place of a goal."""
STEPS = 12
"""Largest number of steps that are read."""
LEAST = 2
"""Smallest number of steps of a workflow."""
GRAMMAR = (
    r"""
root ::= workflow{1,6}
workflow ::= "WORKFLOW: " value step{2,6}
step ::= "STEP: " value
"""
    + VALUE
)
"""GBNF of one to six workflows."""
_LABELS = Labels({"WORKFLOW": ("workflow",), "STEP": ("step",)})


class AgentWorkflowMemory:
    """Workflows of successful loops, all of them in every prompt.

    `max_chars`: length of a finished loop in the prompt. `constrained`: send the grammar, for models that support one.
    """

    @validated
    def __init__(
        self,
        model: Model,
        sampling: Sampling,
        prompts: Prompts | None = None,
        *,
        max_chars: Positive = 3000,
        constrained: bool = True,
    ) -> None:
        self.calls = Calls(model, sampling, prompts, max_chars=max_chars, constrained=constrained)

    def select(self, items: Sequence[Item], task: Task) -> Selection:
        return Selection(items=_file(items))

    def due(self, finished: Sequence[Finished]) -> Sequence[Batch]:
        return [Batch(finished=(each,)) for each in finished if each.passed]

    def curate(self, items: Sequence[Item], batch: Batch) -> Curation:
        old = _file(items)
        reply = self.calls("awm", batch.finished, GRAMMAR, workflows=[item.text for item in old])
        texts = workflows(reply.text)
        if not texts:
            return Curation(usage=reply.usage, unreadable=1, replies=(reply.text,))
        kept = {item.text: item.sources for item in old}
        every = tuple(dict.fromkeys(name for item in old for name in item.sources))
        sources = (*every, *(each.task.loop_id for each in batch.finished))
        ids = tuple(item.item_id for item in old)
        operations = [Operation(kind="remove", item_ids=ids, reason="rewritten")] if old else []
        for text in texts:
            operations.append(Operation(kind="add", text=text, section=SECTION, sources=kept.get(text, sources)))
        return Curation(operations=tuple(operations), usage=reply.usage, replies=(reply.text,))


def workflows(reply: str) -> tuple[str, ...]:
    """The workflows of a reply with two or more steps, each as its goal and numbered steps. Steps are labelled lines,
    or the lines after the goal. A goal that repeats the prompt's `FORM` is none: small models copy it.
    """
    blocks: list[list[str]] = []
    for label, lines, _ in _LABELS.sections(without_thoughts(reply)[0]):
        if label == "WORKFLOW":
            blocks.append([BULLET.sub("", line, count=1) for line in lines])
        elif blocks:
            blocks[-1].append(" ".join(lines))
    read = [entries(map(one_line, block), STEPS + 1, CHARS) for block in blocks]
    whole = [block for block in read if len(block) > LEAST and not letters(block[0]).startswith(letters(FORM))]
    return tuple(dict.fromkeys(_text(*block) for block in whole))


def _text(goal: str, *steps: str) -> str:
    return "\n".join([goal, *(f"{number}. {step}" for number, step in enumerate(steps, 1))])


def _file(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(item for item in items if item.section == SECTION)
