"""Evidence of a failure: its class, descriptions of failing checks, and reflections based on them."""

from __future__ import annotations

import builtins
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from reflexion_lab.records import WITHHELD, Attempt, Check, Evaluation, Record, Reflection, Task, Trajectory
from reflexion_lab.tasks.evaluators.unit_tests import UNANSWERED
from reflexion_lab.text import shorten
from reflexion_lab.text.lines import by_text_of, where
from reflexion_lab.text.replies.extract import without_thoughts

OUTCOMES = {
    "fail": "it did not hold",
    "error": "it raised an error",
    "timeout": "time ran out",
    "memory": "memory ran out",
    "early_exit": "the program ended before its checks did",
}
"""Description of a check without an exception or a message."""


def check_line(
    check: Check, program: str, outcomes: Mapping[str, str] = OUTCOMES, chars: int = 300, mark: str = "…"
) -> str:
    """One line: the check's source, its exception and message (cut to `chars`), and its line of `program`."""
    # AssertionError adds nothing to an `assert`; other exceptions are named.
    error = "" if check.error_type == "AssertionError" and check.message else check.error_type
    message = by_text_of(check.error_type, check.message, program)
    cause = ": ".join(filter(None, (error, shorten.line(message, chars, mark)))) or outcomes.get(check.outcome, "")
    return f"`{shorten.line(check.name, 200, mark)}` -> {cause or check.outcome}{where(program, check.line)}"


_BY_OUTCOME = {
    "timeout": "timeout",
    "memory": "memory",
    "extraction_failed": "no_program",
    "early_exit": "unknown",
    **dict.fromkeys(WITHHELD, "unknown"),
}

_OUTCOMES = OUTCOMES | {
    "no_tests": "there was no check to run",
    "extraction_failed": "no program could be found in my reply, which must hold one whole function",
    "refusal": "I refused to answer, and gave no program",
    "content_filter": "my reply was cut out by a filter, and no program was left",
    "context_overflow": "the prompt was too long for me, and no program was written",
    "refused": "the server refused my prompt, and no program was written",
    "wrong_model": "another model answered, whose reply does not count",
}


def reflection_on(attempt: Attempt, source: str, **fields: Any) -> Reflection:
    """A reflection with these fields. Defaults: the category of the evidence, and empty texts."""
    default: dict[str, Any] = dict.fromkeys(("root_cause", "what_went_wrong", "what_to_change"), "")
    default |= {"confidence": 0.0, "confidence_source": "none", "about_attempt": attempt.number, "source": source}
    if "category" not in fields:
        default["category"] = classify_evaluation(attempt.evaluation)[0]
    return Reflection(reflection_id=f"{attempt.task_id}#{attempt.number}", **default | fields)


def classify_evaluation(evaluation: Evaluation) -> tuple[str, Check | None]:
    """The failure class (one of `CLASSES`) and the check that shows it; None if no check failed."""
    check = next(iter(evaluation.failures), None)
    if evaluation.outcome in _BY_OUTCOME:
        alike = (failed for failed in evaluation.failures if failed.outcome == evaluation.outcome)
        return _BY_OUTCOME[evaluation.outcome], next(alike, check)
    if check is None:
        return "unknown", None
    if check.outcome in _BY_OUTCOME:
        return _BY_OUTCOME[check.outcome], check
    # The message of a failed comparison quotes values, which must not be classified.
    if check.outcome == "fail" and not check.error_type:
        return "assertion", check
    return classify(check.error_type, check.message), check


def describe(attempt: Attempt, check: Check | None) -> str:
    """One line: the check, its failure and its line; without a check, the outcome of the evaluation."""
    if attempt.evaluation.outcome == "extraction_failed":
        return without_program(attempt.trajectory)
    if check is None:
        outcome = attempt.evaluation.outcome
        return shorten.line(_OUTCOMES.get(outcome, f"the checks ended in {outcome}"), 200)
    return check_line(check, attempt.trajectory.solution, _OUTCOMES)


def without_program(trajectory: Trajectory) -> str:
    """Why the reply holds no program, by its finish reason and the rule of the extraction; of a play, how it ended."""
    if trajectory.strategy == "play" and trajectory.ended in UNANSWERED:
        return f"my {len(trajectory.steps)} turns ended without an answer: {UNANSWERED[trajectory.ended]}"
    last = trajectory.steps[-1].usage if trajectory.steps else trajectory.usage
    if trajectory.finish_reason == "length" or 0 < last.replies == last.cut_replies:
        return "my reply broke off at max_tokens before the program"
    if trajectory.finish_reason in ("tool_calls", "function_call"):
        return "my reply called a tool and gave no program"
    if trajectory.extraction == "thinking":
        return "my reply ended within my thoughts, before the program"
    if not without_thoughts(trajectory.reply)[0].strip():
        return f"my reply was empty{', after thoughts alone' * bool(trajectory.rationale or trajectory.reply.strip())}"
    return "my reply was too long to be read" if trajectory.extraction == "too_long" else _OUTCOMES["extraction_failed"]


