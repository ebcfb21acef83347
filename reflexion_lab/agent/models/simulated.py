"""Simulated model with known error rates, to test the harness. It knows the solutions: its pass@1 has no meaning."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import random
import re
from collections.abc import Sequence

import msgspec

from reflexion_lab.agent.models.prices import Price
from reflexion_lab.agent.reflectors.evidence import of_answer
from reflexion_lab.agent.reflectors.quoted import CHANGE as CHANGE_OF_QUOTED
from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.limits import Count, Parallel, Share, validated
from reflexion_lab.records import Completion, Message, Sampling, Task, Usage
from reflexion_lab.text.prompts.render import without_docstrings
from reflexion_lab.text.replies.syntax import UNPARSABLE, parse

BLOCK = re.compile(r"^(`{3,})(?:python|text)\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
TURN = "\nAction: one action\n"
"""By which a play is recognized."""
WRONG = re.compile(r"^# wrong draft ([0-9a-f]{4})$", re.MULTILINE)
_BEFORE = CHANGE_OF_QUOTED.rpartition("}")[2].strip()
QUOTES = (_BEFORE, f"{_BEFORE}.")
"""Ends of the words before a quoted solution, which is no draft even if it is a whole program."""
KNOWN_BY = 200
"""Characters by which a task's program is recognized: prompts cut long ones."""
DRAWS = 50
"""Wrong programs that are drawn until one fails a hidden test."""
CAUSE = "my function ends in an error"
SYMPTOM = "the function raised instead of returning the wanted value"
CHANGE = "return the value that the check wants, and raise nothing"
LESSON = "Try the smallest input by hand first"
FIELDS = (
    f"ROOT_CAUSE: My mistake is that {CAUSE}\nWHAT_WENT_WRONG: The check failed because {SYMPTOM}\n"
    f"WHAT_TO_CHANGE: In my function I will {CHANGE}\n"
)
REFLECTIONS = {
    '"actionItems"': json.dumps(
        {
            "category": "approach_flaw", "analysis": f"{CAUSE}: {SYMPTOM}", "suggestion": CHANGE,
            "actionItems": ["Remove the raise", "Return the value"], "lessons": [LESSON], "confidence": 0.5,
        }
    ),
    '"strategy_change"': json.dumps(
        {
            "what_worked": "the signature", "what_failed": SYMPTOM, "root_cause": CAUSE, "strategy_change": CHANGE,
            "key_insight": LESSON,
        }
    ),
    "LESSONS:": f"{FIELDS}ACTION_ITEMS: Remove the raise\nLESSONS: {LESSON}\nCONFIDENCE: 0.5",
    "ROOT_CAUSE:": f"{FIELDS}CONFIDENCE: 0.5",
}  # fmt: skip
"""Reflection by a text of the prompt; the first match counts."""
CURATIONS = {
    "WORKFLOW: its goal": f"WORKFLOW: Write a function that returns {{value}}\nSTEP: {LESSON}\nSTEP: {CHANGE}",
    "KEYWORDS: three or more": f"KEYWORDS: value, error, return\nCONTEXT: {LESSON}\nTAGS: functions",
    "\nEVOLVE: yes\n": f"EVOLVE: yes\nLINK: 1\nTAGS: functions, values\nNEIGHBOUR: 1\nCONTEXT: {CHANGE}",
    "TITLE: its name": f"TITLE: Small inputs first\nDESCRIPTION: For every task\nCONTENT: {LESSON}",
    '"bullet_tags"': json.dumps({"key_insight": LESSON, "bullet_tags": []}),
    '"operations"': json.dumps({"operations": [{"type": "ADD", "section": "OTHERS", "content": LESSON}]}),
    "EXISTING RULES:": f"ADD 1: {LESSON}.",
    "<cheatsheet>": f"<cheatsheet>\n{LESSON}\n</cheatsheet>",
}
"""Reply to a curator, by a text of its prompt."""
ISSUES = "ISSUE: In this function the last line raises an error\nSUGGESTION: The author should return the value\n"
CRITIQUES = {True: f"{ISSUES}SEVERITY: 0.80", False: "ISSUE: none\nSEVERITY: 0.00"}
"""Critique by whether the draft is wrong."""
REVIEWS = {
    True: "REVIEW: My program needs no change\nVERDICT: correct\nWHAT_TO_CHANGE: nothing",
    False: f"REVIEW: In my program {CAUSE}\nVERDICT: wrong\nWHAT_TO_CHANGE: In my function I will {CHANGE}",
}
"""Review of its own program by whether it calls it correct."""


