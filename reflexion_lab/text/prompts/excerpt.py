"""Excerpts of episodes for prompts that cannot hold all of them: the middle of a program goes first."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise

from msgspec.structs import replace

from reflexion_lab.records import Episode
from reflexion_lab.text.shorten import cut

_OF_EPISODE = ("code", "test_results")
CLOSE = 16
"""Characters by which the longest excerpt may be too short."""


def excerpt(text: str, chars: int) -> str:
    """All of `text`, or about `chars` characters: whole lines of both ends, and a comment on the lines between."""
    if len(text) <= chars:
        return text
    lines = text.splitlines()
    ends: tuple[list[str], list[str]] = ([], [])
    while lines and chars >= 0:
        from_end = sum(map(len, ends[1])) < sum(map(len, ends[0]))
        line = lines.pop(-1 if from_end else 0)
        chars -= len(line) + 1
        if chars >= 0:
            ends[from_end].append(line)
        else:
            lines.append(line)
    return "\n".join([*ends[0], f"# ({len(lines)} lines are left out here)", *reversed(ends[1])])


def longest(text: str, fits: Callable[[str], bool], shorter: Callable[[str, int], str] = excerpt) -> str:
    """`text` where it `fits`, else about its longest version by `shorter` that does; "" where none does."""
    if fits(text):
        return text
    best, low, high = "", 0, len(text)
    while high - low > CLOSE:
        middle = (low + high) // 2
        candidate = shorter(text, middle)
        if fits(candidate):
            best, low = candidate, middle
        else:
            high = middle
    return best


def program(episode: Episode, chars: int) -> str:
    """An excerpt of an episode's program, without docstrings of its task."""
    code = without_docstrings(episode.code, episode.task_description)
    return excerpt(code.strip("\n") if code.strip() else "", chars)


def without_docstrings(code: str, task: str) -> str:
    """`code` without the docstrings that are also in `task`."""
    if '"' not in code and "'" not in code:
        return code
    known, lines = " ".join(task.split()), io.StringIO(code).readlines()
    for token in reversed(list(_docstrings(code))):
        text = token.string.lstrip("rRbBuU").strip("\"'")
        if " ".join(text.split()) in known:
            del lines[token.start[0] - 1 : token.end[0]]
    return "".join(lines)


def _docstrings(code: str) -> Iterator[tokenize.TokenInfo]:
    """Docstrings of the module, its functions and classes, up to the first syntax error."""
    before, line, opened = tokenize.INDENT, "", "module"
    with suppress(tokenize.TokenError, SyntaxError):
        for token, after in pairwise(tokenize.generate_tokens(io.StringIO(code).readline)):
            if token.type in (tokenize.NL, tokenize.COMMENT):
                continue
            begins = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            if token.type == tokenize.STRING and before == tokenize.INDENT and after.type == tokenize.NEWLINE:
                if opened in ("module", "def", "class", "async"):
                    yield token
            elif begins and token.type == tokenize.NAME:
                line = token.string
            elif token.type == tokenize.NEWLINE:
                opened, line = line, ""
            before = token.type


def shortened(episode: Episode, fits: Callable[[Episode], bool]) -> Episode | None:
    """`episode` shortened until it `fits`: its program first, then its test results, then its reflection; None where
    nothing would be left.
    """
    if fits(episode):
        return episode
    episode = replace(episode, code=program(episode, len(episode.code)))
    for part in ("code", "test_results", "root_cause", "what_went_wrong", "what_to_change"):
        if part_text := _longest_part(episode, part, fits):
            return _with_part(episode, part, part_text)
        episode = _with_part(episode, part, excerpt(episode.code, 0) if part == "code" else "")
    return None


def _longest_part(episode: Episode, part: str, fits: Callable[[Episode], bool]) -> str:
    shorter = excerpt if part == "code" else cut
    return longest(_part(episode, part), lambda text: fits(_with_part(episode, part, text)), shorter)


def _part(episode: Episode, name: str) -> str:
    return str(getattr(episode if name in _OF_EPISODE else episode.reflection, name, ""))


def _with_part(episode: Episode, name: str, text: str) -> Episode:
    if name in _OF_EPISODE:
        return replace(episode, **{name: text})
    return replace(episode, reflection=replace(episode.reflection, **{name: text})) if episode.reflection else episode
