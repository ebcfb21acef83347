"""Why an extracted program earns another verdict than its log's, found by executing variants of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from experiments._tools.replies import Reply
from reflexion_lab.audit.audit import Verdict
from reflexion_lab.audit.samples import IMPORTS, Sample
from reflexion_lab.text.replies.extract import extract

CAUSES = {
    "own asserts": "the program fails its own asserts, which come with it in the log; the extractor leaves them out",
    "helper": "a function that it needs stands in another block; the log has the one block alone",
    "last definition": "the reply defines its function more than once: the log has the first, the extractor the last",
    "prompt": "it needs what the task's prompt defines, which the extractor puts in front",
    "imports": "it needs a module that the usual imports bring; neither its reply nor the task's prompt imports it",
    "time": "it passes, and takes longer than the seconds that logs were made with",
    "harness": "the very program that the log judged earns the other verdict here",
    "unexplained": "no variant of the program says why",
}
"""By name, what was shown."""


def cause_of(reply: Reply, run: Callable[[Sample], Verdict]) -> str:
    """One of `CAUSES`, for a reply whose verdict is not its log's; `run` executes a sample."""
    task = reply.task.public
    if reply.passed and run(reply.sample(reply.program)).outcome == "timeout":  # it passed at the longer try
        return "time"
    if run(reply.sample(reply.recorded)).passed != reply.logged:
        helped = reply.logged and run(reply.sample(IMPORTS + reply.program)).passed
        return "imports" if helped else "harness"
    alone = extract(f"```python\n{reply.recorded}\n```", task)
    if run(reply.sample(alone.program)).passed == reply.passed:  # the log's own program, and only what is done to it
        return "own asserts" if "usage" in alone.rule else "prompt"
    if "joined" in reply.rule:
        return "helper"
    name = re.escape(task.entry_point)
    definitions = re.findall(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{name}\b", reply.text, re.MULTILINE)
    return "last definition" if len(definitions) > 1 else "unexplained"
