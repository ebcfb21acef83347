"""A model with a list of replies, and finished loops."""

from reflexion_lab.records import Completion, Finished, Task
from tests import builders


class Scripted:
    """A model that gives `replies` in their order; `prompts` has the last message of each call."""

    fingerprint = "scripted"
    slots = 1
    context = 0
    finish_reason = "stop"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.prompts: list[str] = []
        self.grammars: list[str] = []

    def complete(self, messages, *, sampling, sample=0):
        self.prompts.append(messages[-1].content)
        self.grammars.append(sampling.grammar)
        return Completion(
            text=self.replies[len(self.prompts) - 1], model=self.fingerprint, finish_reason=self.finish_reason
        )


OUTCOMES = {True: "pass", False: "fail", None: "no_tests"}


def loop(name: str, *passed: bool | None, prompt: str = "") -> Finished:
    """A finished loop at the task `name`, with one attempt for each verdict; None: without tests."""
    attempts = [
        builders.attempt(
            task_id=name, number=number, acted={"solution": f"program_{number} = {name!r}\n"},
            judged={"passed": bool(verdict), "outcome": OUTCOMES[verdict]},
        )
        for number, verdict in enumerate(passed, 1)
    ]  # fmt: skip
    task = Task(task_id=name, prompt=prompt or f"about {name}", entry_point="f")
    return Finished(task=task, attempts=tuple(attempts))
