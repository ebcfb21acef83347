"""Weights on one's own GPU or CPU, in this process: causal language models of transformers, with calls in batches."""

from __future__ import annotations

import copy
import random
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Literal

from reflexion_lab.agent.models.cache import draw_seed
from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.io.files import folder_digest, hub_folder, named_folder
from reflexion_lab.limits import Parallel, Positive, validated
from reflexion_lab.records import Completion, Message, Sampling, Usage

JOIN = 8  # tokens between two admissions, since reading prompts takes a step of its own, in which the others wait
TAIL = 8  # tokens before a text that are decoded with it: parts of a character, or a space that some drop at a start


@dataclass(eq=False)
class _Call:
    messages: Sequence[Message]
    sampling: Sampling
    draws: random.Random  # of this call alone, whatever its batch
    completion: Future[Completion] = field(default_factory=Future)
    prompt: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)  # of the reply
    limit: int = 0
    began: float = 0.0
    is_left: bool = False  # by a caller that was interrupted


class TransformersModel:
    """A causal language model; its weights load at the first call. Thread-safe.

    Waiting calls are decoded together. Only `slots` of 1 is deterministic: batching can change even greedy replies.
    `Sampling.grammar` and the model's generation config are ignored; temperature and top_p are 1 if unset. Arguments:
    comments in conf/model/hf.yaml; `device` and `slots` are not part of the fingerprint. Raises ConfigError: no folder.
    """

    @validated
    def __init__(
        self,
        path: str,
        revision: str = "main",
        adapter: str | None = None,
        device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto",
        slots: Parallel = 16,
        context: Positive = 4096,
    ) -> None:
        self._adapter = Path(adapter).expanduser() if adapter else None
        if self._adapter and not self._adapter.is_dir():
            raise ConfigError("model.adapter", f"no folder at {adapter!r}", "one with a LoRA adapter")
        own = named_folder("model.path", path, "one, or a hub name")
        self._folder = own or hub_folder("model.path", path, revision)
        if (self._folder / "adapter_config.json").exists() and not (self._folder / "config.json").exists():
            raise ConfigError("model.path", "an adapter", "whole weights", "name its base, and model.adapter=FOLDER")
        self._name = own.resolve().name if own else path
        self.slots, self.context, self._device, self._dtype = slots, context, device, dtype
        weights = "+".join(folder_digest(folder) for folder in (self._folder, self._adapter) if folder)
        self.fingerprint = f"hf:{self._name}:{weights}:dtype={dtype}:context={context}"
        self._waiting = deque[_Call]()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="generate")
        self._model: Any = None

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        """Chat, or plain completion if the only message has the role `assistant`."""
        call = _Call(messages, sampling, random.Random(draw_seed(messages, sampling, sample)))
        self._waiting.append(call)
        self._thread.submit(self._serve)  # nothing is left to do there if the batch under way takes the call
        try:
            return call.completion.result()
        finally:
            call.is_left = True  # after an interrupt, nothing more is generated for it

    def _serve(self) -> None:
        """Answer calls until none waits. Only this thread touches weights and tokenizer."""
        batch = _Batch()
        try:
            self._model = self._model or self._load()
            self._decode(batch)
        except BaseException as problem:  # whatever it is, the tasks would wait without end
            error, rows = problem, len(batch.calls)
            if type(problem).__name__ == "OutOfMemoryError":
                error = ModelError(f"no memory of the GPU for {rows} sequences", hint=f"model.slots={rows // 2 or 1}")
            for call in (*batch.calls, *(self._waiting.popleft() for _ in range(len(self._waiting)))):
                if not call.completion.done():  # each waiting task adds notes of its own to its error
                    own = error
                    with suppress(Exception):  # some cannot be copied
                        own = copy.copy(error).with_traceback(error.__traceback__)
                    call.completion.set_exception(own)

    def _decode(self, batch: _Batch) -> None:
        """Write the next token of each call in the batch, which others join, until none is left."""
        for step in count():
            if step % JOIN == 0 or not batch.calls:
                free = min(self.slots - len(batch.calls), len(self._waiting))
                if calls := [*filter(self._prepare, (self._waiting.popleft() for _ in range(free)))]:
                    batch.join(self._model, calls)
            if not batch.calls:
                return
            tokens = _next_tokens(batch.logits, batch.calls)
            for call, token in zip(batch.calls, tokens.tolist(), strict=True):
                try:
                    self._write(call, token)
                except BaseException as problem:
                    call.completion.set_exception(problem)
            batch.read(self._model, tokens)

    def _prepare(self, call: _Call) -> bool:
        """Fill in what depends on the model. False: the call is refused, and completed."""
        call.began = time.monotonic()
        try:
            call.prompt = self._tokens(call.messages)
        except BaseException as problem:  # a chat template raises what it likes, such as for a role it does not know
            call.completion.set_exception(ModelError(f"model.path: {self._name} refuses a call ({problem})"))
            return False
        call.limit = 0 if call.is_left else min(call.sampling.longest, self.context - len(call.prompt))
        if call.limit <= 0:
            self._complete(call, "", "context_overflow")
        return call.limit > 0

    def _tokens(self, messages: Sequence[Message]) -> list[int]:
        if [message.role for message in messages] == ["assistant"]:
            return list(self._tokenizer(messages[0].content).input_ids)
        if not self._tokenizer.chat_template:
            raise ValueError("it has no chat template, as instruct models have")
        chat = [{"role": message.role, "content": message.content} for message in messages]
        continues = messages[-1].role == "assistant"
        flags = {"add_generation_prompt": not continues, "continue_final_message": continues, "return_dict": False}
        return list(self._tokenizer.apply_chat_template(chat, **flags))

    def _write(self, call: _Call, token: int) -> None:
        """Append a token to a reply, and complete the call if that ends it."""
        call.tokens.append(token)
        is_end, is_full = token in self._ends, len(call.tokens) >= call.limit
        stops = [stop for stop in call.sampling.stop or () if stop]
        decode = partial(self._tokenizer.decode, skip_special_tokens=True)
        recent = decode((call.prompt + call.tokens)[-TAIL - max(map(len, stops)) :]) if stops else ""
        if is_end or is_full or any(stop in recent for stop in stops):
            before = call.prompt[-TAIL:]
            text = decode(before + call.tokens[: len(call.tokens) - is_end])[len(decode(before)) :]
            cut = min((text.find(stop) for stop in stops if stop in text), default=None)
            if is_end or is_full or cut is not None:
                self._complete(call, text[:cut], "stop" if is_end or cut is not None else "length")

    def _complete(self, call: _Call, text: str, reason: str) -> None:
        n, seconds = len(call.tokens), time.monotonic() - call.began
        read, refused = (len(call.prompt), 0) if n else (0, len(call.prompt))
        usage = Usage(calls=1, refused=int(not n), prompt_tokens=read, completion_tokens=n, seconds=seconds)
        reply = Completion(text=text, model=self._name, finish_reason=reason, usage=usage, refused_tokens=refused)
        call.completion.set_result(reply)

    def _load(self) -> Any:
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
            from transformers.utils import logging

            if self._adapter:
                from peft import PeftModel
        except ImportError as problem:
            raise ModelError(f"model=hf needs {problem.name}: pip install 'reflexion_lab[transformers]'") from problem
        logging.disable_progress_bar()  # it would overwrite the run's own
        gpu = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        try:
            only = {"local_files_only": True, "use_safetensors": True, "output_loading_info": True}  # pickles run code
            model, info = AutoModelForCausalLM.from_pretrained(self._folder, dtype=self._dtype, **only)
            if absent := info["missing_keys"]:  # which were drawn at random
                raise ValueError(f"its files lack {min(absent)}")
            at = self._adapter if self._adapter and (self._adapter / "tokenizer_config.json").exists() else self._folder
            self._tokenizer = AutoTokenizer.from_pretrained(at, local_files_only=True)
            if self._adapter:
                model = PeftModel.from_pretrained(model, str(self._adapter)).merge_and_unload()
            model = model.to(gpu if self._device == "auto" else self._device).eval().requires_grad_(False)
        except Exception as problem:
            expected = "a causal language model that transformers saved, and a device of this machine"
            raise ModelError(f"model.path: {self._folder} cannot be loaded ({problem})", expected=expected) from problem
        if (window := getattr(model.config.get_text_config(), "max_position_embeddings", self.context)) < self.context:
            raise ConfigError("model.context", self.context, f"at most {window}, the window of {self._name}")
        ends = model.generation_config.eos_token_id
        self._ends = {*(ends if isinstance(ends, list) else [ends]), self._tokenizer.eos_token_id}
        return model


