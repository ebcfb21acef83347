"""Intrinsic self-correction: the model reviews its own program, of which nothing was run, and says whether to stop."""

from __future__ import annotations

import re

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.agent.reflectors.llm import LLMReflector, ReflectionError
from reflexion_lab.records import Attempt, Category, Completion, Reflection
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.replies.labelled import Labels, objects, one_line
from reflexion_lab.text.shorten import bounded

GRAMMAR = r"""
root ::= "REVIEW: My program " value "VERDICT: " ("correct" | "wrong") "\nWHAT_TO_CHANGE: In my function I will " value
value ::= [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\n"
word ::= [a-zA-Z_.,`']{1,24} | [!-~]{1,10}
"""
VERDICTS = {"correct": True, "right": True, "wrong": False, "incorrect": False}
CHARS = 500
"""Maximum characters of a review and of a change."""
KEYS = {"review": "REVIEW", "verdict": "VERDICT", "whattochange": "CHANGE", "change": "CHANGE"}
"""Labels by JSON key."""
_VERDICT = re.compile(rf"\b((?:not|isn['’]t|no longer)\s+(?:\w+\s+)?)?({'|'.join(VERDICTS)})\b")
_LABELS = Labels(
    {"REVIEW": ("review",), "VERDICT": ("verdict",), "CHANGE": ("what_to_change", "change")}, "self_review*"
)


class SelfReview(LLMReflector):
    """Asks the model to review its own program without any feedback (Huang et al. 2024, arXiv 2310.01798, section 3).

    A program that it finds correct has the category `correct`, on which `stop=satisfied` ends the loop. Parameters as
    of `LLMReflector`; evidence and earlier reflections are in no prompt.
    """

    needs_no_verdict = True

    def form(self, attempt: Attempt) -> tuple[str, str]:
        return "self_review", GRAMMAR

    def read(self, attempt: Attempt, completion: Completion, prompt: str) -> Reflection:
        reply = _LABELS.answer(without_thoughts(completion.text)[0])
        sections = {label: " ".join(lines) for label, lines, _ in reversed(_LABELS.last(reply, ("VERDICT",)))}
        for fields in objects(reply) if "VERDICT" not in sections else ():
            sections |= {KEYS[key]: str(value) for key, value in fields.items() if key in KEYS}
        texts = {label: bounded(one_line(text), CHARS) for label, text in sections.items()}
        verdicts = {VERDICTS[word] != bool(no) for no, word in _VERDICT.findall(texts.get("VERDICT", "").lower())}
        if len(verdicts) != 1:
            problem = f"the reply has no clear VERDICT: {one_line(completion.text)[:80]!r}"
            raise ReflectionError("parse_error", f"{problem}; expected `correct` or `wrong`", completion)
        (is_correct,) = verdicts
        change = "" if is_correct else texts.get("CHANGE", "")
        return reflection_on(
            attempt,
            "llm",
            root_cause=texts.get("REVIEW", ""),
            what_to_change=change,
            action_items=(change,) if change else (),
            category=Category.CORRECT if is_correct else Category.ROOT_CAUSE,
            text=completion.text,
            usage=completion.usage,
        )