class SimulatedModel:
    """Replies to chat actors with a right or a wrong program, to reflectors and curators with fixed words in the
    requested form, to critics by whether the draft is wrong, and to writers of tests with the visible tests.

    A reply depends on the sampling seed, the prompt and the draw only. Usage counts one token per four characters,
    rounded up. Raises ConfigError: a probability is out of range, or a task has no canonical solution.

    `first`: mean over tasks of the probability that the first program is right. `spread`: variance of that
    probability (beta distribution) as a share of the largest possible variance. `repair`, `damage`: probabilities
    that an actor whose prompt shows an earlier attempt fixes a wrong program or breaks a right one; without an
    earlier attempt in the prompt, programs are drawn independently. `review`: probability that its review of a
    program is right. `partial`: share of inputs on which a wrong program is right; on the others it returns another
    value, and at 0 it raises. It is never right on all hidden tests: tasks whose hidden tests hold no call with
    literal arguments get programs that raise. `seed`: of the tasks' probabilities.
    """

    only_chats = "model=simulated, which answers whole prompts"

    @validated
    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        first: Share = 0.825,
        spread: Share = 0.5,
        repair: Share = 0.366,
        damage: Share = 0.475,
        partial: Share = 0.0,
        review: Share = 0.7,
        seed: int = 0,
        slots: Parallel = 64,
        context: Count = 0,
        price_per_million: Sequence[float] = (0.0, 0.0),
    ) -> None:
        if unsolved := [task.task_id for task in tasks if not task.canonical_solution.strip()]:
            raise ConfigError(f"model: {unsolved[0]} has no canonical solution; simulated needs one of every task")
        self.repair, self.damage, self.partial, self.review = repair, damage, partial, review
        self.slots = slots
        self.context = context
        self._tasks = {task.prompt.strip(): task for task in tasks}
        self._first = {task.loop_id: _chance(f"{seed}:{task.loop_id}", first, spread) for task in tasks}
        self._price = Price(per_million=tuple(price_per_million), words="as the config says")
        # fingerprints of before stay
        skill = [first, spread, repair, damage, *([partial] if partial else []), *([-review] if review != 0.7 else [])]
        self.fingerprint = f"simulated:{skill_digest([skill, seed], tasks)[:16]}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Raises ModelError for a prompt without one of the tasks."""
        prompt = "\n\n".join(message.content for message in messages)
        digest = hashlib.sha256(prompt.encode(errors="replace")).hexdigest()
        draw = random.Random(f"{sampling.seed}:{digest}:{sample}")
        reply = self._turn(messages, draw) if TURN in messages[0].content else self._reply(prompt, draw)
        counts = -(-len(prompt) // 4), -(-len(reply) // 4)
        cost = self._price.cost(*counts)
        usage = Usage(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1], cost=cost)
        return Completion(text=reply, model=self.fingerprint, usage=usage)

    def _reply(self, prompt: str, draw: random.Random) -> str:
        worded = of_answer if "\nMy answer:\n" in prompt else str
        for text, reply in (*CURATIONS.items(), *REFLECTIONS.items()):
            if text in prompt:
                return worded(reply)
        blocks = [text for _, text in BLOCK.findall(prompt)]
        if "VERDICT: correct or wrong" in prompt:
            is_right = bool(blocks) and not WRONG.search(blocks[-1])
            return worded(REVIEWS[is_right == (draw.random() < self.review)])
        task = next((self._tasks[text.strip()] for text in blocks if text.strip() in self._tasks), None)
        if task is None:
            raise ModelError(
                f"the simulated model knows no task of the prompt that begins {prompt[:80]!r}",
                expected="one of the benchmark's tasks in a block of its own, as the lab's own prompts have it",
            )
        if "SEVERITY:" in prompt:
            return CRITIQUES[bool(WRONG.search(blocks[-1]))]
        if f"assert {task.entry_point}(...) ==" in prompt:
            return "```python\n" + "\n".join(task.visible_tests) + "\n```"
        right = draw.random() < self.chance(task, prompt)
        program = task.canonical_program if right else self._wrong(task, draw)
        if task.kind == "answer":
            return f"Answer:\n{program.strip()}"
        turn = "Thought: I write the whole function.\nAction: finish\nProgram:\n" if "\nAction: " in prompt else ""
        return f"{turn}```python\n{program.strip()}\n```"

    def _turn(self, messages: Sequence[Message], draw: random.Random) -> str:
        """A turn of a play: the first one decides whether it follows the walkthrough, or looks around."""
        head, *later = (message.content for message in messages)
        places = {place: task for prompt, task in self._tasks.items() if (place := head.find(prompt)) >= 0}
        if not places:
            raise ModelError(f"the simulated model knows no task of the play that begins {head[-80:]!r}")
        task = places[min(places)]  # memory, which may show others, follows it
        walk, other = task.canonical_solution.split("\n"), "look"
        if task.kind == "answer":
            title = next(title for title, _ in task.data.get("passages", [("", [])]))
            walk, other = [f"Search[{title}]", f"Finish[{task.canonical_solution}]"], f"Finish[{wrong(task, '0000')}]"
        taken = re.findall(r"^Action: (.*)$", "\n".join(later), re.MULTILINE)
        if taken:
            follows = taken == walk[: len(taken)]
        else:
            before = [text for _, text in BLOCK.findall(head.partition(task.prompt.strip())[2])]
            is_right = bool(before) and before[-1].strip() == task.canonical_solution.strip()
            chance = 1 - self.damage if is_right else self.repair if before else self._first[task.loop_id]
            follows = draw.random() < chance
        action = walk[len(taken)] if follows and len(taken) < len(walk) else other
        return f"Thought: I take the next step.\nAction: {action}"

    def _wrong(self, task: Task, draw: random.Random) -> str:
        """A wrong program; with `partial`, of those drawn the first that fails a hidden test."""
        name, left = f"{draw.getrandbits(16):04x}", DRAWS if self.partial else 0
        while left and not _fails(task, name, self.partial):
            name, left = f"{draw.getrandbits(16):04x}", left - 1
        return self._draft(task, name)

    def _draft(self, task: Task, name: str) -> str:
        """The wrong program of this name."""
        is_partly = self.partial > 0 and _fails(task, name, self.partial)
        return partly_wrong(task, name, self.partial) if is_partly else wrong(task, name)

    def chance(self, task: Task, prompt: str) -> float:
        """Probability that the next program is right, given the last program in the prompt."""
        programs = (task.canonical_program, without_docstrings(task.canonical_program, task.prompt))
        beginnings = [program.strip()[:KNOWN_BY] for program in programs]
        drafts = [
            block
            for block in BLOCK.finditer(prompt)
            if block[2].strip() != task.prompt.strip()
            and (
                WRONG.match(block[2]) or block[2].strip() in programs
                if task.kind == "answer"
                else any(beginning in block[2] for beginning in beginnings)
            )
            and not prompt[: block.start()].rstrip().endswith(QUOTES)
        ]
        if not drafts:
            return self._first[task.loop_id]
        name = WRONG.search(drafts[-1][2])
        if not name:
            return 1 - self.damage
        return self.chance_of_repair(task, self._draft(task, name[1]), prompt[drafts[-1].end() :])

    def chance_of_repair(self, task: Task, program: str, after: str) -> float:
        """Probability of a repair of this wrong `program` by the text `after` it."""
        return self.repair


