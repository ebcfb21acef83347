"""Puts hostile texts through everything that reads a model's words or a program's; prints how many. Run in a process
of its own, with so much CPU time that only a reader whose work grows with the square of a text uses it up."""

import sys

from reflexion_lab.agent.actors.transcript import read as read_turn
from reflexion_lab.agent.critique.verdict import Unreadable, parse_verdict
from reflexion_lab.agent.reflectors.evidence import classify
from reflexion_lab.agent.reflectors.fields import ParseError, parse_fields
from reflexion_lab.analysis.report import pieces
from reflexion_lab.analysis.report.documents import escaped as markdown
from reflexion_lab.analysis.report.latex import escaped as latex
from reflexion_lab.analysis.report.sheets import html
from reflexion_lab.io.secrets import without_keys, without_login
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.memory.lessons.wisdom import normalised
from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.self_tests import asserts
from reflexion_lab.text.replies.extract import blocks, extract, without_thoughts

TASK = Task(task_id="t", prompt='def f(x):\n    """Doc."""\n', entry_point="f")
UNITS = (
    "1", " ", "\t", "\n", "\r", "a", "a ", "a.", "a_", "1.", "0.", "- ", "* ", "*", "_", "`", "```\n", "~~~\n", "{",
    '{"', "[", "(", "<think>", "</think>", "ROOT_CAUSE:", "ROOT_CAUSE", "Action: ", "action ", "thought ",
    "```python\n",
    "assert ", "assert f(", '"', "'", "\\", "=", "-", "#", ">", "a:", "a=", "%", "/", "::", "test_", "Error: ", "://", "://@",
    "?key=", "&a-", "password=", "e\u0301", "\u0301", "\u202e", "\u200b", "\x00", "\x1b]0;", "\ud800", "\uffff",
    "$$", "${", "{{",
)  # fmt: skip
READERS = {
    "extract": lambda text: extract(text, TASK), "fields": parse_fields, "verdict": parse_verdict, "turn": read_turn,
    "asserts": lambda text: list(asserts(text, 200)),
    "classify": lambda text: (classify("", text), classify("X", text)), "normalised": normalised, "blocks": blocks,
    "thoughts": without_thoughts, "keys": without_keys, "logins": without_login, "visible": visible, "plain": plain,
    "html": html, "page": pieces.visible, "markdown": markdown, "latex": latex,
}  # fmt: skip


def main(size: int) -> None:
    count = 0
    for unit in UNITS:
        for before, after in (("", ""), ("ISSUE: ", "\0!"), ("ROOT_CAUSE: x\nLESSONS:\n- ", "!")):
            text = before + unit * (size // len(unit)) + after
            for name, reader in READERS.items():
                count += 1
                try:
                    reader(text)
                except (ParseError, Unreadable):
                    continue
                except BaseException:
                    print(f"{name}: {unit!r}", file=sys.stderr)
                    raise
    print(count)


if __name__ == "__main__":
    main(int(sys.argv[1]))