class FailureClass(Record, frozen=True, kw_only=True):
    """Texts of `Rules` for one class of failures, in the first person."""

    confidence: float
    root_cause: str
    symptom: str
    fix: str
    action: str
    """Contains `{evidence}`: the failing check, its failure and its line."""


CLASSES = {
    "no_program": FailureClass(
        confidence=0.6,
        root_cause="My reply holds no program.",
        symptom="There was nothing to run:",
        fix="I will think briefly and write the whole function in one code block.",
        action="Give the whole function: {evidence}",
    ),
    "syntax": FailureClass(
        confidence=0.6,
        root_cause="My program is not valid Python, or it uses a name that is defined nowhere.",
        symptom="Python could not make sense of the program as I wrote it.",
        fix="I will check brackets, colons and indentation, and define every name before I use it.",
        action="Write the program so that Python accepts it and knows every name: {evidence}",
    ),
    "assertion": FailureClass(
        confidence=0.5,
        root_cause="The logic of my program computes something other than what the task asks for.",
        symptom="The program ran, but its answer differs from the expected one.",
        fix="I will trace the failing example by hand and change the first step whose value is wrong.",
        action="Trace this by hand until the value goes wrong, and correct that step: {evidence}",
    ),
    "timeout": FailureClass(
        confidence=0.5,
        root_cause="My program loops without end, or does far more work than the task needs.",
        symptom="The program was stopped before it gave an answer.",
        fix="I will make every loop and recursion approach its end, and choose a cheaper algorithm.",
        action="Find the loop that does not finish here, and bound it: {evidence}",
    ),
    "null": FailureClass(
        confidence=0.6,
        root_cause="My program uses a value that is None as if it were an object.",
        symptom="An operation met None where it needed a value.",
        fix="I will find where the None comes from, often a missing return, and handle it before use.",
        action="Return or check the value that is None here: {evidence}",
    ),
    "index": FailureClass(
        confidence=0.6,
        root_cause="My program reads a position or key that its data does not have.",
        symptom="A look-up went past what the sequence or mapping holds.",
        fix="I will check bounds and keys first, and think through empty and one-element input.",
        action="Guard the look-up that fails here: {evidence}",
    ),
    "permission": FailureClass(
        confidence=0.4,
        root_cause="My program touches a resource that it may not use.",
        symptom="The system refused an operation.",
        fix="I will solve the task with values in memory, without files, network or other processes.",
        action="Remove the forbidden operation: {evidence}",
    ),
    "import": FailureClass(
        confidence=0.6,
        root_cause="My program imports a module or name that does not exist here.",
        symptom="An import failed before the program could start.",
        fix="I will use the standard library alone and spell module and attribute names exactly.",
        action="Replace or correct the import: {evidence}",
    ),
    "type": FailureClass(
        confidence=0.5,
        root_cause="My program applies an operation to a value of a kind that it does not work on.",
        symptom="An operation rejected its operands or arguments.",
        fix="I will check which types and values reach that operation, and convert or guard them first.",
        action="Check what reaches the failing operation: {evidence}",
    ),
    "concurrency": FailureClass(
        confidence=0.4,
        root_cause="Parts of my program that run at once get in each other's way.",
        symptom="The program's threads or processes blocked or broke one another.",
        fix="I will write it without threads or processes, or take every lock in one fixed order.",
        action="Make the failing step sequential: {evidence}",
    ),
    "memory": FailureClass(
        confidence=0.4,
        root_cause="My program builds more data, or recurses deeper, than its limits allow.",
        symptom="The program ran out of memory or of stack.",
        fix="I will bound the recursion with a base case, or replace it by a loop over small data.",
        action="Reduce what is kept or how deep the calls go: {evidence}",
    ),
    "unknown": FailureClass(
        confidence=0.3,
        root_cause="The cause of the failure does not show in its messages.",
        symptom="The program did not get through its checks.",
        fix="I will read the task again, and run each example in my head line by line.",
        action="Reproduce this failure in small steps: {evidence}",
    ),
}
"""Failure classes by name, as in `Reflection.category`."""

_OF_ANSWERS = {
    "The check failed": "It failed",
    "In my function": "Next time",
    "The program ran, but its answer differs from": "The answer differs from",
    ", which must hold one whole function": "",
    "write the whole function in one code block": "write the whole answer",
    "whole function": "whole answer",
    "function": "answer",
    "program": "answer",
}
"""The lab's words about functions, and those about an answer."""


def in_words_of(task: Task, text: str) -> str:
    """A text of the lab in words for the task's kind; one that begins with a check's name holds a model's words."""
    return of_answer(text) if task.kind == "answer" and not text.startswith("`") else text


def of_answer(text: str) -> str:
    """A text of the lab about a function, in words about an answer."""
    for words, instead in _OF_ANSWERS.items():
        text = text.replace(words, instead)
    return text


