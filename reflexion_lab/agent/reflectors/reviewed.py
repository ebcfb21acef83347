"""Quality review of reflections before an actor reads them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import reflection_on
from reflexion_lab.agent.reflectors.llm import ReflectionError
from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Check, Episode, Reflection, Task
from reflexion_lab.tasks.evaluators.answers import NAME
from reflexion_lab.text.replies.tokens import STOP_WORDS, tokens

ReviewPolicy = Literal["flag", "retry", "reject"]
SEVERE = ("no_action", "generic", "duplicate")


class Reviewed:
    """Adds to `Reflection.flags` of the reflections of `first`, and handles severe flags.

    If a reply is withheld or unreadable and no rules replace it, returns an empty reflection of source `failed`, so
    that the attempt and its cost are recorded. Errors of the model are raised, also at the second reply of `retry`.
    Reflections that no model wrote are only flagged: rules would repeat themselves, and a control must not be improved.
    `policy`: `flag`: no further action. `retry`: call `first` once more, as another draw, and take the reflection with
    fewer severe flags, the earlier on a tie; both are paid. A fallback for a failed second reply never replaces the
    first. At temperature 0 most models repeat themselves. `reject`: empty all texts, so that no actor reads them;
    `problem` gives the reason and `text` keeps the reply. `severe`: names of `FLAGS`.
    """

    @validated
    def __init__(self, first: Reflector, policy: ReviewPolicy = "flag", severe: Sequence[str] = SEVERE) -> None:
        if unknown := sorted(set(severe) - FLAGS.keys()):
            raise ConfigError("quality.severe", ", ".join(unknown), f"some of {', '.join(FLAGS)}")
        self.first = first
        self.policy = policy
        self.severe = tuple(severe)

    def reflect(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        try:
            first = self._flagged(task, attempt, episodes)
        except ReflectionError as error:
            problem = f"{error.kind}: {error}"
            return reflection_on(attempt, "failed", text=error.text, problem=problem, usage=error.usage)
        if first is None or first.source != "llm" or self.policy == "flag" or not self._faults(first):
            return first
        if self.policy == "reject":
            return _rejected(first, self._faults(first))
        try:
            second = self._flagged(task, attempt, episodes)
        except ReflectionError as error:
            return replace(first, usage=first.usage + error.usage)
        if second is None:
            return first
        is_better = second.source == "llm" and len(self._faults(second)) < len(self._faults(first))
        return replace(second if is_better else first, usage=first.usage + second.usage)

    def _flagged(self, task: Task, attempt: Attempt, episodes: Sequence[Episode]) -> Reflection | None:
        reflection = self.first.reflect(task, attempt, episodes)
        own = flags(reflection, attempt, episodes, task.kind) if reflection else ()
        return reflection and replace(reflection, flags=(*reflection.flags, *own))

    def _faults(self, reflection: Reflection) -> tuple[str, ...]:
        return tuple(name for name in reflection.flags if name in self.severe)


def _rejected(reflection: Reflection, faults: Sequence[str]) -> Reflection:
    texts = ("root_cause", "what_went_wrong", "what_to_change", "what_worked")
    words = (*(getattr(reflection, name) for name in texts), *reflection.action_items)
    why = f"rejected: {', '.join(faults)}"
    return replace(
        reflection,
        **dict.fromkeys((*texts, "key_insight", "quoted_code"), ""),
        action_items=(),
        lessons=(),
        text=reflection.text or "\n".join(filter(None, words)),
        problem="; ".join(filter(None, (reflection.problem, why))),
    )


FLAGS = {
    "short": "All its words together have fewer than 100 characters.",
    "no_action": "It names nothing concrete to do.",
    "no_credit": "It blames no line, decision or name of the program.",
    "generic": "It would fit any failure.",
    "blames_externals": "It blames the tests, the task or the environment.",
    "unsupported_confidence": "It states a confidence of 0.8 or more and cites no evidence.",
    "duplicate": "It says what an earlier reflection on this task said.",
    "low_confidence": "Its confidence is below 0.5, and the attempt was no better than the one before.",
    "misses_check": "It names neither a failing check nor a value or an exception of one.",
    "leaks_value": "It quotes the value that a failing check expects.",
    "holds_code": "It holds code that is not the program's own.",
}
"""Meaning of each flag."""
OF_PROGRAMS = ("no_action", "no_credit", "holds_code")
"""Flags that say nothing about words on an answer or on actions."""

SHORT, SURE, UNSURE, ALIKE = 100, 0.8, 0.5, 0.9
SPECIFIC = 3
"""Number of distinct specific words from which a text is not generic."""
READ = 20_000
"""Length limit in characters of texts that are reviewed."""

_NOT_CODE = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"|'[^'\n]*'|\#[^\n]*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w+")
_LITERAL = re.compile(r"'[^'\n]*'|(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")
_GUESSED = re.compile(r"True|False|None|-?\d(?:\.0*)?")
_LINE = re.compile(r"\blines? \d", re.IGNORECASE)
_BESIDE = re.compile(r" (?=[\[\](){},:])|(?<=[\[\](){},:]) ")
# A function, a `return` with a call or arithmetic, or a compound statement with a body.
_CODE = re.compile(
    r"\bdef \w+\([^)\n]{0,200}\)[^:\n]{0,80}:|\breturn\s+\w[\w.]*(?:\([^\n]{0,200}\)|\s*(?:[-+*/%<>]|[=!]=)\s*[\w(\[])"
    r"|\breturn\s+[\[({][^\])}\n]{0,200}(?:\bfor\b|[\w)]\s*[-+*/%]\s*[\w(])"
    r"|\b(?:for \w+ in|if|while|elif) [^:\n`]{1,80}:"
    r"(?=\s*\w+(?:\(|\s*[-+*/]?=[^=])|\s*(?:return|break|continue|pass)\b)"
)
_CODE_LINE = re.compile(
    r"^\s*(?:(?:for|if|while|elif|else|try|with)\b.*:|import \w|from \w+ import|[\w.\[\]]+ ?[-+*/]?= ?\S)"
)


def flags(
    reflection: Reflection, attempt: Attempt, earlier: Sequence[Episode], kind: str = "function"
) -> tuple[str, ...]:
    """The flags of a reflection on `attempt`, in the order of `FLAGS`.

    `earlier`: episodes of the same task. `kind`: that of the task. Flags about failing checks need a failed one.
    """
    texts = _texts(reflection)
    text = " ".join(" ".join(texts)[:READ].split())
    failures = attempt.evaluation.failures
    intended = " ".join((reflection.what_to_change, *reflection.action_items))[:READ]
    own = _names(attempt.trajectory.solution, failures)
    written = _canonical(text)
    cites = any(_cites(written, check) for check in failures)
    priors = [episode.reflection for episode in earlier if episode.reflection]
    no_better = attempt.parent > 0 and not attempt.evaluation.passed and not attempt.delta.is_improvement
    is_flagged = {
        "short": len(text) < SHORT,
        "no_action": not (ACT.search(intended) or INTENDED_ACT.search(text)),
        "no_credit": not (own.intersection(_NAME.findall(text)) or CREDIT.search(text)),
        "generic": len(set(tokens(text)) - COMMONPLACE) < SPECIFIC,
        "blames_externals": bool(BLAME.search(text)),
        "unsupported_confidence": reflection.confidence >= SURE and not cites and not _LINE.search(text),
        "duplicate": any(_same(texts, _texts(before)) for before in priors),
        "low_confidence": reflection.confidence_source != "none" and reflection.confidence < UNSURE and no_better,
        "misses_check": bool(failures) and not cites,
        "leaks_value": any(_leaks(written, check) for check in failures),
        "holds_code": _holds_code(texts, attempt.trajectory.solution),
    }
    other = OF_PROGRAMS if kind in ("answer", "actions") else ()
    return tuple(name for name in FLAGS if is_flagged[name] and name not in other)


def _texts(reflection: Reflection) -> tuple[str, ...]:
    """Distinct non-empty texts of the reflection."""
    return tuple(dict.fromkeys(filter(None, reflection.texts)))


def _names(program: str, failures: Sequence[Check]) -> set[str]:
    """Names specific to this program, without common words and names in the checks."""
    checked_names = {name for check in failures for name in _NAME.findall(check.name)}
    return set(_NAME.findall(_NOT_CODE.sub(" ", program[:READ]))) - checked_names - PLAIN


def _cites(written: str, check: Check) -> bool:
    """Whether `written` (canonical form) names the check, its exception or one of its values."""
    folded, error = written.casefold(), check.error_type.rpartition(".")[2]
    spoken = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", error).casefold()
    if error and error != "AssertionError" and (error.casefold() in folded or spoken in folded):
        return True
    if error and check.message and _canonical(check.message) in written:
        return True
    if check.outcome in OUTCOMES and OUTCOMES[check.outcome].search(folded):
        return True
    named = _canonical(check.name).removeprefix("assert ")
    values = {_canonical(check.expected), _canonical(check.actual), *_LITERAL.findall(named)}
    values |= {value.strip("'") for value in _LITERAL.findall(check.message)} if check.name == NAME else set()
    call = re.match(r"[^=<>!]*\)", named)
    return any(_quotes(written, value) for value in values) or bool(call and call[0] in written)


def _leaks(written: str, check: Check) -> bool:
    """Whether `written` quotes the expected value, unless the value can be guessed or is also an argument."""
    call, _, right = check.name.rpartition("==")
    value = _canonical(check.expected or (right if re.match(r"\s*[-\d'\"\[({]", right) else ""))
    is_telling = sum(map(str.isalnum, value)) > 1 and not _GUESSED.fullmatch(value)
    return is_telling and not _quotes(_canonical(call), value) and _quotes(written, value)


def _quotes(written: str, value: str) -> bool:
    """Whether `written` quotes the whole `value`; both in canonical form."""
    if value not in written or not any(map(str.isalnum, value)):
        return False
    before, after = r"(?<![\w.])" if re.match(r"[\w-]", value) else "", r"(?!\w|\.\d)" if value[-1].isalnum() else ""
    return bool(re.search(before + re.escape(value) + after, written))


@functools.lru_cache(1024)  # attempts at one task fail the same checks
def _canonical(text: str) -> str:
    """Canonical form: uniform quotation marks, no white space around brackets and commas."""
    return _BESIDE.sub("", re.sub('["`‘’“”]', "'", " ".join(text.split())))


def _same(texts: tuple[str, ...], before: tuple[str, ...]) -> bool:
    new, old = (set(tokens(" ".join(words)[:READ])) for words in (texts, before))
    return bool(new and old) and len(new & old) >= ALIKE * len(new | old)


def _holds_code(texts: Iterable[str], program: str) -> bool:
    own = "".join(program.split())
    for text in texts:
        lines = text[:READ].splitlines()
        if "```" in text or sum(bool(_CODE_LINE.match(line)) for line in lines) > 1:
            return True
        if any("".join(code[0].split()).rstrip(".,;:`'\"") not in own for code in _CODE.finditer(text[:READ])):
            return True
    return False


_ACTS = """
accumulate add adjust append apply assign bound break build call cast change check clamp compare compute convert copy
count create cut decrement define delete divide drop exclude extend extract filter flip floor guard implement import
include increment initialise initialize insert invert iterate join keep limit loop lower maintain map merge modify
move multiply negate normalise normalize parse pass place preserve put raise reduce remove rename reorder replace
reset restrict return reverse rewrite round scan separate skip slice sort split start stop store strip subtract sum
swap switch take track traverse treat trim truncate turn update use validate walk wrap
"""
_STEMS = "|".join(word[:-1] + "(?:y|i)" if word.endswith("y") else word.removesuffix("e") for word in _ACTS.split())
_ACT = rf"(?:{_STEMS})(?:e|[b-z]?ed|[b-z]?ing)?\b"
_NO_NOUN = r"(?<!\bthe )(?<!\ba )(?<!\ban )(?<!\bof )(?<!\bin )"
ACT = re.compile(rf"\b{_NO_NOUN}{_ACT}", re.IGNORECASE)
"""A verb for a concrete change of a program, unlike `fix`, `handle`, `consider` and `ensure`."""

INTENDED_ACT = re.compile(
    r"\b(?:should|will|shall|must|could|need(?:s|ed)?|(?:has|have|ought) to|next time|let me|let's|I'll|I'd"
    r"|to (?:fix|resolve|correct|overcome|address|solve|avoid|make|ensure|prevent|mend|get|achieve|guarantee))"
    rf"(?:(?:\W+[\w']+){{0,11}}?\W+{_NO_NOUN}{_ACT}| be [`\d(])"
    rf"|\b{_NO_NOUN}(?:{_STEMS})ing\b[^.]{{0,120}} (?:will|would|should|could|can) (?:fix|resolve|solve|correct)",
    re.IGNORECASE,
)
"""Such a verb within a few words of an intention."""

_PARTS = r"""
lines? \d+|loops?|looping|iterat\w+|conditions?|conditionals?|if statement|elif|branch\w*|return statement|comparisons?
|comparing|compares|operators?|slic\w+|index\w*|indices|range|recurs\w+|base case|regex|regular expression|variables?
|counter|accumulator|initial\w*|comprehension|lambda|imports?|imported|arguments?|parameters?|dictionary|stack|queue
|sort(?:s|ed|ing)|formula|division|modul\w+|round(?:s|ed|ing)|cast\w*|convert\w*|conversion|syntax|indent\w*|parenthes\w+
|keyword|off[- ]by[- ]one|append\w*|recursion|exceptions?
"""
_DOING = """
add append assign assume break calculate call check combine compare concatenate consider convert count create cut
decrement divide exclude filter include increment initialise initialize iterate join keep look modify multiply
overwrite pad pass pop reduce remove replace reset reverse round search set skip sort split square start stop strip
subtract swap treat truncate update use
"""
_DOING_STEMS = "|".join(word.removesuffix("e") for word in _DOING.split())
CREDIT = re.compile(
    rf"\b(?:{''.join(_PARTS.splitlines())})\b|(?<!not )(?<!the )\b(?:{_DOING_STEMS})(?:e?s|[b-z]?ing)\b"
    r"|\bonly \w+s\b|\binstead of\b|\brather than\b|\bregardless\b|\breturns \w+ (?:when|if|as)\b",
    re.IGNORECASE,
)
"""A language construct, or a step of a program."""

_JUDGES = (
    r"(?:(?:unit )?tests?(?: ?cases?| suite| code)?|assertions?(?: statements?)?|assert statements?"
    r"|test(?:ing)? (?:framework|harness|environment)|expected (?:outputs?|results?|values?|answers?)"
    r"|problem (?:statement|description)|task(?: description)?|specification|docstring|environment|harness"
    r"|instructions?)"
)
_FAULTY = (
    r"(?:wrong|incorrect(?:ly)?|flawed|invalid|faulty|broken|erroneous|mistaken|inconsistent|misleading|ambiguous|unclear"
    r"|vague|contradictory|not (?:correct|valid|clear|accurate|consistent|properly|well)|written incorrectly)"
)
BLAME = re.compile(
    rf"(?<!for the )(?<!for the failed )(?<!for )\b{_JUDGES}(?: themselves| itself| provided| given)?"
    r" (?:is|are|was|were|(?:may|might|could|must) be|seems?|appears?)"
    rf"(?: to be| being)?(?: \w+){{0,2}}? {_FAULTY}\b"
    rf"|\b(?:issue|problem|mistake|bug|fault|inconsistency|flaw|typo|(?:an|possible) error|error lies) (?:is |lies )?"
    rf"(?:in|with) (?:how )?(?:the |these |those |provided |given )*{_JUDGES}(?! where| is that| that| when|\w)"
    rf"|\b{_FAULTY} {_JUDGES}(?! results?| outputs?|\w)"
    r"|\bambigu(?:ous|ity)\b"
    r"|\b(?:implementation|function|code|program|solution|logic)(?: \w+){0,4}? (?:is|was|seems to be|appears to be)"
    r"(?: actually| already| indeed)? correct(?=[,.;]| but| and| as)"
    r"|\b(?:remove|change|modify|correct|fix|adjust|update|rewrite) (?:the |this |that |these |those |failing )*"
    r"(?:unit )?(?:tests?(?: ?cases?)?|assertions?)\b",
    re.IGNORECASE,
)
"""Blame on something other than the program."""

OUTCOMES = {
    "timeout": re.compile(r"time|infinite|endless|forever|slow|terminat|hang|never end|effici"),
    "memory": re.compile(r"memory|recurs|stack"),
}
"""Descriptions of outcomes without an exception."""

COMMONPLACE = frozenset((Path(__file__).parent / "commonplace.txt").read_text(encoding="utf-8").split())
"""Words that fit a text about any failure."""
PLAIN = COMMONPLACE | STOP_WORDS | {"def", "None", "True", "False"}
