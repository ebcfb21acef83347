"""The embedding cache, across runs and processes, and its replay."""

from __future__ import annotations

import hashlib
import sys
import threading
import warnings
import zlib
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from sqlalchemy import select

from reflexion_lab.errors import LabError, ModelError, StoreError
from reflexion_lab.io.arrays import Float32s, np
from reflexion_lab.io.terminal import bar, in_notebook
from reflexion_lab.protocols import Embedder, TextKind
from reflexion_lab.storage.sql import EMBEDDINGS, Database

CHUNK = 1024
"""Texts per transaction, at most: a killed process loses these."""
MARKS: Mapping[TextKind, str] = {"query": "query\0", "document": "document\0"}
"""Begin the digested text where a vector depends on its kind in a way that no config names."""


class CachedEmbedder:
    """`embedder` with a cache in the SQLite file `path`; None: no cache. Thread-safe. `quiet`: without a progress bar.

    Kinds are apart, unless `embedder` has `prefixes`: a vector is then that of a kind's prefix and the text. One that
    has a `batch_size` gets as many texts at once, and they are stored before the next. A damaged, read-only or full
    file costs time and one warning, never a vector. Raises ModelError: a vector is not finite, or the widths differ.
    """

    hits: int
    """Texts answered from the cache, or repeated within a call."""
    misses: int

    def __init__(self, embedder: Embedder, path: str | Path | None, quiet: bool = True) -> None:
        self.hits = self.misses = 0
        self._quiet = quiet
        self._embedder = embedder
        self._path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._widths = set[int]()
        self._opened = self._warned = False
        self._writable = True

    # Lazy, since an embedder may have to load its weights first.
    @cached_property
    def fingerprint(self) -> str:
        return self._embedder.fingerprint

    @cached_property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> Float32s:
        """As `Embedder.embed`; `embedder` gets only unknown texts, each once."""
        if self._path is None or not texts:
            self.misses += len(texts)
            return self._embedded(texts, kind)
        vectors = list[bytes]()
        is_shown = len(texts) > CHUNK and not self._quiet and (sys.stderr.isatty() or in_notebook())
        with bar(total=len(texts), desc="embedding", unit="text", disable=not is_shown) as progress:
            for start in range(0, len(texts), CHUNK):
                vectors += self._embed_chunk(texts[start : start + CHUNK], kind)
                progress.update(min(CHUNK, len(texts) - start))
        self._widths.update(len(vector) // 4 for vector in vectors)
        if len(self._widths) > 1:
            problem = f"cache.embeddings: vectors of {self.fingerprint} have different widths, {sorted(self._widths)}"
            raise ModelError(problem, hint="other weights answer than before: start a new cache.embeddings")
        return _matrix(vectors)

    def _embedded(self, texts: Sequence[str], kind: TextKind) -> Float32s:
        rows = self._embedder.embed(texts, kind)
        if not (finite := np.isfinite(rows)).all():
            text = texts[int(finite.all(axis=1).argmin())]
            problem = f"embedder: the vector of the text that begins {text[:80]!r} has numbers that are not finite"
            raise ModelError(problem, hint="some weights overflow in float16: embedder.dtype=bfloat16, or float32")
        return rows

    def _embed_chunk(self, texts: Sequence[str], kind: TextKind) -> list[bytes]:
        prefix = getattr(self._embedder, "prefixes", MARKS)[kind]
        digests = [_digest(prefix + text) for text in texts]
        vectors = self._read(set(digests))
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in vectors}
        with self._lock:
            self.hits += len(texts) - len(missing)
            self.misses += len(missing)
        new, size = [*missing.items()], getattr(self._embedder, "batch_size", None) or CHUNK
        for batch in (dict(new[start : start + size]) for start in range(0, len(new), size)):
            rows = self._embedded([*batch.values()], kind).astype("<f4")
            stored = {digest: row.tobytes() for digest, row in zip(batch, rows, strict=True)}
            self._write(stored)
            vectors |= stored
        return [vectors[digest] for digest in digests]

    def _read(self, digests: Collection[bytes]) -> dict[bytes, bytes]:
        fingerprint = self.fingerprint
        with self._lock:
            if (database := self._open()) is None:
                return {}
            try:
                vectors = _stored(database, fingerprint, digests)
            except StoreError as problem:
                self._warn(problem)
                self._drop()
                return {}
        return {digest: vector for digest, vector in vectors.items() if vector is not None}

    def _write(self, vectors: dict[bytes, bytes]) -> None:
        with self._lock:
            if (database := self._open()) is None or not self._writable:
                return
            rows = [
                {"fingerprint": self.fingerprint, "digest": digest, "vector": vector, "checksum": zlib.crc32(vector)}
                for digest, vector in vectors.items()
            ]
            try:
                database.rows(database.inserted(EMBEDDINGS), rows, "appended to")
            except StoreError as problem:
                self._warn(problem)
                self._writable = False  # stored vectors are still read

    def _open(self) -> Database | None:
        if self._opened or self._path is None:
            return self._database
        self._opened = True
        for readonly in (False, True):
            database = _database(self._path, readonly)
            try:
                database.open()
            except StoreError as problem:
                self._warn(problem)
            else:
                self._database = database
                break
        return self._database

    def _drop(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"cache.embeddings: {self._path} cannot be fully used ({problem}), so texts are embedded again each "
                "time; free its disk, make it writable, or move it away to start a new one",
                stacklevel=2,
            )

    def close(self) -> None:
        with self._lock:
            self._drop()
        if close := getattr(self._embedder, "close", None):
            close()


