"""Embeddings of a server of the OpenAI protocol: OpenAI, vLLM, llama.cpp, Ollama, text-embeddings-inference."""

from __future__ import annotations

import contextlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import methodcaller
from typing import Any

from reflexion_lab.agent.models import server
from reflexion_lab.agent.models.openai import OpenAIModel, is_same
from reflexion_lab.agent.models.requests import EMBEDDINGS, SHOWN, embeddings, outcome_of, pause
from reflexion_lab.errors import LabError, ModelError
from reflexion_lab.io.arrays import Float32s, np
from reflexion_lab.limits import Above0, Count, Positive, validated
from reflexion_lab.protocols import TextKind

KEYS = re.compile(r"\bmodel\.(?=(?:model|base_url|api_key_env|api_key_file|timeout|retries|extra_body)\b)")


@contextlib.contextmanager
def _keys_of_embedder() -> Iterator[None]:
    """Errors within name keys of `embedder`, not of `model`."""
    try:
        yield
    except LabError as error:
        error.args = tuple(KEYS.sub("embedder.", str(part)) for part in error.args)
        raise


class OpenAIEmbedder(OpenAIModel):
    """Vectors of `/embeddings`, scaled to length 1. Thread-safe.

    The arguments are the keys of `embedder=openai`, each with its comment in conf/embedder/openai.yaml; address, key,
    retries and errors are as of `OpenAIModel`, a refused batch is asked in halves, and another model's answers have a
    warning. The fingerprint is of address, model and `extra_body`: the weights there are taken to stay the same. Raises
    ModelError also where vectors are not one per text, of finite numbers.
    """

    patience = "model.timeout or retries"
    _expected = EMBEDDINGS

    @validated
    @_keys_of_embedder()
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
        super().__init__(model, base_url, api_key_env, **settings)
        self.prefixes: dict[TextKind, str] = {"query": query_prefix, "document": document_prefix}
        self.batch_size = batch_size
        self._others = set[str]()

    @cached_property
    def dimensions(self) -> int:
        return int(self.embed(["."]).shape[1])

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> Float32s:
        prefixed = ((self.prefixes[kind] + text).encode(errors="replace").decode() for text in texts or ["."])
        inputs = [text or " " for text in prefixed]  # OpenAI refuses ""
        rows = list[tuple[int, Any]]()
        for start in range(0, len(inputs), self.batch_size):
            rows += [(start + n, vector) for n, vector in self._rows(inputs[start : start + self.batch_size])]
        with contextlib.suppress(ValueError, TypeError):  # of unequal lengths, or no numbers
            table = np.array([vector for _, vector in rows], np.float32)
            lengths = np.linalg.norm(table, axis=1, keepdims=True)
            is_right = np.isfinite(lengths).all() and lengths.all()
            if is_right and [number for number, _ in rows] == list(range(len(inputs))):
                unit: Float32s = (table / lengths)[: len(texts)]
                return unit
        raise ModelError(
            f"embedder.model: {len(rows)} vectors came for {len(inputs)} texts",
            expected="one per text by its index, all of one length and of finite numbers, not all 0",
            hint="see whether embedder.model makes embeddings, and embedder.base_url is its server's",
        )

    def _rows(self, texts: list[str]) -> list[tuple[int, Any]]:
        """Number and vector of each text that the answer has, in the order of `texts`."""
        import openai

        body, answer = {"model": self._model, **self._extra, "input": texts}, ""
        problem: Exception
        for retry in range(self._retries + 1):
            with _keys_of_embedder():
                options: Any = {"headers": {"Authorization": f"Bearer {self._key.read() or 'none'}"}}
            request = methodcaller("post", "/embeddings", cast_to=str, body=body, options=options)
            try:
                answer = str(self._reached(request))
                return self._compared(*embeddings(answer.encode()))
            except openai.OpenAIError as error:
                problem = error
            except ValueError as error:  # an answer about the length, which is not asked again
                problem = ValueError(f"{error}: {answer[:SHOWN]}")
            if (wait := pause(problem, retry)) is None or retry == self._retries:
                break
            time.sleep(wait)
        is_refused = outcome_of(problem) == "refused" or isinstance(problem, ValueError)
        if is_refused and (half := len(texts) // 2):
            return self._rows(texts[:half]) + [(half + number, vector) for number, vector in self._rows(texts[half:])]
        failure = self._error(problem, retry)  # outside of the handler, as in `complete`
        failure.hint = f"asked alone, the text that begins {texts[0][:80]!r}" if is_refused else failure.hint
        raise failure

    def _compared(self, rows: list[tuple[int, Any]], served: str) -> list[tuple[int, Any]]:
        """`rows`, with one warning of each model that answers in place of the requested one."""
        wanted = str(self._extra.get("model", self._model))
        if served and served not in self._others and not is_same(wanted, server.file_name(served)):
            self._others.add(served)
            problem = f"embedder.model: {wanted} was asked, and {self._shown(served)[:100]!r} answered"
            warnings.warn(f"{problem}; if it is another model, ask for that, in a new cache.embeddings", stacklevel=2)
        return rows

    def _advice(self, status: int, has_no_credit: bool) -> str:
        advice = super()._advice(status, has_no_credit)
        return KEYS.sub("embedder.", advice.replace("lower model.requests_per_minute, ", ""))
