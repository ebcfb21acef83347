"""Finds the program in a model's reply.

Works on text alone: a candidate's code is never parsed or compiled in this process, where a hostile reply could crash
the interpreter's parser. The rule that was used travels with the program.
"""

from __future__ import annotations

import re
import textwrap
from typing import NamedTuple

from reflexion_lab.records import Task

THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
FENCE = re.compile(r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
CODE_LINE = re.compile(
    r"[ \t#@)\]}]|(?:import|from|def|class|async|if|for|while|try|with|return|assert)\b|\w+\s*[=:\[(.]"
)
"""A line that may stand at the top level of a program, or inside one."""


class Extraction(NamedTuple):
    program: str
    """A whole program, or "" when there was none."""
    rule: str
    """`function`, `body`, or `none`; with `fence+` in front where a code fence held it."""


def extract(reply: str, task: Task) -> Extraction:
    """The program that `reply` offers for `task`.

    A reply that defines the entry point stands on the prompt's own preamble (imports, helper functions); any other code
    is taken for the body that completes the prompt.
    """
    reply = THINKING.sub("", reply)
    defines = re.compile(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(task.entry_point)}\b", re.MULTILINE)
    blocks = [block for block in FENCE.findall(reply) if block.strip()]
    chosen = next((block for block in blocks if defines.search(block)), blocks[0] if blocks else None)
    code, found_in = (reply, "") if chosen is None else (chosen, "fence+")
    if defines.search(code):
        function = textwrap.dedent(code) if found_in else _without_prose(code)
        return Extraction(preamble(task) + function.strip("\n") + "\n", found_in + "function")
    if found_in or code.startswith((" ", "\t")):
        return Extraction(_completed(task, code), found_in + "body") if code.strip() else Extraction("", "none")
    return Extraction("", "none")


def preamble(task: Task) -> str:
    """What the prompt holds before its entry point: imports, helper functions; "" for a prompt in prose."""
    head = re.search(rf"^(?:async[ \t]+)?def[ \t]+{re.escape(task.entry_point)}\b", task.prompt, re.MULTILINE)
    return task.prompt[: head.start()] if head else ""


def _completed(task: Task, body: str) -> str:
    body = body.strip("\n")
    if not body.startswith((" ", "\t")):
        body = textwrap.indent(body, "    ")
    return f"{task.prompt.rstrip()}\n{body}\n"


def _without_prose(reply: str) -> str:
    """From the first line of code to the last line before prose begins again."""
    lines = reply.splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"\s*(?:import|from|def|class|async|@)\b", line))
    kept: list[str] = []
    for line in lines[start:]:
        if line.strip() and not CODE_LINE.match(line):
            break
        kept.append(line)
    return textwrap.dedent("\n".join(kept))
