"""Search in the passages of a question, as ReAct searches Wikipedia (Yao et al., arXiv 2210.03629, section 3.1)."""

from __future__ import annotations

import re
import unicodedata

from reflexion_lab.limits import Above0, Positive, validated
from reflexion_lab.records import Observation, Task

ACTION = re.compile(r"\W*(search|lookup|finish) ?([\[(])", re.IGNORECASE)
CLOSING = {"[": "]", "(": ")"}
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

    needs = "passages"
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
        """Raises KeyError: the task has no passages."""
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
        name, value = read(text)
        if name == "finish":
            self._newest = Observation(text=f"You answered: {value}", is_over=True, answer=value)
        else:
            show = {"search": self._search, "lookup": self._lookup}.get(name)
            self._newest = Observation(text=show(value) if show else UNKNOWN)
        return self._newest

    def close(self) -> None:
        pass

    def _search(self, title: str) -> str:
        self._words, self._results, self._n_seen = "", [], 0
        words = _words(title)
        same = [each for each in self._passages if _plain(each[0]) == _plain(title)]
        if same := same or [each for each in self._passages if words and _words(each[0]) == words]:
            self._sentences = same[0][1]
            return " ".join(self._sentences[:SENTENCES])
        similar = sorted(
            self._passages, key=lambda each: [-len({*words} & {*_words(text)}) for text in (each[0], " ".join(each[1]))]
        )
        return f"There is no {title}. Similar: [{'; '.join(name for name, _ in similar[:SIMILAR])}]"

    def _lookup(self, words: str) -> str:
        if not self._sentences:
            return "There is no passage yet: search for one."
        if _plain(words) != self._words:
            self._words = _plain(words)
            self._results = [sentence for sentence in self._sentences if self._words in _plain(sentence)]
            self._n_seen = 0
        if self._n_seen == len(self._results):
            return "There are no more results."
        self._n_seen += 1
        return f"(Result {self._n_seen} / {len(self._results)}) {self._results[self._n_seen - 1]}"


def read(text: str) -> tuple[str, str]:
    """Name and value of an action; what follows its closing bracket is no part of it. ("", "") for any other text."""
    line = " ".join(text.split())
    if not (begin := ACTION.match(line)):
        return "", ""
    depth, closing = 1, CLOSING[begin[2]]
    for end in range(begin.end(), len(line)):
        depth += (line[end] == begin[2]) - (line[end] == closing)
        if depth == 0:
            break
    else:
        end = len(line)
    value = line[begin.end() : end].strip()
    return (begin[1].casefold(), value) if value else ("", "")


def _plain(text: str) -> str:
    """`text` as it is compared: one form of each letter, apostrophe and blank, lower case, no quotes around."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("’", "'").split()).strip("\"'“”")


def _words(text: str) -> list[str]:
    return WORD.findall(_plain(text))
