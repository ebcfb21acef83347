"""Content of a reflection file, and its validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import get_args
from urllib.parse import quote

import msgspec

from reflexion_lab.records import Attempt, Category, Delta, MemoryState, Record, Reflection

SCHEMA = 1
WORDS = ("root_cause", "what_went_wrong", "what_to_change", "what_worked", "text")
"""Fields of a reflection, one of which says something: a control may leave some empty, and what was rejected stands in
`text` alone."""


class ReflectionFile(Record, frozen=True, kw_only=True):
    """The file of one attempt."""

    loop_id: str
    """The name of the folder."""
    attempt_number: int
    """1-based; the name of the file."""
    task_id: str = ""
    passed: bool
    """The feedback verdict, never the hidden one."""
    reward: float
    """In [0, 1]."""
    reflection: Reflection | None
    """None only where the attempt passed."""
    delta: Delta = Delta()
    memory: MemoryState
    in_context: tuple[int, ...] = ()
    """Numbers of the earlier attempts whose reflections the actor read."""
    schema_version: int = SCHEMA


def file_of(attempt: Attempt, session_id: str, in_context: Sequence[int]) -> ReflectionFile:
    """An attempt as its file holds it; the loop is named after its session, separators spelt out."""
    return ReflectionFile(
        loop_id=quote(session_id, safe=" ").lstrip("."),
        attempt_number=attempt.number,
        task_id=attempt.task_id,
        passed=attempt.evaluation.passed,
        reward=attempt.evaluation.reward,
        reflection=attempt.reflection,
        delta=attempt.delta,
        memory=attempt.memory,
        in_context=tuple(in_context),
    )


LOOP_ID = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
"""Names of loops: without a path separator, so that a loop's folder stays below that of all loops."""


def problems(content: object) -> list[str]:
    """Everything wrong with a file's content as it comes out of JSON, as `path: got …, expected …`."""
    misfits = dict(_misfits(content, ReflectionFile, ""))
    if not isinstance(content, dict):
        return list(misfits.values())
    limits = [
        f"{path}: got {value!r:.60}, expected {expected}"
        for path, holds, expected in _LIMITS
        if path not in misfits and (value := _at(content, path)) is not _NOTHING and not holds(value)
    ]
    reflection = content.get("reflection", "")
    if reflection is None and content.get("passed") is False:
        limits.append("reflection: got None, expected the words about an attempt that failed")
    if isinstance(reflection, dict) and not any(str(reflection.get(field, "")).strip() for field in WORDS):
        limits.append(f"reflection: got no words, expected some in {', '.join(WORDS)}")
    return [*misfits.values(), *limits]


_NOTHING = object()
_Limit = tuple[str, Callable[..., bool], str]
_LIMITS: tuple[_Limit, ...] = (
    ("loop_id", lambda name: bool(LOOP_ID.fullmatch(name)), f"a name like {LOOP_ID.pattern}"),
    ("schema_version", lambda version: version == SCHEMA, str(SCHEMA)),
    ("attempt_number", lambda number: number >= 1, "1 or more"),
    ("reward", lambda share: 0 <= share <= 1, "0..1"),
    ("reflection.confidence", lambda share: 0 <= share <= 1, "0..1"),
    ("reflection.category", lambda category: category in set(Category), f"one of {', '.join(Category)}"),
    ("memory.capacity", lambda number: number >= 1, "1 or more"),
    *((f"memory.{field}", lambda number: number >= 0, "0 or more") for field in ("size", "in_context", "total")),
    ("memory.omega", lambda omega: omega is None or omega >= 0, "0 or more, or null"),
)
"""Paths of fields that have their type, what must hold of each, and how to say so."""


def _at(content: object, path: str) -> object:
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            return _NOTHING
        content = content[name]
    return content


def _misfits(content: object, kind: type[msgspec.Struct], path: str) -> Iterator[tuple[str, str]]:
    """Paths of fields that are missing or of another type, each with the sentence that says so."""
    if not isinstance(content, dict):
        yield path, f"{path or 'the content'}: got {content!r:.60}, expected an object"
        return
    for field in msgspec.structs.fields(kind):
        where = f"{path}.{field.name}" if path else field.name
        value = content.get(field.name, _NOTHING)
        nested = [part for part in (field.type, *get_args(field.type)) if _is_struct(part)]
        if value is _NOTHING:
            if field.required:
                yield where, f"{where}: got nothing, expected a value"
        elif nested and isinstance(value, dict):
            yield from _misfits(value, nested[0], where)
        else:
            yield from _wrong_type(value, field.type, where)


def _wrong_type(value: object, kind: object, where: str) -> Iterator[tuple[str, str]]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as problem:
        wanted, _, place = str(problem).partition(" - at `$")
        expected = wanted.partition(", got ")[0].removeprefix("Expected ").replace("`", "")
        yield where, f"{where}{place.rstrip('`')}: got {value!r:.60}, expected {expected}"


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