def skill_digest(before: Sequence[object], tasks: Sequence[Task], after: Sequence[object] = ()) -> str:
    """SHA-256 of the JSON list of `before`, the sorted ids and canonical programs of `tasks`, and `after`."""
    sha256 = hashlib.sha256(msgspec.json.encode(before)[:-1] + b",[")
    for number, task in enumerate(sorted(tasks, key=lambda task: task.loop_id)):
        sha256.update(b"," * bool(number) + msgspec.json.encode([task.loop_id, task.canonical_program]))
    sha256.update(b"]" + b"".join(b"," + msgspec.json.encode(part) for part in after) + b"]")
    return sha256.hexdigest()


def wrong(task: Task, name: str) -> str:
    """The canonical program with an entry point that always raises; a whole program that raises at once."""
    if task.kind == "answer":
        return f"# wrong draft {name}"
    if task.kind == "program":
        return f"# wrong draft {name}\nraise ValueError('wrong draft {name}')\n\n{task.canonical_program.strip()}"
    return (
        f"# wrong draft {name}\n{task.canonical_program.strip()}\n\n\n_draft = {task.entry_point}\n\n\n"
        f"def {task.entry_point}(*args, **kwargs):\n    _draft(*args, **kwargs)\n"
        f"    raise ValueError('wrong draft {name}')"
    )


