"""What is wrong, said to a user in one line."""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Iterator

from reflexion_lab.io.secrets import without_keys
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.protocols import HarnessError, ModelError, StoreError

NO_CHOICE = re.compile(r".*Could not find '(.+)/([^/']+)' Available options in '[^']*': ([\w ]+)(.*)")


def mendable(problem: Exception) -> bool:
    """Whether a user, not a programmer, can do something about it."""
    return hydras_own(problem) or isinstance(problem, ValueError | ModelError | HarnessError | StoreError | OSError)


def hydras_own(problem: BaseException) -> bool:
    """Whether Hydra or OmegaConf raised it, whatever it wraps."""
    return type(problem).__module__.startswith(("hydra", "omegaconf"))


def one_line(problem: BaseException, keys: str = "`reflexion-lab run --cfg job` prints those that there are") -> str:
    """What is wrong: the innermost cause, the config key that Hydra met it at, the stage of the loop; without secrets,
    and without anything that a terminal would obey.

    Args:
        keys: what is said where there is no such key.
    """
    if hydras_own(problem) and (unread := getattr(problem, "override", None)):
        return harmless(f"{unread[:200]}: no override; expected KEY=VALUE, or 'KEY=\"VALUE\"' for a value of odd signs")
    notes = "; ".join(note for cause in _causes(problem) for note in getattr(cause, "__notes__", ()))
    key = re.search(r"full_key: (\S+)", in_hydras_words(problem))
    *_, problem = _causes(problem)
    text = re.split(r"\s+(?:full_key:|object_type=|Config search path:|See https://hydra)", str(problem))[0]
    if key and "is not in struct" in text:
        hydras = "`reflexion-lab run --cfg hydra` prints those that there are"
        text = f"{key[1]}: no such key; {hydras if key[1].startswith('hydra.') else keys}"
    elif choice := NO_CHOICE.fullmatch(" ".join(text.split())):
        group, name, choices = choice[1], choice[2], choice[3].split()
        close = "".join(f"; did you mean {near!r}?" for near in difflib.get_close_matches(name, choices, n=1))
        text = f"{group}: {name!r} found; expected one of {', '.join(choices)}{choice[4]}{close}"
    elif missing := re.search(r"Missing mandatory value: (\S+)", text):
        text = f"{missing[1]}: no value found; expected one, {missing[1]}=…"
    elif key and (unset := re.search(r"Environment variable '(\w+)' not found", text)):
        text = f"{key[1]}: the environment variable {unset[1]} is not set; export it, or give {key[1]}=…"
    elif key and key[1].split(".")[0] not in text:
        text = f"{key[1]}: {text}"
    return harmless(" ".join(f"{text} {f'({notes})' if notes else ''}".split()))


def in_hydras_words(problem: BaseException) -> str:
    """The messages of a problem and of what Hydra wraps in it."""
    return " ".join(map(str, _causes(problem)))


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """The problem, and those that Hydra wraps, the innermost last."""
    yield problem
    while problem.__cause__ is not None and type(problem).__module__.startswith("hydra"):
        problem = problem.__cause__
        yield problem


def harmless(text: str) -> str:
    """What is said of a mistake, on one line: it may repeat words of others, and keys of our user."""
    return plain(without_keys(text))


def in_full(problem: BaseException) -> str:
    """Its traceback, as harmless as the line."""
    return visible(without_keys("".join(traceback.format_exception(problem))))
