"""ReAct transcripts: parsing of replies, and layout of earlier turns within a length limit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reflexion_lab.agent.actors.tools import TOOLS, shortened
from reflexion_lab.text.replies.extract import STATEMENT, blocks, without_thoughts

LABEL = re.compile(
    r"[\s*_#>-]*(?P<label>thought|action|program|observation|action[ \t]+input)(?:[ \t]+\d+)?[*_ \t]*:[*_]*"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
"""The label of a part of a turn, with or without emphasis and a number."""
PROGRAM = ("action", "program", "action input")
"""Labels that may be followed by unfenced code."""
COMMENT = re.compile(r"[ \t]*#(?!#)")
"""A comment in unfenced code; `##` begins a heading."""
NAME = re.compile(r"\W*(?P<name>\w+(?:[ -](?:tests?|code)\b)?)(?P<rest>.*)", re.IGNORECASE)
NAME_CHARS = 40
"""Length to which unknown action names are cut, since all later prompts of the transcript contain them."""
GRAMMAR = r"""
root ::= " " [A-Z] word (" " word){2,24} ".\n" action
word ::= [a-zA-Z0-9,']{1,16}
action ::= "Action: " (tests | code | "finish\n")
tests ::= "run_tests\nProgram:\n```python\ndef " rest line{1,14} "```\n"
code ::= "run_code\nProgram:\n```python\nprint(" rest "```\n"
line ::= "    " [a-zA-Z_# ] rest
rest ::= [ -_a-~]{1,90} "\n"
"""
"""GBNF for `Sampling.grammar` in the style `continuation`: one turn after `Thought N:`, in ASCII.

All parts are bounded, and no line of a program begins with a quote: SmolLM2-135M repeats the docstring endlessly.
"""
DROPPED = -1
LEVELS = ((10_000, 100_000, 10_000), (300, 100_000, 200), (100, 400, 120), (60, 0, 80))
"""Lengths of thought, program and observation of a turn, by level."""


class Reply(NamedTuple):
    thought: str
    action: str
    """In lower case; "" if the reply has none."""
    attached: str
    """The text with the action, including fences."""
    code: str
    """The code in it."""
    is_quoted: bool = False
    """Whether the code is part of the thought: it may be the intended program, or one that the thought discusses."""


class Turn(NamedTuple):
    """One turn, as rendered in later prompts."""

    number: int
    reply: Reply
    observation: str

    def spoken(self, level: int = 0) -> str:
        """The part written by the model."""
        thought, code, _ = LEVELS[level]
        lines = [f"Thought {self.number}: {shortened(self.reply.thought, thought)}"]
        if self.reply.action:
            lines.append(f"Action: {self.reply.action}")
        if self.reply.code and code:
            lines.append(f"Program:\n```python\n{shortened(self.reply.code, code)}\n```")
        return "\n".join(lines)

    def observed(self, level: int = 0) -> str:
        return f"Observation {self.number}: {shortened(self.observation, LEVELS[level][2])}"


def read(reply: str) -> Reply:
    """The first thought and action of a reply; text after them is based on an invented observation and ignored.

    Labels within code are code. Never raises.
    """
    text, _ = without_thoughts(reply)
    thought, action = list[str](), ""
    before, behind = list[Part](), list[Part]()
    for part in _parts(text):
        if part.label == "observation" or (action and part.label in ("thought", "action")):
            break
        if part.label == "action":
            action, rest = _named(part.text)
            behind.append(Part("", rest))
        elif action:
            behind.append(part)
        elif part.label == "code":
            before.append(part)
        else:
            thought.append(part.text)
    is_quoted = bool(before) and all(part.label != "code" for part in behind)
    attached = before if is_quoted else behind
    code = [part.text for part in attached if part.label == "code"] or [part.text for part in attached]
    fenced = "\n".join(part.fenced for part in attached)
    return Reply("\n".join(thought).strip(), action, fenced, "\n\n".join(code).strip("\n"), is_quoted)


def layouts(turns: int, draft: int) -> Iterator[tuple[int, ...]]:
    """Levels of `turns` turns, from complete to shortest. The oldest turns are shortened and dropped first; the turn at
    index `draft`, whose program the next may build on, last of the older ones; the newest turn at the very end.
    """
    levels = [0] * turns
    yield tuple(levels)
    older = sorted(range(turns - 1), key=lambda index: index == draft)
    for level in (1, 2, DROPPED):
        for index in older:
            levels[index] = level
            yield tuple(levels)
    for level in range(1, len(LEVELS) if turns else 0):
        levels[-1] = level
        yield tuple(levels)


class Part(NamedTuple):
    """A line of a reply, or a block of code in it."""

    label: str
    """`thought`, `action`, …; `code` for a block; "" for a line without a label."""
    text: str
    closed: bool = True

    @property
    def fenced(self) -> str:
        if self.label != "code":
            return self.text
        return f"```python\n{self.text}\n" + "```" * self.closed


def _parts(text: str) -> Iterator[Part]:
    label, in_code = "", False
    for block in blocks(text):
        if block.fenced:
            yield Part("code", block.text, block.closed)
            continue
        for line in block.text.split("\n"):
            match = None if in_code and COMMENT.match(line) else LABEL.fullmatch(line)
            if match:
                label, in_code = " ".join(match["label"].lower().split()), False
                yield Part(label, match["rest"].strip())
                continue
            in_code = in_code or (label in PROGRAM and bool(STATEMENT.match(line.lstrip())))
            yield Part("", line)


def _named(text: str) -> tuple[str, str]:
    """The action named in a line, and the rest of the line without the brackets of a call."""
    match = NAME.fullmatch(text)
    if match is None:
        return "none", ""
    name = re.sub("[ -]", "_", match["name"].lower())
    name = next((tool for tool in TOOLS if name in (tool, tool.removesuffix("s"))), name[:NAME_CHARS])
    rest = match["rest"].strip(" \t`*_.:")
    inside = re.fullmatch(r"[(\[](.*)[)\]]", rest)
    return name, inside[1] if inside else rest
