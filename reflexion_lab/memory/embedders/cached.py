"""The embedding cache: equal texts are embedded once, across runs and processes."""

from __future__ import annotations

import hashlib
import threading
import warnings
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflexion_lab.errors import ModelError
from reflexion_lab.protocols import Embedder
from reflexion_lab.storage.table import FAULTS, Execute, FileTable, Layout

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

LAYOUT = Layout(
    name="embeddings",
    columns="""fingerprint TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, digest)""",
    application_id=0x52464C56,
)
"""`digest`: SHA-256 of the text; `vector`: little-endian float32; `checksum`: CRC-32 of `vector`."""
CHUNK = 1024
"""Texts that are looked up, embedded and stored together: what a killed process loses at most."""


class CachedEmbedder:
    """`embedder`, asked once for every text; later equal texts are answered from the file at `path`.

    A file that is damaged, read-only or full costs time and one warning, never a vector. Without a path nothing is
    kept. Thread-safe.
    """

    hits: int
    """Texts that were not embedded: known, or repeated within a call."""
    misses: int

    def __init__(self, embedder: Embedder, path: str | Path | None) -> None:
        self.hits = self.misses = 0
        self._embedder = embedder
        self._path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._table: FileTable | None = None
        self._opened = self._warned = False
        self._writable = True

    # Read late, since an embedder may have to load its weights first.
    @cached_property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @cached_property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[float32]:
        """As `embedder` does; it receives only texts that are not known, each once."""
        import numpy as np

        if self._path is None or not texts:
            self.misses += len(texts)
            return self._embedder.embed(texts)
        chunks = [self._embed_chunk(texts[start : start + CHUNK]) for start in range(0, len(texts), CHUNK)]
        return np.concatenate(chunks)

    def _embed_chunk(self, texts: Sequence[str]) -> NDArray[float32]:
        import numpy as np

        digests = [hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts]
        vectors = self._read(set(digests))
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        with self._lock:
            self.hits += len(texts) - len(missing)
            self.misses += len(missing)
        if missing:
            rows = self._embedder.embed(list(missing.values())).astype("<f4")
            new = {digest: row.tobytes() for digest, row in zip(missing, rows, strict=True)}
            self._write(new)
            vectors |= new
        joined = bytearray().join(vectors[digest] for digest in digests)
        return np.frombuffer(joined, "<f4").reshape(len(texts), -1).astype(np.float32, copy=False)

    def _read(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        values = (self.fingerprint, *digests)
        marks = ",".join("?" * (len(values) - 1))
        statement = f"SELECT digest, vector, checksum FROM embeddings WHERE fingerprint = ? AND digest IN ({marks})"
        with self._lock:
            if (table := self._open()) is None:
                return {}
            try:
                rows: list[tuple[Any, ...]] = table.rows(statement, values)
            except FAULTS as problem:
                self._warn(problem)
                self._drop()
                return {}
        return {digest: vector for digest, vector, checksum in rows if zlib.crc32(vector) == checksum}

    def _write(self, vectors: dict[bytes, bytes]) -> None:
        def insert(execute: Execute) -> tuple[None, bool]:
            for digest, vector in vectors.items():
                execute(
                    "INSERT OR REPLACE INTO embeddings VALUES (:fingerprint, :digest, :vector, :checksum)",
                    {
                        "fingerprint": self.fingerprint,
                        "digest": digest,
                        "vector": vector,
                        "checksum": zlib.crc32(vector),
                    },
                )
            return None, True

        with self._lock:
            if (table := self._open()) is None or not self._writable:
                return
            try:
                table.transaction(insert)
            except FAULTS as problem:
                self._warn(problem)
                self._writable = False  # what it holds is still read

    def _open(self) -> FileTable | None:
        if self._opened or self._path is None:
            return self._table
        self._opened = True
        for readonly in (False, True):
            table = FileTable(self._path, LAYOUT, readonly=readonly)
            try:
                table.open()
            except FAULTS as problem:
                self._warn(problem)
            else:
                self._table = table
                break
        return self._table

    def _drop(self) -> None:
        if self._table is not None:
            self._table.close()
            self._table = None

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"cache.embeddings: {self._path} cannot be used in full ({problem}), so texts are embedded again each "
                "time; free its disk, make it writable, or move it away to begin a new one",
                stacklevel=2,
            )

    def close(self) -> None:
        """Close the file, in which everything embedded is already, and what the embedder itself holds open."""
        with self._lock:
            self._drop()
        if close := getattr(self._embedder, "close", None):
            close()


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
