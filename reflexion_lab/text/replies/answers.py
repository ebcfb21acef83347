r"""Answers of tasks of kind `answer`: how they are read from a reply, and the rules by which texts are compared.

Replies are hostile: nothing is evaluated, texts are cut to `ANSWER_CHARS`, numbers to `DIGITS` digits.

`exact` is the comparison of SQuAD (`normalize_answer` of its evaluation script; Rajpurkar et al., arXiv 1606.05250),
which HotPotQA's script and the Reflexion paper use: lower case; no ASCII punctuation; without the words a, an, the; one
space between words. The words in LaTeX's `\text` count as words.

`literal` keeps punctuation, which is part of an expression, a tuple or a time; it drops blanks, marks around and, as
MATH's normaliser, degrees, LaTeX's spaces and sizes of brackets and fractions.

`numeric` reads one number, and compares by `TOLERANCE`. Marks are dropped as by the normalisers of GSM8K (Cobbe et al.,
arXiv 2110.14168; lm-evaluation-harness: commas, `$`, a final full stop) and of MATH (Hendrycks et al., arXiv
2103.03874: spaces of LaTeX, `\%`, `\text`, `\frac`, units): `1,234.50`, `$5`, `50%` (as 50), `3/4`, `\frac{3}{4}`,
`1 1/2`, `−2`, `2e3`, `2 million`, `2 \times 10^6`, `x = 7`, `12 apples`. Digits are ASCII; `3,5`, `10²` and a text with
two numbers are none.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from textwrap import dedent

from reflexion_lab.records import Task
from reflexion_lab.text.replies.extract import REPLY_CHARS, Extraction, without_thoughts, without_tokens
from reflexion_lab.text.replies.labelled import objects

ANSWER_CHARS = 10_000
"""Characters of an answer; a longer one is none."""
MARKS = 50
"""Marks of an answer that are looked at, the last ones."""
DIGITS = 300
"""Digits of a number, and its largest exponent; a longer one is no number."""
TOLERANCE = Fraction(1, 10**6)
"""Largest difference of equal numbers: relative to the right answer, absolute if that is an integer or below 1."""
_NUMBER = r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_LARGE = r"(?:and[ ]a[ ]half|hundred|thousand|million|billion|trillion)\b"
_ONLY = re.compile(  # a number, and a unit or words: `3i`, `2x` and `5 - x` are no numbers
    rf"""(?P<number>(?:(?P<whole>[0-9]+)[ ](?=[0-9]+/))?(?P<top>{_NUMBER})(?:[ ]?/[ ]?(?P<under>{_NUMBER}))?)(?P<unit>
    (?![^0-9]*\b{_LARGE})(?:[ ]?[A-Za-z°][A-Za-z°][^0-9=+*^\\]*|[ ][mgshL]\.?|[ ]?[.;:!?()'"][^0-9=+*^\\]*))?""",
    re.VERBOSE,
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]{1,400})\}\s*\{([^{}]{1,400})\}")
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:bf|it|rm)|mbox)\s*\{([^{}]{0,400})\}")
_LATEX = re.compile(r"(?<!\\)\\[!,;: ]|\\(?:left|right|q?quad|degree)\b|\^\{?\\circ\}?|(?<=\\)[dt](?=frac)")
_DROPPED = re.compile(r"\\?[$%]|[€£¥]|(?<=[0-9])\{(?=,\})|(?<=,)\}(?=[0-9])")
_BREAKS = re.compile(r"</?(?:br|p|td|th|tr|li|div)\b[^<>\n]*>", re.IGNORECASE)
_ANGLES = re.compile(
    r"<<[^<>\n]*[=*/+][^<>\n]*>>|</?[A-Za-z][A-Za-z0-9]*(?:[ ][\w-]+=[\"'][^<>\n\"']*[\"'])*[ ]?/?>"
    r"|<<?([^<>\n]*[0-9][^<>\n]*)>>?"
)
"""Computations of GSM8K, tags of HTML, and marks around an answer."""
_GROUPS = re.compile(r"(?<=[0-9])[\u00a0\u2009\u202f](?=[0-9]{3}(?![0-9]))")
_WHOLE = r"(?<![0-9.,/])(?<!/ )([0-9.,]++)(?<=[0-9])"
_POWER = re.compile(_WHOLE + r" ?(?:\\times|\\cdot|[*×·x]) ?10 ?\^ ?\{?(-?[0-9]{1,3})\}?")
_POWERS = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_WORDS = re.compile(rf"[ -]?({'|'.join(_POWERS)})\b", re.IGNORECASE)
_SCALED = re.compile(rf"{_WHOLE}((?:{_WORDS.pattern})+)", re.IGNORECASE)
_SIGNS = str.maketrans("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d\u00a0\u2009\u202f", "-------   ")
_VARIABLE = re.compile(r"\A[A-Za-z][A-Za-z_0-9]{0,20} ?= ?(?=[^=]*\Z)")
_SYMBOLIC = re.compile(
    r"""(?!\\text)[\\^=<>]|[0-9)][-+*/:.,][ ]?[0-9(A-Za-z\\]|(?<![A-Za-z0-9])[-+*/][0-9(A-Za-z]|\w[-+*/][0-9(]
    |(?:\b\w|[0-9)}])[ ][-+*/:][ ]?(?:\w\b|[0-9(\\])|\w[+\#]+(?!\w)|\w-\Z|\A[\[({](?=[^,]*,).*[\])}]\Z""",
    re.VERBOSE,
)
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_MARK = re.compile(
    r"""(?P<hashes>^[ \t]*\#{4}[ \t]*(?=[-+\u2212$€£]?[ ]?[.0-9][0-9.,/ \t]*+%?[ \t.]*+$))
    |(?P<boxed>\\(?:boxed|fbox)[ ]?(?=\{))
    |(?P<label>^[ \t>#*_-]{0,12}(?:the[ ]|my[ ])?(?:final[ ]|correct[ ])?answer[*_ ]{0,4}(?:[:\uff1a][*_]{0,3}|$))
    |(?P<phrase>\b(?:the|my)[ ](?:final[ ]|correct[ ])?answer[ ](?:is|was|=)(?:[ ]?:)?)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_FENCED = re.compile(
    r"^[ \t]*+(`{3,}+|~{3,}+)(?:([A-Za-z][\w+-]*)[^\n]*\n|[ \t]*\n)?(.*?)(?:(?:\n[ \t]*+)?\1|\Z)",
    re.MULTILINE | re.DOTALL,
)
_CODE = ("python", "py")
_TAG = re.compile(r"</?answer>", re.IGNORECASE)
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.IGNORECASE | re.DOTALL)
_BLANK = re.compile(r"\n[ \t]*\n")
_INTRODUCTION = re.compile(r"\A[^\n]*?[A-Za-z]{2}[^\n]*:[*_ \t]*\n")
_STARTS = r"(?:The|It|This|That|Because|So|However|Since|As|I|In|We|He|She|They|His|Her|Its|Their|You|An?"
_STARTS += r"|Therefore|Hence|Thus|Then|Here|There|Indeed|Although|While|When|If|For|First|Finally|But|And|Both|Note"
_STARTS += r"|Additionally|Moreover|Furthermore|Specifically|Similarly|Consequently|Overall|Otherwise|Yes|No|Correct)\b"
_ABBREVIATED = re.compile(  # titles; initials, two of them unless a sentence begins there, or within a name
    rf"""\b(?:St|Dr|Mr|Ms|Mrs|(?<=\w[ ])No(?=\.[ ][0-9])|(?:Jr|Sr|Inc)(?!\.[ ][A-Z])
    |(?:[A-Z]\.[ ]?){{1,4}}[A-Z](?!\.[ ]{_STARTS})
    |[A-Z][a-z]+[ ](?:[A-Z]\.[ ]?){{0,4}}[A-Z](?!\.[ ]{_STARTS})(?=\.[ ][A-Z][\w'-]+(?:[.,;!?)]|$)))\.""",
    re.VERBOSE,
)
_SENTENCE = re.compile(r"[.!?](?=\s|$)")
_ANY_NUMBER = re.compile(rf"(?<![\w.,/]){_NUMBER}(?:/{_NUMBER})?")
_BEFORE = re.compile(
    r"""(?:\\(?:sqrt|frac|binom|log|ln|sin|cos|tan|pi|pm|cdot|times|[lg]eq?|[lg]t)[ ]?\{?|[\^√_≤≥±]\{?|(?<![=-])[<>]
    |\b[A-Za-z][ ]?[*/^+-]|[A-Za-z-]\(|\b(?:minus|negative))[ ]?\Z""",
    re.VERBOSE,
)
"""Beside a number, as the next: what makes it a part of an expression, a range, a list or a time."""
_AFTER = re.compile(
    rf"""[A-Za-z](?<![mgshLlJWVNCFpA])(?![A-Za-z])|:[0-9]|[)}}]*[ ]?\^|_\{{?[0-9]|[ ](?:{_LARGE})
    |[ ]?(?:[²³√·±≤≥½¼¾]|[<>](?![/a-z])|[*x×÷][ ]?(?:[0-9(\\]|[a-z]\b)|[xyz]\b|[-+/][ ]?(?:-?[0-9.\\]|(?![aAI]\b)\w\b)
    |\\(?:sqrt|pi|times|cdot|div|pm|frac|log|ln|sin|cos|tan|[lg]eq?|l?dots)(?![a-z])
    |,[ ]?[-+]?[0-9][0-9.]*+(?:[,)}}\]]|\Z|[ ](?:and|or)\b)|(?:(?:or|and|to(?![ ][0-9]+[ ]decimal))[ ])?[-+]?[0-9])""",
    re.VERBOSE,
)
_AROUND = [*((mark, mark) for mark in ("**", "__", "`", "$$", "$", "*", "_")), ("\\(", "\\)"), ("\\[", "\\]")]


def exact(text: str) -> str:
    """`text` as the rule `exact` compares it; what has no letter or digit to compare stays, in lower case."""
    lower = _TEXT.sub(r"\1", text[:ANSWER_CHARS]).lower()
    bare = lower.translate(_NO_PUNCTUATION).split()
    return " ".join([word for word in bare if word not in ("a", "an", "the")] or bare) or lower.strip()


def literal(text: str) -> str:
    """`text` as the rule `literal` compares it: lower case, without blanks, marks around it and a final full stop."""
    bare = _LATEX.sub("", _TEXT.sub(r"\1", unmarked(text[:ANSWER_CHARS].strip().removesuffix("."))))
    return "".join(bare.lower().translate(_SIGNS).split())


def is_symbolic(text: str) -> bool:
    """Whether punctuation is part of an answer's meaning: an expression, a tuple of numbers, a time."""
    return bool(_SYMBOLIC.search(text[:ANSWER_CHARS]))


def numeric(text: str) -> Fraction | None:
    """The one number of `text` as the rule `numeric` compares it; None if it has none, or several."""
    if (match := _ONLY.fullmatch(_plain(text))) is None:
        return None
    top, under = _fraction(match["top"]), _fraction(match["under"] or "1")
    return None if top is None or not under else top / under + int(match["whole"] or 0)


def is_plain(text: str) -> bool:
    """Whether `text` is a number and nothing else, with no mark that `numeric` drops."""
    match = _ONLY.fullmatch(text[:ANSWER_CHARS])
    return match is not None and not match["unit"]


def _fraction(text: str) -> Fraction | None:
    digits, _, exponent = text.lower().replace(",", "").partition("e")
    if len(digits) > DIGITS or abs(int(exponent or 0)) > DIGITS:
        return None
    return Fraction(digits) * Fraction(10) ** int(exponent or 0)


def _plain(text: str) -> str:
    """`text` without the marks that `numeric` drops."""
    if len(text) > ANSWER_CHARS:
        return ""
    text = _FRACTION.sub(r" \1/\2", _scaled(_TEXT.sub(r"\1", unmarked(text))))
    return (
        _VARIABLE.sub("", " ".join(_DROPPED.sub("", _LATEX.sub("", text)).split())).removesuffix(".").replace("- ", "-")
    )


def _scaled(text: str) -> str:
    """`text` with ASCII signs, without blanks in numbers, and with exponents for powers of ten and their words."""
    text = _POWER.sub(r"\1e\2", _GROUPS.sub("", text).translate(_SIGNS))
    return _SCALED.sub(lambda m: f"{m[1]}e{sum(_POWERS[word.lower()] for word in _WORDS.findall(m[2]))}", text)


def equal(rule: str, answer: str, right: str) -> bool:
    """Whether `answer` is the `right` one by the rule `exact`, `literal` or `numeric`."""
    if rule != "numeric":
        by = literal if rule == "literal" else exact
        return by(answer) == by(right)
    value, known = numeric(answer), numeric(right)
    if value is None or known is None:
        return False
    return abs(value - known) <= TOLERANCE * (1 if known.denominator == 1 else max(Fraction(1), abs(known)))


RULES = ("label", "boxed", "hashes", "tag", "phrase", "json", "last_number", "last_line", "last_lines", "finish")
"""Rules by which an answer was read; `finish`: the last action of a play."""


def key(task: Task, answer: str) -> object:
    """What answers that count as equal in a vote share: the option, number or words; "" without an answer."""
    options = task.data.get("options")
    pairs = options.items() if isinstance(options, dict) else ()
    for form in ("{0}", "option {0}", "{0} {1}", "{1}"):
        for option in pairs:
            if exact(answer) == exact(form.format(*option)) != "":
                return str(option[0])
    value = numeric(answer) if task.data.get("is_number") else None
    return (literal if task.data.get("is_symbolic") else exact)(answer) if value is None else value


def extract_answer(reply: str, task: Task, broke_off: bool = False) -> Extraction:
    r"""The answer in `reply`, and the rule by which it was read. Never raises.

    The last of these counts: `label` (`Answer: …`; if nothing follows in its line, the next lines up to a blank one, or
    a block of code), `boxed` (`\boxed{…}`, braces nested), `hashes` (`#### 42`), `phrase` (`the answer is …`, the rest
    of the sentence). Without one: `json` (the last object with a key `answer`); and unless the reply broke off at
    `max_tokens`, `last_number`, if `task.data["is_number"]`, else `last_line`. If `task.data["has_lines"]`, as of a
    grid, the answer is the first block of several lines behind a mark, a block of code or a paragraph, and without one
    the last of the reply (`last_lines`). Of a reply with `<answer>…</answer>` the last of these is read alone (`tag`,
    if it is a line without a mark). Without an answer the rule is the reason: `none`, `thinking` (it ended within
    `<think>`), `too_long`. Marks of emphasis and mathematics around an answer are dropped, and words around a number,
    if the answer is one and no part of an expression, a range, a list or a time.
    """
    if len(reply) > REPLY_CHARS:
        return Extraction("", "too_long")
    text, thinking = without_thoughts(reply.replace("\r\n", "\n"))
    is_number, has_lines = bool(task.data.get("is_number")), bool(task.data.get("has_lines"))
    text = without_tokens(text)
    tags = [tag for tag in _TAGGED.finditer(text) if re.search("[0-9]" if is_number else r"\w", tag[1])][-1:]
    if tags and not any(mark.lastgroup != "phrase" for mark in _MARK.finditer(text, tags[0].end())):
        text = tags[0][1]
    text, is_tagged = _TAG.sub("", text), bool(tags) and text == tags[0][1]
    unmarked_end = [_last(text, is_number, has_lines)] if is_tagged or not broke_off else []
    is_sentence = is_number and text.lstrip()[:1].isalpha() and "=" not in text
    if is_tagged and not (has_lines or is_sentence or "\n" in text.strip()):
        unmarked_end = [("tag", text)]
    for rule, raw in (_marked(text, is_number, has_lines), _of_json(text), *unmarked_end):
        if len(raw) > ANSWER_CHARS:
            return Extraction("", "too_long")
        if answer := _cleaned(raw, is_number):
            return Extraction(answer, rule)
    return Extraction("", "thinking" if thinking else "none")


def _marked(text: str, is_number: bool, has_lines: bool) -> tuple[str, str]:
    """The last marked answer; one in a phrase only without another mark, of a number the last that is one, of an answer
    with lines the last that has several.
    """
    marked, place = list[tuple[str, str]](), 0
    for mark in deque(_MARK.finditer(text), MARKS):
        if mark.start() >= place:  # not within the answer after another mark
            kind, at = str(mark.lastgroup), mark.end()
            value, place = _in_braces(text, at) if kind == "boxed" else _value(text, at)
            if has_lines:
                rest = text[at : at + ANSWER_CHARS + 100] if kind in ("label", "phrase") else value
                block, place = next(_blocks(rest), ""), at
                value = block.removesuffix(".") if kind == "phrase" else block or value * (not _FENCED.search(text))
            elif kind == "phrase":
                value = value[: _end_of_sentence(value)]
            if inner := value.rfind("\\boxed{") + 1:
                value, _ = _in_braces(value, inner + 5)
            value = value.rstrip().removesuffix("**") if mark[0].count("**") == 1 else value
            marked += [(kind, value)] * bool(value.strip())
    firm = [each for each in marked if each[0] != "phrase"] or marked
    better = [each for each in firm if is_number and _ANY_NUMBER.search(each[1].translate(_SIGNS))]
    for group in (firm, marked) if has_lines else ():
        better = better or [each for each in group if "\n" in each[1]]
    return [("", ""), *(better or firm)][-1]


def _blocks(text: str, has_code: bool = True) -> Iterator[str]:
    """The blocks of several lines, fenced or paragraphs, in their order; without fenced Python unless `has_code`. A
    line of a paragraph may hold blanks alone.
    """
    place, parts = 0, list[str]()
    for fence in _FENCED.finditer(text):
        code = [fence[3]] * (has_code or fence[2] not in _CODE)
        parts, place = [*parts, *text[place : fence.start()].split("\n\n"), *code], fence.end()
    for part in (*parts, *text[place:].split("\n\n")):
        block = _INTRODUCTION.sub("", part.strip("\n"))
        if "\n" in block.strip():
            yield dedent("\n".join(line.rstrip() for line in block.split("\n")))


def _last_block(text: str) -> str:
    """The last fenced block that is no Python, else the last block; without one the last paragraph."""
    fenced = "\n\n".join(fence[0] for fence in _FENCED.finditer(text))
    return [text.strip().rpartition("\n\n")[2], *_blocks(text), *_blocks(fenced, has_code=False)][-1]


def _value(text: str, start: int) -> tuple[str, int]:
    """The rest of a line, or what stands below it, and the end."""
    end = text.find("\n", start) % (len(text) + 1)
    if text[start:end].strip():
        return text[start:end], end
    rest = text[end : end + ANSWER_CHARS + 100]
    rest = re.sub(r"(?m)^[ \t]*>[ \t]?", "", rest) if rest.lstrip().startswith(">") else rest
    block = _BLANK.split(rest.lstrip())[0]
    if block.startswith("```"):
        block = rest.lstrip().partition("\n")[2].partition("\n```")[0]
    return block, end + rest.find(block) + len(block)


def _end_of_sentence(text: str) -> int:
    masked = _ABBREVIATED.sub(lambda part: part[0].replace(".", "_"), text)
    return stop.start() if (stop := _SENTENCE.search(masked)) else len(text)


def _in_braces(text: str, start: int) -> tuple[str, int]:
    """The text in the braces that open at `start`, and their end; "" if they stay open."""
    depth = 0
    for place in range(start, min(len(text), start + ANSWER_CHARS)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[start + 1 : place], place + 1
    return "", start + 1


def _of_json(text: str) -> tuple[str, str]:
    values = (fields.get("finalanswer", fields.get("answer")) for fields in objects(text))
    return "json", str([value for value in ("", *values) if isinstance(value, str)][-1])  # numbers are texts, too


def _last(text: str, is_number: bool, has_lines: bool) -> tuple[str, str]:
    text = text[-ANSWER_CHARS:]
    if has_lines:
        return "last_lines", _last_block(text)
    if is_number:
        return "last_number", ["", *_ANY_NUMBER.findall(_scaled(text))][-1]
    return "last_line", ["", *(line for line in text.split("\n") if _MARK.sub("", line).strip("`* \t"))][-1]


def unmarked(text: str) -> str:
    """`text` without marks of emphasis and mathematics around the whole of it."""
    before = None
    while text != before:
        before = text = text.strip()
        for first, last in (*_AROUND, ("\\boxed{", "}")):
            if text.startswith(first) and text.endswith(last) and len(text) > len(first + last):
                text = text[len(first) : -len(last)]
    return text


def _cleaned(raw: str, is_number: bool) -> str:
    """The answer without marks; the number in it, if it is one and no part of an expression or a list."""
    text = unmarked(_ANGLES.sub(r" \1 ", _BREAKS.sub(" ; ", raw)) if is_number else raw)
    forms = re.split(r",? or |, ", _plain(text)) if is_number else []
    if len(forms) > 1 and len(values := {numeric(form) for form in forms}) == 1 and None not in values:
        return forms[0]
    for part in (text.rpartition("=")[2], text) if is_number else ():
        plain = _plain(part)
        number = _ONLY.fullmatch(plain) or _ANY_NUMBER.search(plain)
        before = plain[: number.start() + (number[0][0] in "+-")] if number else ""
        if number and not (_BEFORE.search(before) or _AFTER.match(plain, number.end())):
            return (number.groupdict().get("number") or number[0]).replace(",", "")
    return text