@dataclass
class _Batch:
    """Calls that are decoded together. `mask`, shape (calls, length), is 0 at padding, which is on the left, else 1;
    `cache` has keys and values of these tokens, `logits`, shape (calls, vocabulary), are those of the next ones.
    """

    calls: list[_Call] = field(default_factory=list)
    mask: Any = None
    cache: Any = None
    logits: Any = None

    def join(self, model: Any, calls: list[_Call]) -> None:
        """Read the prompts of `calls`, to decode them with the others from now on."""
        import torch
        from torch.nn.functional import pad
        from transformers import DynamicCache

        self.calls, others = self.calls + calls, bool(self.calls)
        prompts = [torch.tensor(call.prompt, device=model.device) for call in calls]
        ids = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True, padding_value=-1, padding_side="left")
        mask, cache = (ids >= 0).long(), DynamicCache()
        try:
            logits = _logits(model, ids.clamp(min=0), mask, cache)
            if {layer.keys.shape[2] for layer in cache.layers} != {mask.shape[1]}:
                raise ValueError("a cache of another length")
        except (AttributeError, IndexError, TypeError, ValueError) as problem:
            kept = f"model.path: its layers keep more than keys and values ({problem})"
            raise ModelError(kept, hint="use a server such as vLLM") from problem
        if others:
            length = max(mask.shape[1], self.mask.shape[1])
            mask = torch.cat([pad(each, (length - each.shape[1], 0)) for each in (self.mask, mask)])
            logits = torch.cat([self.logits, logits])
            for old, new in zip(self.cache.layers, cache.layers, strict=True):
                for name in ("keys", "values"):
                    both = [getattr(layer, name) for layer in (old, new)]
                    setattr(new, name, torch.cat([pad(each, (0, 0, length - each.shape[2], 0)) for each in both]))
        self.mask, self.cache, self.logits = mask, cache, logits

    def read(self, model: Any, tokens: Any) -> None:
        """Drop the calls that are completed, and read one token, shape (calls,), of each other one."""
        import torch

        rows = [row for row, call in enumerate(self.calls) if not (call.completion.done() or call.is_left)]
        if 0 < len(rows) < len(self.calls):
            start = int(self.mask[rows].any(0).int().argmax())  # before it, padding alone
            self.mask, tokens = self.mask[rows, start:], tokens[rows]
            for layer in self.cache.layers:
                layer.keys, layer.values = layer.keys[rows, :, start:], layer.values[rows, :, start:]
        self.calls = [self.calls[row] for row in rows]
        if rows:
            self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], 1)
            self.logits = _logits(model, tokens[:, None], self.mask, self.cache)


