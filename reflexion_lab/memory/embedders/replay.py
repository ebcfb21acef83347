"""An embedder that answers from recorded vectors, without weights."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ModelError
from reflexion_lab.memory.embedders.cached import LAYOUT
from reflexion_lab.storage.sqlite_file import FAULTS, FileTable

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class ReplayEmbedder:
    """Vectors from the embedding-cache file at `path`, which is first opened when one is asked for. Thread-safe.

    `fingerprint`: whose vectors, where the file holds those of several embedders; "" for the only one there.

    Raises
    ------
    ModelError
        On the first use: the file cannot be used, holds no such embedder, or does not hold a text.
    """

    def __init__(self, path: str | Path, fingerprint: str = "") -> None:
        self.path = Path(path)
        self._wanted = fingerprint
        self._table = FileTable(self.path, LAYOUT, readonly=True)

    @cached_property
    def fingerprint(self) -> str:
        recorded = [name for (name,) in self._rows("SELECT DISTINCT fingerprint FROM embeddings ORDER BY fingerprint")]
        if self._wanted in recorded:
            return self._wanted
        if len(recorded) == 1 and not self._wanted:
            return str(recorded[0])
        wanted = f"none of {self._wanted}" if self._wanted else "no single embedder's"
        raise ModelError(f"{self.path} holds vectors of {', '.join(recorded) or 'no embedder'}, {wanted}")

    @cached_property
    def dimensions(self) -> int:
        (vector,) = self._rows("SELECT vector FROM embeddings WHERE fingerprint = ? LIMIT 1", self.fingerprint)[0]
        return len(vector) // 4

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        import numpy as np

        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        rows = [self._vector(text) for text in texts]
        return np.frombuffer(b"".join(rows), "<f4").reshape(len(rows), -1).astype(np.float32)

    def _vector(self, text: str) -> bytes:
        digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
        rows = self._rows(
            "SELECT vector, checksum FROM embeddings WHERE fingerprint = ? AND digest = ?", self.fingerprint, digest
        )
        if not rows:
            raise ModelError(f"{self.path} holds no vector of the text that begins {text[:80]!r}")
        vector: bytes
        vector, checksum = rows[0]
        if zlib.crc32(vector) != checksum:
            raise ModelError(
                f"{self.path}: the vector of the text that begins {text[:80]!r} is damaged; record it again"
            )
        return vector

    def _rows(self, statement: str, *values: str | bytes) -> list[tuple[Any, ...]]:
        try:
            return self._table.rows(statement, values)
        except FAULTS as error:
            raise ModelError(f"{self.path} cannot be used as recorded embeddings ({error})") from error

    def close(self) -> None:
        """Close the file; the next question opens it again."""
        self._table.close()
