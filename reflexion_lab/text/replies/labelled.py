"""Parser of labelled replies: lines that begin with a label, JSON objects, and numbers in either.

What repeats the form that the prompt explains is no answer (`Labels.own`), nor is what follows an invented next prompt
(`Labels.answer`); of several answers the last complete one counts (`Labels.last`). Hostile replies take bounded time
and raise no exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple

CHARS = 64_000
"""Characters of a reply that are searched for JSON."""
OBJECTS = 256
"""Number of `{` that are tried as the beginning of an object."""
DIGITS = 9
"""Digits of the number after a label."""

PROMPTS = Path(__file__).parents[1] / "prompts"
LEAST, SHORT = 12, 20
"""Letters of a template's text below which it may be an answer, and up to which only an equal text repeats it."""
_EXPLAINED = re.compile(r"""^[\s{]*"?\w+"?: +(.*?)[,}]*$""")
_VARIABLE = re.compile(r"[{][{%#]")
_LINK = re.compile(r"\A[\s,]*(?:[:=–—-]+|(?:is|was)\b(?: to| that)?:?)\s*")
"""Between an explanation and an answer in the same sentence."""
FEW, LINKED = 5, 2
"""Least number of words of an answer that goes on with an explanation, and of one after a link."""
FRAMES = 8
"""Number of `Labels.FRAME` that are looked at."""

BULLET = re.compile(r"\A\s*(?:[-+*•>]|\d+[.)])\s+")
_FENCE = re.compile(r"\s*```\w*\s*")
_NUMBER = r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[-+]?\d++)?"  # possessive quantifiers keep it linear
# A number followed directly by more digits or letters ("0,85", "0.8-0.9", "1.2.3") is ambiguous and rejected.
_MEASURE = re.compile(
    rf"(?P<number>{_NUMBER})(?!\w|[.,–-]\w)\s*"
    rf"(?:(?P<percent>%|percent\b)|(?:/|out of)\s*(?P<scale>{_NUMBER})(?!\w|[.,]\w))?"
    r"(?!\s*(?:/|out of))",
    re.IGNORECASE,
)
_LEADING = re.compile(
    rf"(?P<number>{_NUMBER})(?!,\d)\s*(?:(?P<percent>%|percent\b)|(?:/|out of)\s*(?P<scale>{_NUMBER}))?", re.IGNORECASE
)
_APPROXIMATELY = re.compile(r"\A[*_`~≈(\[\s]*(?:(?:about|around|approximately|roughly)\s+)?", re.IGNORECASE)
_OBJECT = re.compile(r'\{\s*+"')


class Section(NamedTuple):
    """The text between a label and the next one."""

    label: str
    lines: tuple[str, ...]
    """The first is the rest of the label's line. Fences and closing marks of the label's emphasis are removed."""
    number: int = 0
    """The number after the label: 2 of `ISSUE 2`; 0 for none."""