def _logits(model: Any, ids: Any, mask: Any, cache: Any) -> Any:
    """Logits of the next tokens after `ids`, the last columns of `mask`, whose keys and values `cache` gets."""
    positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "past_key_values": cache}
    return model(**inputs, use_cache=True, logits_to_keep=1).logits[:, -1].float()


def _next_tokens(logits: Any, calls: Sequence[_Call]) -> Any:
    """A token of each row: the likeliest at temperature 0, else a draw by the inverse of the cumulative distribution,
    from the likeliest tokens that have a mass of top_p together (Holtzman et al., 2020).
    """
    import torch

    if not logits.amax(-1).isfinite().all():
        raise ModelError("model.dtype: logits are not finite numbers", hint="model.dtype=bfloat16, or float32")
    rows = [(call.sampling.temperature, call.sampling.top_p, call.draws.random()) for call in calls]
    values = [[1.0 if value is None else value for value in row] for row in rows]
    temperature, top_p, draws = torch.tensor(values, device=logits.device).T.unsqueeze(-1)
    if not any(value[0] for value in values):
        return logits.argmax(-1)
    chances = (logits / temperature.clamp(min=1e-6)).softmax(-1)
    if (cut := top_p[:, 0] < 1).any():
        ordered, order = chances[cut].sort(descending=True)
        ordered[ordered.cumsum(-1) - ordered >= top_p[cut].clamp(min=1e-6)] = 0
        chances[cut] = torch.zeros_like(ordered).scatter(1, order, ordered)
    total = chances.cumsum(-1)
    drawn = torch.searchsorted(total, draws.clamp(max=1 - 2**-24) * total[:, -1:], right=True)  # some round to 1
    return torch.where(temperature > 0, drawn, logits.argmax(-1, keepdim=True))[:, 0]