PARTLY_WRONG = """# wrong draft {name}
{program}


import hashlib

_draft = {entry_point}


def _other(value, n):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)) and value + n != value:
        return value + n
    if isinstance(value, (str, list, tuple)) and value:
        return value[:-n]
    return None if value is not None else 0


def {entry_point}(*args, **kwargs):
    text = repr((args, sorted(kwargs.items())))
    text = ''.join(sorted(text)) if '{{' in text else text  # sets have no order
    digest = hashlib.sha256(('{name}' + text).encode(errors='replace')).digest()
    value = _draft(*args, **kwargs)
    return value if digest[0] / 256 < {share} else _other(value, 1 + digest[1] % 4)
"""


def partly_wrong(task: Task, name: str, share: float) -> str:
    """The canonical program with an entry point that returns another value on a share 1 - `share` of its inputs."""
    program, entry_point = task.canonical_program.strip(), task.entry_point
    return PARTLY_WRONG.format(name=name, program=program, entry_point=entry_point, share=share)


def _fails(task: Task, name: str, share: float) -> bool:
    """Whether `partly_wrong` is wrong on an input of the hidden tests."""
    texts = ("".join(sorted(arguments)) if "{" in arguments else arguments for arguments in _inputs(task))
    return any(hashlib.sha256((name + text).encode(errors="replace")).digest()[0] / 256 >= share for text in texts)


def _inputs(task: Task) -> list[str]:
    """Literal arguments of the hidden tests that call the entry point once, as the programs see them."""
    inputs = []
    for test in task.hidden_tests:
        with contextlib.suppress(*UNPARSABLE):
            names = ("candidate", task.entry_point)
            calls = [
                node
                for node in ast.walk(parse(test))
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
            ]
            if len(calls) == 1:
                arguments = tuple(ast.literal_eval(value) for value in calls[0].args)
                named = sorted((str(item.arg), ast.literal_eval(item.value)) for item in calls[0].keywords)
                inputs.append(repr((arguments, named)))
    return inputs


def _chance(name: str, mean: float, spread: float) -> float:
    if spread == 0 or mean in (0, 1):
        return mean
    draw = random.Random(name)
    if spread == 1:
        return float(draw.random() < mean)
    weight = 1 / spread - 1
    return draw.betavariate(mean * weight, (1 - mean) * weight)
