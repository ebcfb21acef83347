"""Quality flags of reflections: English heuristics, without a model.

They err. Of 18 to 20 recorded reflections read by hand for each flag it was right on 19 of 20 (`no_action`; 16 of 20
by models later than April 2023), 12 of 19 (`no_credit`), 18 of 20 (`blames_externals`), 19 of 19 (`duplicate`), 17 of
18 (`leaks_value`) and 19 of 20 (`misses_check`); false negatives were not counted. `no_action`, `no_credit`,
`generic` and `blames_externals` rest on lists of words (`english`), the others on the checks and earlier reflections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reflexion_lab.agent.reflectors import english
from reflexion_lab.records import Attempt, Check, Episode, Reflection
from reflexion_lab.text.replies.tokens import STOP_WORDS, tokens

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
"""By name, the meaning of each flag."""

SHORT, SURE, UNSURE, ALIKE = 100, 0.8, 0.5, 0.9
SPECIFIC = 3
"""Distinct specific words from which on a text is not generic."""
READ = 20_000
"""Characters that are read."""

_NOT_CODE = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"|'[^'\n]*'|\#[^\n]*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w+")
_LITERAL = re.compile(r"'[^'\n]*'|(?<![\w.])-?\d+(?:\.\d+)?(?:e-?\d+)?")
_GUESSED = re.compile(r"True|False|None|-?\d(?:\.0*)?")
_LINE = re.compile(r"\blines? \d", re.IGNORECASE)
# A statement, a call or arithmetic behind `return`, or a statement that holds its own colon.
_CODE = re.compile(
    r"\bdef \w+\([^)\n]{0,200}\)[^:\n]{0,80}:|\breturn\s+\w[\w.]*(?:\([^\n]{0,200}\)|\s*(?:[-+*/%<>]|[=!]=)\s*[\w(\[])"
    r"|\breturn\s+[\[({][^\])}\n]{0,200}(?:\bfor\b|[\w)]\s*[-+*/%]\s*[\w(])"
    r"|\b(?:for \w+ in|if|while|elif) [^:\n`]{1,80}:"
    r"(?=\s*\w+(?:\(|\s*[-+*/]?=[^=])|\s*(?:return|break|continue|pass)\b)"
)
_CODE_LINE = re.compile(
    r"^\s*(?:(?:for|if|while|elif|else|try|with)\b.*:|import \w|from \w+ import|[\w.\[\]]+ ?[-+*/]?= ?\S)"
)


def flags(reflection: Reflection, attempt: Attempt, earlier: Sequence[Episode]) -> tuple[str, ...]:
    """The flags of a reflection on `attempt`, in the order of `FLAGS`.

    `earlier`: episodes of the same task. Flags about failing checks are set only where a check failed.
    """
    texts = _texts(reflection)
    text = " ".join(" ".join(texts)[:READ].split())
    failures = attempt.evaluation.failures
    own = _names(attempt.trajectory.solution, failures)
    written = _canonical(text)
    cites = any(_cites(written, check) for check in failures)
    priors = [e.reflection for e in earlier if e.reflection and e.task_id == attempt.task_id]
    no_better = attempt.number > 1 and not attempt.evaluation.passed and not attempt.delta.is_improvement
    is_flagged = {
        "short": len(text) < SHORT,
        "no_action": not _acts(reflection, text),
        "no_credit": not (english.CREDIT.search(text) or own & set(_NAME.findall(text))),
        "generic": len(set(tokens(text)) - english.COMMONPLACE) < SPECIFIC,
        "blames_externals": bool(english.BLAME.search(text)),
        "unsupported_confidence": reflection.confidence >= SURE and not cites and not _LINE.search(text),
        "duplicate": any(_same(texts, _texts(before)) for before in priors),
        "low_confidence": reflection.confidence_source != "none" and reflection.confidence < UNSURE and no_better,
        "misses_check": bool(failures) and not cites,
        "leaks_value": any(_leaks(written, check) for check in failures),
        "holds_code": _holds_code(texts, attempt.trajectory.solution),
    }
    return tuple(name for name in FLAGS if is_flagged[name])


def _texts(reflection: Reflection) -> tuple[str, ...]:
    """Its texts, without empty and equal ones."""
    return tuple(dict.fromkeys(filter(None, reflection.texts)))


def _acts(reflection: Reflection, text: str) -> bool:
    """Whether it intends a concrete act, in any text, or names one in the texts that hold intentions alone."""
    intended = " ".join((reflection.what_to_change, *reflection.action_items))[:READ]
    return bool(english.ACT.search(intended) or english.INTENDED_ACT.search(text))


def _names(program: str, failures: Sequence[Check]) -> set[str]:
    """Names particular to this program: neither common words about programs nor names in the checks."""
    checked_names = {name for check in failures for name in _NAME.findall(check.name)}
    plain = english.COMMONPLACE | STOP_WORDS | checked_names | {"def", "None", "True", "False"}
    return set(_NAME.findall(_NOT_CODE.sub(" ", program[:READ]))) - plain


def _cites(written: str, check: Check) -> bool:
    """Whether `written`, canonical, names the check, its exception or a value of it."""
    folded, error = written.casefold(), check.error_type.rpartition(".")[2]
    spoken = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", error).casefold()
    if error and error != "AssertionError" and (error.casefold() in folded or spoken in folded):
        return True
    if error and check.message and _canonical(check.message) in written:
        return True
    if check.outcome in english.OUTCOMES and english.OUTCOMES[check.outcome].search(folded):
        return True
    named = _canonical(check.name).removeprefix("assert ")
    values = {_canonical(check.expected), _canonical(check.actual), *_LITERAL.findall(named)}
    call = re.match(r"[^=<>!]*\)", named)
    return any(_quotes(written, value) for value in values) or bool(call and call[0] in written)


def _leaks(written: str, check: Check) -> bool:
    """Whether `written` quotes the expected value, unless that can be guessed or is an argument, too."""
    call, _, right = check.name.rpartition("==")
    value = _canonical(check.expected or (right if re.match(r"\s*[-\d'\"\[({]", right) else ""))
    is_telling = sum(map(str.isalnum, value)) > 1 and not _GUESSED.fullmatch(value)
    return is_telling and not _quotes(_canonical(call), value) and _quotes(written, value)


def _quotes(written: str, value: str) -> bool:
    """Whether `written` quotes the whole `value`; both canonical."""
    if value not in written or not any(map(str.isalnum, value)):
        return False
    before, after = r"(?<![\w.])" if re.match(r"[\w-]", value) else "", r"(?!\w|\.\d)" if value[-1].isalnum() else ""
    return bool(re.search(before + re.escape(value) + after, written))


def _canonical(text: str) -> str:
    """One kind of quotation mark, and no white space around brackets and commas."""
    return re.sub(r" ?([\[\](){},:]) ?", r"\1", re.sub('["`‘’“”]', "'", " ".join(text.split())))


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
