"""Reads hostile replies; prints how many, and the most parses that one of them took. Run in a process of its own,
with the length of the longest."""

import builtins
import sys

from reflexion_lab.records import Task
from reflexion_lab.text.replies.extract import extract

N = 100_000
LONGEST = int(sys.argv[1])  # characters
TASK = Task(task_id="t", prompt='import math\n\ndef f(x):\n    """Doc."""\n', entry_point="f")
EXPRESSIONS = [
    "(" * N, "(" * N + ")" * N, "[" * 199 + "a b" + "]" * 199, "{1:" * N, "-" * N + "1", "not " * N + "1",
    "a" + ".b" * N, "a" + "[0]" * N, "1" + "+1" * N, "f(" * 150 + ")" * 150, "lambda: " * N + "1",
    "x if x else " * N + "1", "f'" + "{" * 140 + "1" + "}" * 140 + "'", 'f"{x:' + "{x:" * N, "'a' " * N,
    "'" + "\\d" * N, "9" * N, "\0", "\ud800", "'''" * N,
]  # fmt: skip
FORMS = ["def f(x):\n    return {}\n", "```python\ndef f(x):\n    return {}\n```", "    return {}", "```\n{}"]
REPEATED = [
    "```\n", "```python\ndef f(x):\n    return (\n```\n", "```python\na = 1\n```\n", "def f(x):\n  pass\nprose\n",
    "x = 1\nprose\n", "    return x x\nprose\n", "<think>", "</think>", "[PYTHON]", "<|", "class A(", "if :", "a:-",
    "f((", "`", "~", "\r", " ",
]  # fmt: skip
LONG = [
    "```" + " " * LONGEST + "`x", "`" * LONGEST + "x``y", "a" + " " * LONGEST + "```!", "</s>" + " " * LONGEST + "x",
    "```f(" + "( " * N + "x", "```a:" + "-" * LONGEST, "".join(" " * depth + "if x:\n" for depth in range(90)),
    "def f(x):\n" + "".join(" " * depth + "if x:\n" for depth in range(1, 300)),
    "def f(x):\n  try:\n" + "    a = 1\n" * 500, "def f(x):\n" + "  b = (\n" * 5000,
    "def f(x):\n    return 1\n" * 450_000,
]  # fmt: skip


def replies():
    for expression in EXPRESSIONS:
        for form in FORMS:
            yield form.replace("{}", expression[:60_000])
    for text in REPEATED:
        yield text * (LONGEST // len(text))
    yield from LONG


def main():
    python_compile, parses = builtins.compile, 0

    def counted(source, name, *args, **options):
        nonlocal parses
        parses += name == "<reply>"
        return python_compile(source, name, *args, **options)

    builtins.compile = counted
    count = most = 0
    for reply in replies():
        parses = 0
        extract(reply, TASK)
        count, most = count + 1, max(most, parses)
    print(count, most)


if __name__ == "__main__":
    main()
