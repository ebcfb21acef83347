"""The text of a task, found again in what its actor read: a run folder keeps prompts word for word, and no tasks."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from reflexion_lab.records import Attempt
from reflexion_lab.text.prompts.render import known_examples

_BLOCK = re.compile(r"^(`{3,})python\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)


def task_text(attempts: Sequence[Attempt]) -> str:
    """The task's prompt, as the first attempt's actor read it; "" where it cannot be told from the rest.

    An actor that continues a file read it at the end, and its programs begin with it. In a chat it is the first block
    of Python that is no example of ours and defines what the task's programs define, which may copy what they read.

    Parameters
    ----------
    attempts : Sequence[Attempt]
        A task's attempts, in order.
    """
    messages = attempts[0].trajectory.messages
    if messages and messages[-1].role == "assistant":
        return _begun(messages[-1].content, attempts)
    names = {name for attempt in attempts for name in _DEFINED.findall(attempt.trajectory.solution)}
    examples = {text.strip() for example in known_examples() for text in (example.prompt, example.wrong, example.right)}
    fenced = (block for message in messages for _, block in _BLOCK.findall(message.content))
    blocks = (block for block in fenced if block.strip() not in examples)
    return next((block for block in blocks if names.intersection(_DEFINED.findall(block))), "")


def _begun(content: str, attempts: Sequence[Attempt]) -> str:
    """The longest beginning of a program that `content` ends in, but for comments behind it."""
    for program in (attempt.trajectory.solution for attempt in attempts):
        size = bisect_left(range(1, len(program) + 1), True, key=lambda chars: program[:chars] not in content)
        start = program[:size]
        if not _DEFINED.search(start):
            continue
        _, _, behind = content.rpartition(start)
        if all(line.lstrip().startswith("#") for line in behind.split("\n") if line.strip()):
            return start
    return ""
