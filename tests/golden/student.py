"""A model for the golden runs: it answers every prompt of the lab in the form asked for, sometimes rightly."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.records import Completion, Message, Sampling, Usage

SOLUTION = re.compile(r"^SOLUTION (\w+)\n(.*?)^END$", re.DOTALL | re.MULTILINE)
SIGNATURE = re.compile(r"^def (\w+)\(", re.MULTILINE)
LABELLED = "ROOT_CAUSE: {0}\nWHAT_WENT_WRONG: {1}\nWHAT_TO_CHANGE: {2}\nCONFIDENCE: {3}"
MORE = "assert {0}('a') == 'a'\nassert {0}([]) == []\n"
CURATED = {
    "My operations on the list:": "AGREE 1: Check the ends.\nADD 9: Check step {0} of every loop.",
    "WORKFLOW: its goal": "WORKFLOW: Go through {{items}} in {0} steps\nSTEP: Take one.\nSTEP: Return the last.",
    "<cheatsheet>": "<cheatsheet>\nRanges leave out their end. Count: {0}\n</cheatsheet>",
    "KEYWORDS: three or more": "KEYWORDS: range, end, step{0}\nCONTEXT: About ends.\nTAGS: loops, values, list",
    "EVOLVE: yes": "EVOLVE: yes\nLINK: 1\nTAGS: loops\nNEIGHBOUR: 1\nCONTEXT: It is about end {0}.\nTAGS: ends",
    "TITLE: its name": "TITLE: Ends {0}\nDESCRIPTION: For every loop.\nCONTENT: Look at the last value first.",
    '"bullet_tags"': '{{"error_identification": "step {0}", "root_cause_analysis": "an end", "correct_approach": "", '
                     '"key_insight": "count the ends", "bullet_tags": []}}',
    '"section": one of': '{{"reasoning": "new", "operations": [{{"type": "ADD", "section": "STRATEGIES & INSIGHTS", '
                         '"content": "Count the ends of step {0}."}}]}}',
}  # fmt: skip
"""What a prompt of a curator holds, and the reply to it."""


class Student:
    """Its reply depends on the prompt, the seed and the draw alone. What it knows of memory it reads in its prompt.

    Parameters
    ----------
    path
        A JSON file: the canonical program of each function by its name.
    """

    def __init__(self, path: str, seconds: float = 0.0, slots: int = 4, context: int = 0) -> None:
        self.programs: dict[str, str] = json.loads(Path(path).read_text())
        self.slots, self.context = slots, context
        self.fingerprint = "student:1"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        prompt = "\n\n".join(message.content for message in messages)
        seed = f"{prompt}\n{sampling.seed}\n{sampling.temperature}\n{sample}"
        text = self._reply(prompt, int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4], "big"))
        usage = Usage(calls=1, prompt_tokens=-(-len(prompt) // 4), completion_tokens=-(-len(text) // 4))
        return Completion(text=text, model=self.fingerprint, usage=usage)

    def _reply(self, prompt: str, draw: int) -> str:
        for words, reply in CURATED.items():
            if words in prompt:
                return reply.format(draw % 7)
        if '"actionItems"' in prompt or '"key_insight"' in prompt:
            return self._json(prompt, draw)
        if "ROOT_CAUSE:" in prompt and "CONFIDENCE:" in prompt:
            return self._reflection(prompt, draw)
        if "SEVERITY:" in prompt:
            return (
                f"ISSUE: line {draw % 5} is wrong for input {draw % 3}\nSUGGESTION: check it\nSEVERITY: 0.{draw % 10}"
            )
        name = self._function(prompt)
        if "Observation" in prompt and draw % 2:
            return "Thought: The tests say enough.\nAction: finish\n"
        if "Action:" in prompt or "Actions:" in prompt:
            program = f"```python\n{self._program(name, draw)}\n```\n"
            return f"Thought: I try {draw % 7}.\nAction: run_tests\nProgram:\n{program}"
        if "I need tests" in prompt:
            return f"```python\nassert {name}(1) == {draw % 3}\n{MORE.format(name)}```"
        if prompt.rstrip().endswith(f"assert {name}"):
            return f"(1) == {draw % 3}\n{MORE.format(name)}"
        if "```" in prompt:
            return f"So be it.\n\n```python\n{self._program(name, draw)}\n```"
        return (" The first step, then the next." if prompt.endswith("#") else "") + f"\n{self._body(name, draw)}"

    def _function(self, prompt: str) -> str:
        """The known function that the prompt names last."""
        known = [name for name in SIGNATURE.findall(prompt) if name in self.programs]
        return known[-1] if known else next(iter(self.programs))

    def _program(self, name: str, draw: int) -> str:
        right = self.programs[name].strip()
        wrong = (
            f"def {name}(*args):\n    return {draw % 3}",
            f"def {name}(*args):\n    return args[{draw % 3}].missing",
            f"def {name}(*args:\n    return None",
            f"{right}\n\n\n_first = {name}\n\n\ndef {name}(*args):\n    return [_first(*args)]",
        )
        return (right, *wrong)[draw % 5] if draw % 7 else right

    def _body(self, name: str, draw: int) -> str:
        right = self.programs[name].rpartition('"""')[2].strip("\n")
        return (right, f"    return {draw % 3}", "    return None.strip()", right)[draw % 4] + "\n"

    @staticmethod
    def _reflection(prompt: str, draw: int) -> str:
        causes = ("My return value ignores the argument", "My loop ends one element early", "I read an unknown name")
        cause = causes[draw % 3]
        if "WHAT_WORKED" in prompt:
            return "WHAT_WORKED: The comparison is exact\n" + LABELLED.format(cause, "Nothing", "keep it", "0.8")
        if draw % 11 == 0:
            return "I do not know."
        went = f"The check number {draw % 4} got another value"
        return LABELLED.format(cause, went, f"I will return the value of step {draw % 6}", f"0.{draw % 10}")

    @staticmethod
    def _json(prompt: str, draw: int) -> str:
        words = f"The value of step {draw % 6} is wrong"
        if '"actionItems"' in prompt:
            steps = [f"compare step {draw % 4}", "return it"]
            reply: dict[str, object] = {
                "category": "root_cause", "analysis": words, "suggestion": "I will return the right one",
                "actionItems": steps, "confidence": (draw % 10) / 10,
            }  # fmt: skip
        else:
            reply = {
                "what_worked": "The signature", "what_failed": words, "root_cause": "My loop ends early",
                "strategy_change": f"I will go on to the end {draw % 4}", "key_insight": "Ranges leave out their end",
            }  # fmt: skip
        return "no JSON today" if draw % 13 == 0 else json.dumps(reply)
