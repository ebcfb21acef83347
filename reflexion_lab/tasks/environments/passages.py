"""Search in the passages of a question, as ReAct searches Wikipedia (Yao et al., arXiv 2210.03629, section 3.1)."""

from __future__ import annotations

import re

from reflexion_lab.errors import HarnessError
from reflexion_lab.limits import Above0, Positive, validated
from reflexion_lab.records import Observation, Task

ACTION = re.compile(r"(search|lookup|finish) ?(?:\[(?! *\]) *(.+?) *\]?|\((?! *\)) *(.+?) *\)?)\.?", re.IGNORECASE)
WORD = re.compile(r"\w+")
SENTENCES = 5
"""Sentences of a passage that a search shows, as in ReAct; `Lookup` finds the others."""
SIMILAR = 5
"""Titles named where none is that of the search."""
UNKNOWN = "Nothing happened: an action is Search[title], Lookup[words] or Finish[answer]."


class Passages:
    """Searches the passages that a question's row has. `max_steps`: actions of a play at most, 7 in ReAct; `seconds`:
    for one action.
    """

    help = (
        "The actions are:\n"
        "Search[title] shows the beginning of a passage, or the titles of similar ones.\n"
        "Lookup[words] shows the next sentence of that passage that has the words.\n"
        "Finish[answer] answers the question, in a few words, and ends your work."
    )

    @validated
    def __init__(self, max_steps: Positive = 7, seconds: Above0 = 5.0) -> None:
        self.max_steps = max_steps
        self.seconds = seconds

    def start(self, task: Task) -> Reading:
        """Raises HarnessError: the task has no passages."""
        if not task.data.get("passages"):
            raise HarnessError(f"{task.task_id}: got no passages, expected `context` in its row, as HotPotQA's have it")
        return Reading(task.data["passages"])


class Reading:
    """A session: the passage that was found last, and how far a lookup is in it. The newest search or lookup counts."""

    def __init__(self, passages: list[tuple[str, list[str]]]) -> None:
        self._passages = [(title, [sentence.strip() for sentence in sentences]) for title, sentences in passages]
        self._sentences: list[str] = []
        self._words, self._results, self._n_seen = "", list[str](), 0
        self._newest = Observation(text="")

    def observe(self) -> Observation:
        return self._newest

    def act(self, text: str) -> Observation:
        action = ACTION.fullmatch(" ".join(text.split()))
        name, value = (action[1].casefold(), action[2] or action[3]) if action else ("", "")
        if name == "finish":
            self._newest = Observation(text=f"You answered: {value}", is_over=True, answer=value)
        else:
            show = {"search": self._search, "lookup": self._lookup}.get(name)
            self._newest = Observation(text=show(value) if show else UNKNOWN)
        return self._newest

    def close(self) -> None:
        pass

    def _search(self, title: str) -> str:
        self._words, words = "", _words(title)
        for name, sentences in self._passages:
            if _words(name) == words or name.casefold() == title.casefold():
                self._sentences = sentences
                return " ".join(sentences[:SENTENCES])
        similar = sorted(
            self._passages, key=lambda each: (-len(words & _words(each[0])), -len(words & _words(" ".join(each[1]))))
        )
        return f"There is no {title}. Similar: [{'; '.join(name for name, _ in similar[:SIMILAR])}]"

    def _lookup(self, words: str) -> str:
        if not self._sentences:
            return "There is no passage yet: search for one."
        if words.casefold() != self._words:
            self._words = words.casefold()
            self._results = [sentence for sentence in self._sentences if self._words in sentence.casefold()]
            self._n_seen = 0
        if self._n_seen == len(self._results):
            return "There are no more results."
        self._n_seen += 1
        return f"(Result {self._n_seen} / {len(self._results)}) {self._results[self._n_seen - 1]}"


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.casefold()))
