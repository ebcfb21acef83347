"""Embeddings of a server of the OpenAI protocol: OpenAI, vLLM, llama.cpp, Ollama, text-embeddings-inference."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.agent.models.requests import EMBEDDINGS, embeddings, pause
from reflexion_lab.errors import LabError, ModelError
from reflexion_lab.limits import Above0, Count, Positive, validated
from reflexion_lab.protocols import TextKind

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class OpenAIEmbedder:
    """Vectors of `/embeddings`, scaled to length 1. Thread-safe.

    The arguments are the keys of `embedder=openai`, each with its comment in conf/embedder/openai.yaml; address, key,
    retries and errors are as of `OpenAIModel`. The fingerprint is of address, model and `extra_body`: the weights there
    are taken to stay the same. Raises ConfigError: an argument is out of range; Unanswered: there is no key, or no
    answer after all retries; ModelNotFound: the server has no such model or path; ModelError: it refuses a text, or its
    vectors are not one per text, of one length and of finite numbers. No message contains the key.
    """

    @validated
    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        api_key_file: str | None = None,
        batch_size: Positive = 32,
        retries: Count = 5,
        timeout: Above0 = 120.0,
        extra_body: Mapping[str, object] | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
    ) -> None:
        settings: Any = {"api_key_file": api_key_file, "retries": retries, "timeout": timeout, "extra_body": extra_body}
        with _keys_of_embedder():
            self._server = _Server(model, base_url, api_key_env, **settings)
        self.fingerprint = self._server.fingerprint
        self.prefixes: dict[TextKind, str] = {"query": query_prefix, "document": document_prefix}
        self._batch_size = batch_size

    @cached_property
    def dimensions(self) -> int:
        return int(self.embed(["."]).shape[1])

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> NDArray[float32]:
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        prefixed = ((self.prefixes[kind] + text).encode(errors="replace").decode() for text in texts)
        inputs = [text or " " for text in prefixed]  # OpenAI refuses ""
        rows = list[tuple[int, Any]]()
        for start in range(0, len(inputs), self._batch_size):
            with _keys_of_embedder():
                batch = self._server.rows(inputs[start : start + self._batch_size])
            rows += [(start + number, vector) for number, vector in batch]
        vectors = [vector for _, vector in rows]
        with contextlib.suppress(ValueError, TypeError):  # of unequal lengths, or no numbers
            table = np.array(vectors, np.float32)
            lengths = np.linalg.norm(table, axis=1, keepdims=True)
            is_right = np.isfinite(lengths).all() and lengths.all()
            if is_right and [number for number, _ in rows] == list(range(len(inputs))):
                unit: NDArray[float32] = table / lengths
                return unit
        widths = ", ".join(sorted({str(len(vector)) if isinstance(vector, list) else "no" for vector in vectors}))
        raise ModelError(
            f"embedder.model: {len(vectors)} vectors of {widths} numbers came for {len(inputs)} texts",
            expected="one per text by its index, all of one length and of finite numbers, not all 0",
            hint="see whether embedder.model makes embeddings, and embedder.base_url is its server's",
        )

    def close(self) -> None:
        self._server.close()


class _Server(OpenAIModel):
    patience = "model.timeout or retries"
    _expected = EMBEDDINGS

    def rows(self, texts: Sequence[str]) -> list[tuple[int, Any]]:
        """Number and vector of each text that the answer has, in the order of `texts`."""
        import openai

        retry = 0
        while True:
            try:
                return embeddings(self._post({**self._extra, "model": self._model, "input": texts}))
            except openai.OpenAIError as error:
                problem = error
            wait = pause(problem, retry)
            if wait is None or retry == self._retries:
                break
            retry += 1
            time.sleep(wait)
        raise self._error(problem, retry)  # outside of the handler, as in `complete`

    def _post(self, body: dict[str, Any]) -> bytes:
        options: Any = {"headers": {"Authorization": f"Bearer {self._key.read() or 'none'}"}}
        answer = self._reached(lambda client: client.post("/embeddings", cast_to=str, body=body, options=options))
        return str(answer).encode()


@contextlib.contextmanager
def _keys_of_embedder() -> Iterator[None]:
    """Errors within the block name keys of `embedder`, not of `model`."""
    try:
        yield
    except LabError as error:
        error.args = tuple(re.sub(r"\bmodel\.(?=[a-z])", "embedder.", str(part)) for part in error.args)
        raise