_EXCEPTIONS = {
    "SyntaxError": "syntax",
    "NameError": "syntax",
    "AssertionError": "assertion",
    "TimeoutError": "timeout",
    "IndexError": "index",
    "KeyError": "index",
    "StopIteration": "index",
    "PermissionError": "permission",
    "ImportError": "import",
    "TypeError": "type",
    "ValueError": "type",
    "AttributeError": "type",
    "ZeroDivisionError": "type",
    "OverflowError": "type",
    "BrokenPipeError": "concurrency",
    "BrokenBarrierError": "concurrency",
    "MemoryError": "memory",
    "RecursionError": "memory",
}
"""Subclasses (IndentationError, UnicodeDecodeError, …) have the class of the nearest ancestor here."""

_KEYWORDS = {
    "null": r"nil pointer|null pointer|null reference|nil dereference|NoneType|(of|is) (null|undefined)",
    "import": r"(missing|unresolved|cannot|failed to) import|import (error|failed|cycle)|no module named"
    r"|(cannot|could not) find (module|package)|(module|package) (was )?not found",
    "permission": r"permission denied|access (is )?denied|operation not permitted|read-only file system",
    "memory": r"out of memory|OOM|memory (limit|error|exhausted)|cannot allocate|stack overflow"
    r"|recursion depth",
    "concurrency": r"deadlock(ed)?|livelock|race|broken ?pipe|concurrent (access|modification|map \w+)",
    "syntax": r"syntax error|invalid syntax|unexpected (token|indent|identifier|EOF|end of (file|input))"
    r"|(undefined|undeclared) (name|variable|identifier)|is not defined|compil(e|ation) (error|failed)"
    r"|was never closed|unterminated [\w-]+|unindent does not match|expected an indented block",
    "index": r"out of (range|bounds)|key not found|(no such|missing) key|pop from (an )?empty",
    "type": r"type (mismatch|error|conversion|assertion)|(incompatible|mismatched|wrong) types?"
    r"|not assignable|(cannot|can't|could not) (convert|unmarshal)|(division|modulo) by zero"
    r"|not supported between instances|unsupported operand|invalid literal for|values to unpack"
    r"|object (has no attribute|is not (iterable|callable|subscriptable))|doesn't define"
    r"|takes .{1,30} positional arguments? but|missing \d+ required|unexpected keyword argument",
    "timeout": r"timed? ?-?out|deadline exceeded|time limit exceeded|time (is|was) over|TimeoutExpired",
    "assertion": r"assert(ion)?|test failed|expect(ed)?|not equal|mismatch(ed)?",
}
"""Patterns by class, the more specific first."""

_PATTERNS = {name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for name, words in _KEYWORDS.items()}
# Quoted text is data, except 'NoneType', which Python quotes. A word with `test_`, `::` or a tests folder is the
# name of a test.
_NOT_WORDS = re.compile(
    r"""(?<!\w)(["'`])(?!NoneType\1)[^"'`\n]*\1(?!\w)|(?<!\S)\S*?(?:\btest_|_test\b|::|\btests?/)\S*"""
)
LOOKED_AT = 10_000
"""Characters of a message that are classified."""
_KEY = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
"""The whole text of a KeyError; the text of other exceptions and of printed values has no quotes around it."""
_EXCEPTION_LINE = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?")
_HEADER = "Traceback (most recent call last):"


def classify(error_type: str, message: str) -> str:
    """One of `CLASSES`. If `error_type` is "", `message` may be a whole traceback or any other error text."""
    if not error_type:
        error_type, message = _raised(message)
    name = error_type.rpartition(".")[2]
    if name in {"AttributeError", "TypeError"} and "NoneType" in message:
        return "null"
    kind = getattr(builtins, name, None)
    ancestors = [parent.__name__ for parent in kind.__mro__] if isinstance(kind, type) else [name]
    for ancestor in ancestors:
        if ancestor in _EXCEPTIONS:
            return _EXCEPTIONS[ancestor]
    words = " ".join(_NOT_WORDS.sub(" ", message[:LOOKED_AT]).split())
    is_other = bool(name) and not re.search("assert|expect|test", name, re.IGNORECASE)
    for category, pattern in _PATTERNS.items():
        # In an exception other than a failed check, "expected a list" refers to the program's own data.
        if pattern.search(words) and not (is_other and category == "assertion"):
            return category
    return "unknown"


def _raised(text: str) -> tuple[str, str]:
    """Type and message of the exception at the end of `text`; type "" if there is none."""
    _, header, after = textwrap.dedent(text).rpartition(_HEADER)
    lines = [line for line in after.splitlines() if line.strip() and not line[0].isspace()]
    if _KEY.fullmatch(text.strip()):
        return "KeyError", text
    # After a header, the first line that is not indented names the exception; notes may follow it.
    for line in lines if header else reversed(lines):
        if match := _EXCEPTION_LINE.fullmatch(line.rstrip()):
            kind = getattr(builtins, match["type"], None)
            is_builtin = isinstance(kind, type) and issubclass(kind, BaseException)
            # "Error" alone is a common word, not a type.
            if is_builtin or re.search(r".(Error|Exception|Exit|Interrupt|Expired)$", match["type"]):
                return match["type"], match["message"] or ""
    return "", text
