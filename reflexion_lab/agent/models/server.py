"""What a server of the OpenAI protocol says about itself: its models, and their weights and contexts."""

from __future__ import annotations

import contextlib
import difflib
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from reflexion_lab.agent.models.requests import pause

PATIENCE = 10.0
"""Seconds without data after which a look at a server ends."""
WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Fields of a list with the context: vLLM and SGLang; OpenRouter and Together; Groq; Mistral."""
MOST = 5
"""Maximum number of models that a message names."""


class Entry(NamedTuple):
    """A model of a list. `owner`: "llamacpp", "vllm", or "library" (Ollama). `weights`: words that distinguish them
    from others of that name, or "". `window`: tokens of a prompt and its reply, 0: unknown, and the path that says so.
    """

    name: str
    owner: str
    weights: str
    window: tuple[int, str] = (0, "")


class Listing(NamedTuple):
    """The answer to `GET /models`; without entries if it is no list."""

    entries: tuple[Entry, ...] = ()
    is_alone: bool = False
    """Whether the server has one model, which answers to any name. The models of Ollama are those it could load."""
    problem: Exception | None = None
    """The SDK's error instead of an answer."""

    @property
    def is_absent(self) -> bool:
        """Whether nothing listens there."""
        return self.problem is not None and type(self.problem.__cause__).__name__ == "ConnectError"

    def nearest(self, name: str) -> str:
        """The names, those most like `name` first."""
        names = [entry.name for entry in self.entries]
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        return ", ".join(difflib.get_close_matches(name, names, MOST, 0)) + more


def listing(get: Callable[[str], str], retries: int) -> Listing:
    """The models of a server. `get`: the answer to a GET of a path, sent again, at most `retries` times, while nothing
    listens or weights load.
    """
    import openai

    for retry in range(retries + 1):
        try:
            return _read(get("/models"))
        except openai.OpenAIError as problem:
            answer = Listing(problem=problem)
            wait = pause(problem, retry)
            if wait is None or retry == retries or not (answer.is_absent or getattr(problem, "status_code", 0) == 503):
                break
            time.sleep(wait)
    return answer


def _read(text: str) -> Listing:
    try:
        body = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return Listing()
    rows = body.get("data") if isinstance(body, dict) else body
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    entries = tuple(_entry(row) for row in rows if isinstance(row.get("id"), str))
    return Listing(entries, is_alone=len(entries) == 1 and entries[0].owner != "library")


def _entry(row: dict[str, Any]) -> Entry:
    """A row of the list: vLLM names the weights' folder or repository, llama.cpp the size of their file."""
    root, meta = row.get("root"), row.get("meta")
    words = [file_name(root)] if isinstance(root, str) and root != row["id"] else []
    size = meta.get("size") if isinstance(meta, dict) else None
    windows = [(row[key], "/models") for key in WINDOWS if isinstance(row.get(key), int)]
    weights = ":".join([*words, *([f"{size} bytes"] if isinstance(size, int) else [])])
    return Entry(row["id"], str(row.get("owned_by")), weights, *windows[:1])


def detailed(entry: Entry, get: Callable[[str], str], root: str) -> Entry:
    """`entry` with what llama.cpp and Ollama answer below `root`; of a model that Ollama has not loaded, nothing."""
    import openai

    with contextlib.suppress(openai.OpenAIError, ValueError, LookupError, TypeError, RecursionError):
        if entry.owner == "llamacpp":
            settings = msgspec.json.decode(get(f"{root}/props"))["default_generation_settings"]
            return entry._replace(window=(int(settings["n_ctx"]), "/props"))
        if entry.owner == "library":
            rows = {row["name"]: row for row in msgspec.json.decode(get(f"{root}/api/ps"))["models"]}
            window = (int(rows[entry.name]["context_length"]), "/api/ps")
            return entry._replace(weights=str(rows[entry.name]["digest"])[:12], window=window)
    return entry


def file_name(name: str) -> str:
    """`name`; of a path of this or another system, its last part."""
    return re.split(r"[/\\]", name)[-1] if re.match(r"[/~.]|[A-Za-z]:\\", name) else name
