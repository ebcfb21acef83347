"""What a server of the OpenAI protocol says about itself: its models, and their weights and contexts."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.requests import pause
from reflexion_lab.records import Served

PATIENCE = 10.0
"""Seconds without data after which a look at a server ends."""
WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
"""Fields of a list with the context: vLLM and SGLang; OpenRouter and Together; Groq; Mistral."""
STRUCTURED = {
    **{"llamacpp": "grammar", "vllm": "structured_outputs", "sglang": "ebnf"},
    **dict.fromkeys(("library", "openai", "system"), "response_format"),
}
"""Fields that constrain a reply, by the owner of a listed model; "library" is Ollama, "system" OpenAI."""


class Listing(NamedTuple):
    """The answer to `GET /models`; without models if it is no list."""

    models: tuple[Served, ...] = ()
    is_list: bool = True
    """False for an answer in another form: the page of a proxy, say."""
    is_alone: bool = False
    """Whether the server has one model, which answers to any name. The models of Ollama are those it could load."""
    problem: Exception | None = None
    """The SDK's error instead of an answer."""

    @property
    def is_absent(self) -> bool:
        """Whether nothing listens there."""
        return self.problem is not None and type(self.problem.__cause__).__name__ == "ConnectError"


def listing(get: Callable[[str], str], retries: int) -> Listing:
    """A server's models; `get` sends GET PATH, up to `retries` times more while weights load or nothing listens."""
    import openai

    for retry in range(retries + 1):
        try:
            return _read(get("/models"))
        except openai.OpenAIError as problem:
            answer = Listing(problem=problem)
            wait = pause(problem, retry)
            is_loading = answer.is_absent or getattr(problem, "status_code", 0) == 503
            if wait is None or retry == (retries if is_loading else min(retries, 2)):
                break
            time.sleep(wait)
    return answer


def _read(text: str) -> Listing:
    try:
        body = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        body = ""
    listed = body.get("data") if isinstance(body, dict) else body
    is_list = isinstance(listed, list)
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    models = tuple(_model(row["id"], row) for row in rows if isinstance(row.get("id"), str))
    return Listing(models, is_list, is_alone=len(models) == 1 and models[0].owner != "library")


def _model(name: str, row: dict[str, Any]) -> Served:
    """A row of the list: vLLM names the weights' folder or repository, llama.cpp the size of their file."""
    owner, root, meta = str(row.get("owned_by")), row.get("root"), row.get("meta")
    size = meta.get("size") if isinstance(meta, dict) else None
    words = [file_name(root) if isinstance(root, str) and root != name else "", f"{size} bytes" if size else ""]
    context = next((row[key] for key in WINDOWS if isinstance(row.get(key), int)), 0)
    weights, source = ":".join(filter(None, words)), "/models" if context else ""
    return Served(name, owner, weights, context, source, STRUCTURED.get(owner, ""))


def detailed(model: Served, get: Callable[[str], str], root: str) -> Served:
    """`model` with what llama.cpp, vLLM and Ollama answer below `root`; Ollama does so of loaded models only."""
    import openai

    with contextlib.suppress(openai.OpenAIError, ValueError, LookupError, TypeError, RecursionError):
        if model.owner == "llamacpp":
            context = int(msgspec.json.decode(get(f"{root}/props"))["default_generation_settings"]["n_ctx"])
            return replace(model, context=context, source="/props")
        if model.owner == "vllm":
            version = re.findall(r"\d+", msgspec.json.decode(get(f"{root}/version"))["version"])
            return replace(model, structured="guided_grammar") if [*map(int, version)] < [0, 11] else model
        if model.owner == "library":
            row = {row["name"]: row for row in msgspec.json.decode(get(f"{root}/api/ps"))["models"]}[model.name]
            return replace(model, weights=row["digest"][:12], context=int(row["context_length"]), source="/api/ps")
    return model


def file_name(name: str) -> str:
    """`name`; of a path of this or another system, its last part."""
    return re.split(r"[/\\]", name)[-1] if re.match(r"[/~.]|[A-Za-z]:\\", name) else name


def constraint(field: str, grammar: str) -> dict[str, Any]:
    """The field of a request that constrains the reply to `grammar` (GBNF), or, where the field is JSON Schema, to an
    object with its labels as keys; {} where no parser reads such an object.
    """
    if not (field and grammar):
        return {}
    if field != "response_format":
        return {field: {"grammar": grammar} if field == "structured_outputs" else grammar}
    if grammar.strip().startswith('root ::= "{'):
        return {field: {"type": "json_object"}}
    labels = dict.fromkeys(re.findall(r'"([A-Z_]+): ', grammar))
    kinds = {label: {"type": "number" if label in ("CONFIDENCE", "SEVERITY") else "string"} for label in labels}
    schema = {"type": "object", "properties": kinds, "required": [*kinds], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
    return {field: form} if labels.keys() & {"ROOT_CAUSE", "SEVERITY"} else {}
