"""Rows of questions with answers: those of GSM8K, of AIME, of MMLU, and of HotPotQA with its passages."""

from __future__ import annotations

from string import ascii_uppercase
from typing import Any

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.rows import Fields, checked, decoded, id_of, listed
from reflexion_lab.tasks.evaluators.answers import check_of
from reflexion_lab.text.replies.answers import exact, is_symbolic, numeric

QUESTIONS, OTHERS = ("question", "problem"), {"prompt", "test_list", "tests", "hidden_tests"}
"""Columns of a question, the first counts; columns that a row of another form has."""
TRUTH = {"true": ["yes", "true"], "false": ["no", "false"]}
"""Texts that are accepted for a truth value."""


class Answered(msgspec.Struct, frozen=True):
    """What is read of a row besides question, options and id."""

    answer: list[str | int | float | bool]
    context: Any = None
    rule: str = ""


def is_question(row: Fields) -> bool:
    """Whether a row is a question with an answer. Its columns may begin with capitals, which it then loses."""
    columns = {name.lower(): name for name in row}
    is_other = "entry_point" in row or ("answer" not in columns and not OTHERS.isdisjoint(row))
    if is_other or columns.keys().isdisjoint(QUESTIONS):
        return False
    for name in {"answer", *QUESTIONS} & columns.keys() - row.keys():
        row[name] = row.pop(columns[name])
    return True


def task(row: Fields) -> Task:
    """The task of a row; without an id its name is that of the question's digest.

    The right answer stands behind the last `####`, if there is one: what precedes it, a solution in words, is in no
    task. Several answers in a list are all accepted; a text is one, also if it looks like a list. Compared by the row's
    `rule`; else by `exact` if the row has passages, as HotPotQA does, or options, `literal` where punctuation counts,
    as in an expression, `numeric` for a number, else `exact`. Passages (`context`) become `data["passages"]`, pairs of
    a title and its sentences. Options (`choices` or `options`) are asked with their labels. Raises DataError.
    """
    question = str(next(filter(None, (row.pop(name, None) for name in QUESTIONS)), ""))
    question = f"{row.pop('Body')} {question}" if "Body" in row else question  # as SVAMP has it
    label = str(row.get("answer")).strip("(). ")
    is_label = len(label) == 1 and label.isalpha()  # whose question makes no sense without its options
    names = [each for each in ("choices", "options") if is_label or isinstance(listed(row.get(each)), list | dict)]
    names.sort(key=lambda each: not isinstance(listed(row.get(each)), list | dict))
    given = next((row.pop(each) for each in names if each in row), None)
    if type(row.get("answer")) is int and isinstance(given, list) and row["answer"] in given:
        row["answer"] = str(row["answer"])  # a number among numbers, no place
    name, options = id_of(row, question), _options(given)
    if not isinstance(row.get("answer", []), list):
        row["answer"] = [row["answer"]]
    fields = decoded(row, Answered)
    given = [str(answer).rpartition("####")[2].strip() for answer in fields.answer]
    right = [text for each in given for text in TRUTH.get(each.lower(), [each])]
    right = _right(fields.answer, options) if options else right
    passages = _passages(fields.context)
    is_free = bool(right) and not passages and not options
    is_number = is_free and all(numeric(answer) is not None for answer in right)
    is_literal = is_free and not is_number and any(map(is_symbolic, right))
    rule = fields.rule or ("numeric" if is_number else "literal" if is_literal else "exact")
    if rule not in ("exact", "literal", "numeric"):
        raise DataError("field $.rule", repr(rule), "exact, literal or numeric")
    if not right or not all(right) or (rule == "numeric" and not is_number and None in map(numeric, right)):
        raise DataError("field $.answer", repr(fields.answer)[:80], "a number" if rule == "numeric" else "an answer")
    if not question.strip():
        raise DataError("field $.question", "an empty text", "a question")
    more = {"is_symbolic": rule == "literal", "has_lines": "\n" in "".join(right), "passages": passages}
    more |= {"options": options}
    listing = "".join(f"{label}) {text}\n" for label, text in options.items())
    return checked(
        Task(
            task_id=name,
            prompt=f"{question}\n\n{listing}\nAnswer with one of {', '.join(options)}." if options else question,
            entry_point="",
            kind="answer",
            data={"is_number": rule == "numeric"} | {name: value for name, value in more.items() if value},
            hidden_tests=(check_of(rule, *right),),
            canonical_solution=right[0],
        )
    )


def _options(value: Any) -> dict[str, str]:
    """Texts of the options by label; a list has letters. Raises DataError: they have another form."""
    options = listed(value) or {}
    try:
        if isinstance(options, list):
            options = {"label": ascii_uppercase[: len(options)], "text": options}
        if options.keys() >= {"label", "text"}:
            options = dict(zip(options["label"], options["text"], strict=True))
        options = {label: text for label, text in options.items() if text is not None}
        return {label: str(text) for label, text in msgspec.convert(options, dict[str, str | int | float]).items()}
    except (AttributeError, TypeError, ValueError):
        expected = "a list of texts, an object of texts, or one of the lists `label` and `text`"
        raise DataError("field $.choices or $.options", repr(value)[:80], expected) from None


def _right(answers: list[Any], options: dict[str, str]) -> list[str]:
    """What names the right option: its label, and its text unless that could be read as another's. Raises DataError:
    the answers are not one label, number from 0 (an integer is no text), or text of one option.
    """
    given = str(answers[0]).strip() if len(answers) == 1 else ""
    is_text = bool(answers) and not (type(answers[0]) is int and answers[0] in range(len(options)))
    texts = [text.strip() for text in options.values()]
    chosen = [
        (label, " ".join(text.split()))
        for i, (label, text) in enumerate(options.items())
        if given.strip("().") == label
        or (given not in texts and given.strip("().").lower() == label.strip("().").lower())
        or (is_text and given == text.strip())
        or (given == str(i) and given not in options)
    ]
    if len(chosen) != 1:
        raise DataError("field $.answer", repr(answers)[:80], f"one of {', '.join(options)}, its number from 0 or text")
    [(label, text)] = chosen
    others = {exact(each) for pair in options.items() if pair[0] != label for each in pair}
    return [label, *(form for form in (text, f"{label} {text}", f"option {label}") if exact(form) not in others)]


def _passages(context: Any) -> list[list[Any]]:
    """Pairs of a title and its sentences. Raises DataError: `context` has neither form."""
    pairs = context or []
    try:
        if isinstance(pairs, dict):
            pairs = [*zip(pairs["title"], pairs["sentences"], strict=True)]
        return [[title, [*sentences]] for title, sentences in msgspec.convert(pairs, list[tuple[str, list[str]]])]
    except (KeyError, TypeError, ValueError):
        expected = "a list of [title, sentences], or an object of the lists `title` and `sentences`"
        raise DataError("field $.context", repr(context)[:80], expected) from None
