"""Rows of questions with answers: those of GSM8K, of AIME, and of HotPotQA with its passages."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.rows import Fields, checked, decoded
from reflexion_lab.tasks.evaluators.answers import check_of
from reflexion_lab.text.replies.answers import is_symbolic, numeric

QUESTIONS, IDS = ("question", "problem"), ("task_id", "id", "_id", "ID")
"""Columns of a question and of its name, the first counts."""
FORM = "a list of [title, sentences], or an object of the lists `title` and `sentences`"


class Answered(msgspec.Struct, frozen=True):
    """What is read of a row besides question and id."""

    answer: str | int | float | list[str]
    context: Any = None
    rule: str = ""


def has_answer(row: Fields) -> bool:
    """Whether a row is a question with an answer."""
    return "answer" in row and "entry_point" not in row and any(name in row for name in QUESTIONS)


def task(row: Fields) -> Task:
    """The task of a row; without an id its name is that of the question's digest.

    The right answer stands behind the last `####`, if there is one: what precedes it, a solution in words, is in no
    task. Several answers in a list are all accepted. Compared by the row's `rule`; else by `exact` if the row has
    passages, as HotPotQA does, `literal` where punctuation counts, as in an expression, `numeric` for a number, else
    `exact`. Passages (`context`) become
    `data["passages"]`, pairs of a title and its sentences. Raises DataError.
    """
    question = str(next(filter(None, (row.pop(name, None) for name in QUESTIONS)), ""))
    name = next((str(row.pop(name)) for name in IDS if name in row), "")
    fields = decoded(row, Answered)
    given = fields.answer if isinstance(fields.answer, list) else [str(fields.answer)]
    right = [answer.rpartition("####")[2].strip() for answer in given]
    passages = _passages(fields.context)
    is_number = not passages and all(numeric(answer) is not None for answer in right)
    is_literal = not passages and not is_number and any(map(is_symbolic, right))
    rule = fields.rule or ("numeric" if is_number else "literal" if is_literal else "exact")
    if rule not in ("exact", "literal", "numeric"):
        raise DataError("field $.rule", repr(rule), "exact, literal or numeric")
    if not right or not all(right) or (rule == "numeric" and not is_number and None in map(numeric, right)):
        raise DataError("field $.answer", repr(fields.answer)[:80], "a number" if rule == "numeric" else "an answer")
    if not question.strip():
        raise DataError("field $.question", "an empty text", "a question")
    return checked(
        Task(
            task_id=name or "question-" + hashlib.sha256(question.encode(errors="replace")).hexdigest()[:12],
            prompt=question,
            entry_point="",
            kind="answer",
            data={"is_number": rule == "numeric"}
            | ({"is_symbolic": True} if rule == "literal" else {})
            | ({"has_lines": True} if any("\n" in answer for answer in right) else {})
            | ({"passages": passages} if passages else {}),
            hidden_tests=(check_of(rule, *right),),
            canonical_solution=right[0],
        )
    )


def _passages(context: Any) -> list[list[Any]]:
    """Pairs of a title and its sentences. Raises DataError: `context` has neither form."""
    if not context:
        return []
    pairs = context
    if isinstance(context, dict):
        titles, texts = context.get("title"), context.get("sentences")
        is_paired = isinstance(titles, list) and isinstance(texts, list) and len(titles) == len(texts)
        pairs = [[*pair] for pair in zip(titles or (), texts or (), strict=True)] if is_paired else None
    try:
        return [[title, [*sentences]] for title, sentences in msgspec.convert(pairs, list[tuple[str, list[str]]])]
    except msgspec.ValidationError:
        raise DataError("field $.context", repr(context)[:80], FORM) from None