class ReplayEmbedder:
    """Vectors from the embedding cache `path`, opened at first use. Thread-safe.

    Raises ModelError: at first use: the file cannot be read, has no such embedder, or lacks a text. `fingerprint`:
    selects an embedder where the file has several; "": the only one. `query_prefix`, `document_prefix`: as recorded;
    None: the model's own prompt, or none.
    """

    def __init__(self, path: str | Path, fingerprint: str = "", **prefixes: str | None) -> None:
        given = {kind: prefixes.get(f"{kind}_prefix") for kind in MARKS}
        self.prefixes = {kind: MARKS[kind] if text is None else text for kind, text in given.items()}
        self.path = Path(path)
        self._wanted = fingerprint
        self._database = _database(self.path, readonly=True, error=ModelError)

    @cached_property
    def fingerprint(self) -> str:
        column = EMBEDDINGS.c.fingerprint
        recorded = [str(name) for (name,) in self._database.selected(select(column).distinct().order_by(column))]
        if self._wanted in recorded:
            return self._wanted
        if len(recorded) == 1 and not self._wanted:
            return recorded[0]
        wanted = f"none of {self._wanted}" if self._wanted else "no single embedder's"
        raise ModelError(f"{self.path} holds vectors of {', '.join(recorded) or 'no embedder'}, {wanted}")

    @cached_property
    def dimensions(self) -> int:
        statement = select(EMBEDDINGS.c.vector).where(EMBEDDINGS.c.fingerprint == self.fingerprint).limit(1)
        return len(self._database.selected(statement)[0][0]) // 4

    def embed(self, texts: Sequence[str], kind: TextKind = "document") -> Float32s:
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors, prefix = [], self.prefixes[kind]
        prefixes = [prefix, ""] if prefix == MARKS[kind] else [prefix]
        for text in texts:
            beginning, digests = f"the text that begins {text[:80]!r}", [_digest(prefix + text) for prefix in prefixes]
            stored = _stored(self._database, self.fingerprint, digests)
            if not stored:
                raise ModelError(f"{self.path} holds no vector of {beginning}")
            if (vector := next(stored[digest] for digest in digests if digest in stored)) is None:
                raise ModelError(f"{self.path}: the vector of {beginning} is damaged; record it again")
            vectors.append(vector)
        return _matrix(vectors)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _database(path: Path, readonly: bool, error: type[LabError] = StoreError) -> Database:
    return Database(path, [EMBEDDINGS], "cache.embeddings", readonly=readonly, error=error)


def _stored(database: Database, fingerprint: str, digests: Collection[bytes]) -> dict[bytes, bytes | None]:
    """Stored vectors by digest; None for one that is damaged or not finite."""
    columns = EMBEDDINGS.c
    statement = select(columns.digest, columns.vector, columns.checksum)
    rows = database.selected(statement.where(columns.fingerprint == fingerprint, columns.digest.in_(digests)))
    return {
        digest: vector if zlib.crc32(vector) == checksum and np.isfinite(np.frombuffer(vector, "<f4")).all() else None
        for digest, vector, checksum in rows
    }


def _matrix(vectors: Sequence[bytes]) -> Float32s:
    """One row per vector, writable."""
    return np.frombuffer(bytearray().join(vectors), "<f4").reshape(len(vectors), -1).astype(np.float32, copy=False)
