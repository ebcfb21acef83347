"""Simulated student of `benchmark=families`, whose gain from memory is known: it solves a task with one probability
without a rule in its prompt, another with the rule of the task's family, and a third with other rules only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from experiments.memory_methods.families import changed, rule_of, rules_in
from reflexion_lab.agent.models.simulated import SimulatedModel, skill_digest
from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, Parallel, Share, validated
from reflexion_lab.records import Task


class Seen(NamedTuple):
    """Contents of a curator's prompt that the student learns from."""

    rules: tuple[str, ...]
    """The rule of each family with a task in the prompt, in order, as the student understands it; each once."""
    prompt: str
    draw: Random
    """Random generator of this call."""


def _workflows(seen: Seen) -> str:
    """The rules of the file so far, then those of the task that was solved."""
    rules = dict.fromkeys([*rules_in(seen.prompt.partition("A task that was solved:")[0]), *seen.rules])
    return "\n".join(f"WORKFLOW: {rule}\nSTEP: Read the task\nSTEP: Apply the rule to {{values}}" for rule in rules)


def _items(seen: Seen) -> str:
    return "\n\n".join(f"TITLE: A rule\nDESCRIPTION: For its term\nCONTENT: {rule}" for rule in seen.rules)


def _votes(seen: Seen) -> str:
    """Votes for the known rules among those of the tasks, and the others as new ones."""
    listed = seen.prompt.partition("EXISTING RULES:")[2].partition("\n\n")[0]
    known = {rule: number for number, line in enumerate(listed.split("\n")) for rule in rules_in(line)}
    votes = [f"AGREE {known[rule]}: {rule}" for rule in seen.rules if rule in known]
    new = [rule for rule in seen.rules if rule not in known]
    return "\n".join([*votes, *(f"ADD {number}: {rule}" for number, rule in enumerate(new, len(known) + 1))])


def _tags(seen: Seen) -> str:
    """A tag for each item that was read, by whether it states the rule of the task, which is the insight."""
    shown = re.findall(r"^\[(\S+)\] helpful=\d+ harmful=\d+ :: (.*)", seen.prompt, re.MULTILINE)
    right = set(seen.rules)
    tags = [{"id": name, "tag": "helpful" if right & set(rules_in(text)) else "neutral"} for name, text in shown]
    return json.dumps({"key_insight": " ".join(seen.rules), "bullet_tags": tags})


def _additions(seen: Seen) -> str:
    """The rules that the playbook lacks."""
    playbook = set(rules_in(seen.prompt.partition("\nThe task:")[0]))
    new = [rule for rule in seen.rules if rule not in playbook]
    operations = [{"type": "ADD", "section": "STRATEGIES & INSIGHTS", "content": rule} for rule in new]
    return json.dumps({"reasoning": "what the attempt teaches", "operations": operations})


def _page(seen: Seen) -> str:
    """The rules of the page so far, then those of the tasks."""
    page = seen.prompt.partition("The cheatsheet so far:")[2]
    return "\n".join(["<cheatsheet>", *dict.fromkeys([*rules_in(page), *seen.rules]), "</cheatsheet>"])


CURATIONS: dict[str, Callable[[Seen], str]] = {
    "WORKFLOW: its goal": _workflows,
    "KEYWORDS: three or more": lambda seen: f"KEYWORDS: rule\nCONTEXT: {' '.join(seen.rules)}\nTAGS: rules",
    "\nEVOLVE: yes\n": lambda seen: "EVOLVE: no",
    "TITLE: its name": _items,
    "\nMy operations on the list:": _votes,
    '"bullet_tags": [{': _tags,
    '{"type": "ADD", "section": one of the sections': _additions,
    "\n<cheatsheet>\nthe whole new cheatsheet\n": _page,
}
"""Reply to a curator, by a text that its prompt holds and no other prompt does; the first match counts."""


VERSION = 3
"""Raised when replies change, so that no earlier reply is served from a call cache."""


class FamilyStudent(SimulatedModel):
    """Replies to chat actors with a right or a wrong program, to curators with the rules of the tasks that they show,
    and to all others as `SimulatedModel`.

    Every program is a draw of its own: earlier attempts do not matter. A rule counts if the prompt states it word for
    word, wherever: in the task, in an item of memory, or in a right program, whose comment states it. A wrong program
    states none.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks of `benchmark=families`, with canonical solutions.
    without : float
        Probability, in [0, 1], that a program is right if its prompt states no rule.
    with_rule : float
        The same if the prompt states the rule of the task's family.
    with_wrong : float
        The same if the prompt states other rules only.
    insight : float
        Probability, in [0, 1], that the student understands the rule of a task in the prompt of a curator. Otherwise it
        believes in one with another constant.
    slots : int
        Concurrent calls.
    context : int
        Tokens of prompt and reply together; 0: no limit.
    price_per_million : sequence of float
        Prices of prompt and completion tokens.

    Raises
    ------
    ConfigError
        A probability is out of range, or a task has no canonical solution or no rule.
    """

    only_chats = "model=family_student, which answers whole prompts"

    @validated
    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        without: Share = 0.2,
        with_rule: Share = 0.8,
        with_wrong: Share = 0.1,
        insight: Share = 1.0,
        slots: Parallel = 64,
        context: Count = 0,
        price_per_million: Sequence[float] = (0.0, 0.0),
    ) -> None:
        super().__init__(tasks, slots=slots, context=context, price_per_million=price_per_million)
        self._rules = {task.task_id: rule_of(task) for task in tasks}
        if unruled := [task_id for task_id, rule in self._rules.items() if not rule]:
            raise ConfigError("model", f"family_student for {unruled[0]}, which has no rule", "benchmark=families")
        self.without, self.with_rule, self.with_wrong, self.insight = without, with_rule, with_wrong, insight
        skill = [VERSION, without, with_rule, with_wrong, insight]
        self.fingerprint = f"family_student:{skill_digest(skill, tasks)[:16]}"

    def chance(self, task: Task, prompt: str) -> float:
        """Probability that the next program is right: the planted truth."""
        rules = rules_in(prompt)
        if self._rules[task.task_id] in rules:
            return self.with_rule
        return self.with_wrong if rules else self.without

    def _reply(self, prompt: str, draw: Random) -> str:
        curation = next((curation for marker, curation in CURATIONS.items() if marker in prompt), None)
        return curation(self._seen(prompt, draw)) if curation else super()._reply(prompt, draw)

    def _seen(self, prompt: str, draw: Random) -> Seen:
        """Recognizes a task by the first line of its prompt: prompts cut the rest. A task that is still to be solved
        teaches nothing.
        """
        past, _, page = prompt.partition("\nThe next task, which I do not solve here:\n")
        places = {task.task_id: past.find(beginning.splitlines()[0]) for beginning, task in self._tasks.items()}
        shown = sorted((place, task_id) for task_id, place in places.items() if place >= 0)
        rules = [self._rules[task_id] for _, task_id in shown]
        return Seen(
            tuple(dict.fromkeys(rule if draw.random() < self.insight else changed(rule, draw) for rule in rules)),
            past + page.partition("\n```\n")[2],
            draw,
        )

    def _draft(self, task: Task, name: str) -> str:
        lines = super()._draft(task, name).splitlines()
        return "\n".join(line for line in lines if not rules_in(line))