class Labels:
    """Parser of lines that begin with a label.

    Tolerated: markdown around a label, a bullet, a number (`ISSUE 2`), a remark in brackets (`severity (0-1)`), any
    case. A label without a colon or dash counts only as a heading or if it is emphasised. `spellings`: spellings of
    each label in ASCII letters; `_` matches a space, a hyphen, an underscore or nothing. `templates`: pattern of the
    names of the prompts that explain these labels.
    """

    FRAME = re.compile(
        r"""^[^\w\n]{0,8}(?:(?:task|(?:my|its)\ program)\W{0,4}:|example\W{0,4}\d+[^\w\n]{0,4}$
        |\[(?:function|implementation)\b)""",
        re.IGNORECASE | re.MULTILINE | re.VERBOSE,
    )
    """Lines of the prompts around a task and its program."""

    def __init__(self, spellings: Mapping[str, Sequence[str]], templates: str = "") -> None:
        self._templates = templates
        self._labels = {letters(name): label for label, names in spellings.items() for name in names}
        names = "|".join(name.replace("_", "[ _-]?") for names in spellings.values() for name in names)
        # ASCII only: with IGNORECASE the Kelvin sign would match K.
        self._line = re.compile(
            rf"""\s*(?:[-+*•>]\s+|\d+[.)]\s+)?(?P<heading>\#+\s*)?(?P<open>[*_`]+)?
            (?P<label>(?a:{names}))(?:[ ]?\#?(?P<number>\d+))?(?:[ ]?\([^)]{{0,40}}\))?(?P<close>[*_`]*)
            (?:\s*[:：](?P<after>[*_`]*(?=\s|$))?|\s+[-–—](?=\s|$)|(?(heading)\s*$|(?(open)\s*$|(?!))))
            (?P<value>.*)""",
            re.IGNORECASE | re.VERBOSE,
        )

    @cached_property
    def _form(self) -> frozenset[str]:
        """Lines of the templates, and what stands there after a label, as `letters`."""
        files = PROMPTS.glob(self._templates) if self._templates else ()
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        texts = [text for line in lines for text in (line, *_EXPLAINED.findall(line)) if not _VARIABLE.search(text)]
        return frozenset(text for text in map(letters, texts) if len(text) >= LEAST)

    @cached_property
    def _long_lines(self) -> tuple[str, ...]:
        """Lines of the form with which more may follow on the same line."""
        return tuple(each for each in self._form if len(each) > SHORT)

    def own(self, text: str) -> str:
        """`text` without a line of the templates, or the explanation of a label, that it repeats at its beginning; the
        rest of that line counts if it has enough words.
        """
        first, name = letters(text.partition("\n")[0]), letters(text)
        length = len(first) if first in self._form else 0
        if name.startswith(self._long_lines):
            length = max(length, *(len(each) for each in self._long_lines if name.startswith(each)))
        last = next(islice(re.finditer(r"[^\W_]", text), length - 1, None), None) if length else None
        if last is None:
            return text
        rest, _, after = text[last.end() :].partition("\n")
        further = _LINK.sub("", rest, count=1)
        is_enough = sum(map(has_words, further.split())) >= (LINKED if further != rest else FEW)
        return f"{further * is_enough}\n{after}".strip()

    def answer(self, text: str) -> str:
        """`text` up to a next task that it invents after its answer, with no label that the answer lacks; the whole of
        a text that repeats its prompt.
        """
        for match in islice(self.FRAME.finditer(text), FRAMES):
            before, after = text[: match.start()], text[match.start() :]
            if (given := self._given(before)) and self._given(after) <= given:
                blank = [section for section in self.sections(before) if not has_words(" ".join(section.lines))]
                return text if len(blank) > 1 else before
        return text

    def _given(self, text: str) -> set[str]:
        """Labels with words, and those of JSON objects."""
        lines = {section.label for section in self.sections(text) if has_words(" ".join(section.lines))}
        return lines | {self._labels[key] for fields in objects(text) for key in fields.keys() & self._labels.keys()}

    def last(self, text: str, required: Collection[str]) -> list[Section]:
        """Sections of the last set with words for each label of `required`; a repeated label begins a set. Else all."""
        sets: list[list[Section]] = [[]]
        for section in self.sections(text):
            if section.label in {each.label for each in sets[-1]}:
                sets.append([])
            sets[-1].append(section)
        whole = [each for each in sets if {s.label for s in each if has_words(" ".join(s.lines))} >= {*required}]
        return whole[-1] if whole else [section for each in sets for section in each]

    def sections(self, text: str) -> Iterator[Section]:
        """The labelled sections of `text`, in order; text before the first label is ignored. Echoes are left out."""
        for section in self._sections(text):
            yield section._replace(lines=tuple(self.own("\n".join(section.lines)).split("\n")))

    def _sections(self, text: str) -> Iterator[Section]:
        label, mark, lines, number = "", "", list[str](), 0
        for line in text.splitlines():
            match = self._line.fullmatch(line)
            if match is None:
                if not _FENCE.fullmatch(line):
                    lines.append(line)
                continue
            if label:
                yield _section(label, lines, mark, number)
            number = int((match["number"] or "0")[:DIGITS])
            label, lines = self._labels[letters(match["label"])], [match["value"]]
            mark = "" if match["close"] or match["after"] else match["open"] or ""
        if label:
            yield _section(label, lines, mark, number)


def _section(label: str, lines: Sequence[str], mark: str, number: int) -> Section:
    return Section(label, tuple("\n".join(lines).rstrip().removesuffix(mark).split("\n")), number)


def letters(name: str) -> str:
    """A key or label in lower case without separators."""
    return re.sub(r"[\W_]", "", name).casefold()


def objects(text: str, is_whole: Callable[[dict[str, object]], bool] = lambda _: False) -> Iterator[dict[str, object]]:
    """All JSON objects in `text`, including nested ones except of one that `is_whole`, with keys reduced to `letters`.

    Of a repeated key, the first with a value counts. Numbers are `Numeral`, which `number` parses.
    """
    text, end = text[:CHARS], 0
    for beginning in islice(_OBJECT.finditer(text), OBJECTS):
        if beginning.start() < end:
            continue
        try:
            value, after = _DECODER.raw_decode(text, beginning.start())
        except (ValueError, RecursionError):
            continue
        end = after if is_whole(value) else end
        yield value


def _by_letters(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for key, value in pairs:
        name = letters(key)
        values[name] = values.get(name) or value
    return values


class Numeral(str):
    """A number of a JSON reply, as written."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    strict=False, parse_int=Numeral, parse_float=Numeral, parse_constant=Numeral, object_pairs_hook=_by_letters
)


class Number(NamedTuple):
    value: float
    scale: float | None
    """Stated maximum of the value: 100 for a percentage, 10 for `8/10`; None if there is none."""


def number(text: str, is_lenient: bool = False) -> Number | None:
    """The number at the beginning of `text` (`0.8`, `[0.9]`, `about 85 %`, `8/10`), or None if there is none or it is
    ambiguous. `is_lenient` ignores the text after the number: `0.8-0.9` is 0.8.
    """
    match = (_LEADING if is_lenient else _MEASURE).match(_APPROXIMATELY.sub("", text, count=1))
    if match is None:
        return None
    scale = 100.0 if match["percent"] else float(match["scale"]) if match["scale"] else None
    return Number(float(match["number"]), scale)


def one_line(text: str) -> str:
    """`text` on one line, without lone surrogates, which cannot be written to a file."""
    return " ".join(text.encode(errors="replace").decode().split())


def has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def entries(texts: Iterable[str], count: int, chars: int) -> tuple[str, ...]:
    """The first `count` of `texts` that have words, each cut to `chars` characters."""
    return tuple(text[:chars].rstrip() for text in islice(filter(has_words, texts), count))
