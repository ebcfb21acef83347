"""The embedding cache: equal texts are embedded once, and a broken file costs time, never a vector."""

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import warnings
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from own_server import not_root, open_folder

import reflexion_lab
from reflexion_lab.errors import ModelError
from reflexion_lab.memory.embedders.cached import CHUNK, CachedEmbedder, ReplayEmbedder

TEXTS = [f"text {number}" for number in range(20)]


class Hashed:
    """Unit vectors drawn from a text's hash; keeps what it was asked."""

    dimensions = 8

    def __init__(self, fingerprint="hashed"):
        self.fingerprint = fingerprint
        self.batches = []

    def embed(self, texts, kind="document"):
        self.batches.append(list(texts))
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            seed = hashlib.sha256(f"{self.fingerprint}:{text}".encode(errors="surrogatepass")).digest()
            vectors[row] = np.random.default_rng(list(seed)).standard_normal(self.dimensions)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "embeddings.sqlite"


@pytest.fixture
def hashed():
    return Hashed()


@pytest.fixture
def cached(hashed, path):
    cache = CachedEmbedder(hashed, path)
    yield cache
    cache.close()


def right(texts, fingerprint="hashed"):
    return Hashed(fingerprint).embed(texts)


def reopened(path):
    return CachedEmbedder(Hashed(), path)


def test_a_text_is_embedded_once_and_its_row_may_be_written_to_without_harm(hashed, cached):
    first = cached.embed(TEXTS)
    assert np.array_equal(cached.embed(TEXTS), first)
    assert np.array_equal(first, right(TEXTS))
    assert hashed.batches == [TEXTS]
    assert (cached.hits, cached.misses) == (len(TEXTS), len(TEXTS))
    rows = cached.embed(TEXTS)
    rows[:] = 0
    assert np.array_equal(cached.embed(TEXTS), right(TEXTS))


MANY = [f"{number % (CHUNK + 7)}" for number in range(2 * CHUNK + 50)]
ALIKE = ["", " ", "a", "A", "a ", "\ud800", "?", "\u00e9", "e\u0301"]


@pytest.mark.parametrize(
    ("known", "texts", "asked"),
    [
        (["b", "d"], ["a", "b", "c", "a", "d", "c", "a"], [["b", "d"], ["a", "c"]]), (ALIKE, ALIKE, [ALIKE]),
        ([], MANY, [MANY[:CHUNK], MANY[CHUNK : CHUNK + 7]]),
    ],
    ids=["in one batch each once", "that differ in one character", "more than a chunk"],
)  # fmt: skip
def test_unknown_texts_are_embedded_and_all_come_back_in_order(hashed, cached, known, texts, asked):
    cached.embed(known)
    assert np.array_equal(cached.embed(texts), right(texts))
    assert [batch for batch in hashed.batches if batch] == asked


def test_known_texts_do_not_load_any_weights(path):
    reopened(path).embed(TEXTS)

    class Unloaded:
        fingerprint = "hashed"

        @property
        def dimensions(self):
            raise AssertionError("the weights were loaded")

        def embed(self, texts, kind="document"):
            raise AssertionError("the weights were loaded")

    assert np.array_equal(CachedEmbedder(Unloaded(), path).embed(TEXTS), right(TEXTS))


def test_embedders_share_a_file_without_mixing(path):
    for fingerprint in ("one", "other", "one"):
        rows = CachedEmbedder(Hashed(fingerprint), path).embed(TEXTS)
        assert np.array_equal(rows, right(TEXTS, fingerprint))


def test_a_cache_without_a_file_still_embeds(hashed, cached, path):
    without = CachedEmbedder(hashed, None)
    for _ in range(2):
        assert np.array_equal(without.embed(TEXTS), right(TEXTS))
    assert not path.parent.exists()
    cached.embed(TEXTS)
    cached.close()
    assert np.array_equal(cached.embed(TEXTS), right(TEXTS))
    assert hashed.batches == [TEXTS] * 4


PROLOGUE = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_cached import CachedEmbedder, Hashed, TEXTS
embedder = CachedEmbedder(Hashed(), sys.argv[1])
"""


def start(script, path):
    folders = (Path(reflexion_lab.__file__).parents[1], Path(__file__).parents[2] / "shared")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", PROLOGUE + script, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_what_was_embedded_survives_a_killed_process(path):
    with start("embedder.embed(TEXTS); print('done', flush=True); sys.stdin.read()", path) as process:
        assert process.stdout.readline() == "done\n"
        os.kill(process.pid, signal.SIGKILL)
    cached = reopened(path)
    assert np.array_equal(cached.embed(TEXTS), right(TEXTS))
    assert (cached.hits, cached.misses) == (len(TEXTS), 0)


def test_processes_that_open_a_new_file_at_once_share_it(path):
    script = "sys.stdin.readline(); embedder.embed(TEXTS[int(sys.stdin.readline()):]); print('done', flush=True)"
    processes = [start(script, path) for _ in range(3)]
    for number, process in enumerate(processes):
        process.stdin.write(f"go\n{5 * number}\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["done\n"] * 3
    cached = reopened(path)
    assert np.array_equal(cached.embed(TEXTS), right(TEXTS))
    assert cached.misses == 0


def warned(cached, times=3):
    """What it warned of, over several calls that all answered rightly."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            assert np.array_equal(cached.embed(TEXTS), right(TEXTS))
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_costs_one_warning_and_is_left_alone(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    (message,) = warned(reopened(path))
    assert str(path) in message
    assert "move it away" in message
    assert path.read_bytes() == content


def test_a_file_that_tears_while_it_is_open_costs_one_warning(cached, path):
    cached.embed(TEXTS)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("DROP TABLE embeddings")
    (message,) = warned(cached)
    assert "no such table" in message


def test_another_file_or_no_folder_costs_one_warning(path, tmp_path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE embeddings (mine TEXT)")
    (message,) = warned(reopened(path))
    assert "another version of reflexion_lab or program" in message
    (tmp_path / "file").write_text("")
    assert len(warned(reopened(tmp_path / "file" / "embeddings.sqlite"))) == 1


@pytest.mark.parametrize("damage", ["zeroblob(32)", "zeroblob(3)", "x''", "'text'"])
def test_a_damaged_vector_is_embedded_and_stored_again(path, damage):
    reopened(path).embed(TEXTS)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"UPDATE embeddings SET vector = CAST({damage} AS BLOB) WHERE rowid <= 5")
    first, second = reopened(path), reopened(path)
    assert np.array_equal(first.embed(TEXTS), right(TEXTS))
    assert np.array_equal(second.embed(TEXTS), right(TEXTS))
    assert (first.misses, second.misses) == (5, 0)


def test_a_read_only_file_is_read_at_the_cost_of_one_warning():
    with tempfile.TemporaryDirectory(dir=open_folder()) as name:
        path = Path(name) / "embeddings.sqlite"
        filled = reopened(path)
        filled.embed(TEXTS[:5])
        filled.close()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        with not_root():
            cached = reopened(path)
            messages = warned(cached)
            cached.close()
        path.parent.chmod(0o755)
    assert len(messages) == 1
    assert cached.hits == 3 * 5


def test_a_full_disk_costs_one_warning_and_what_is_kept_is_still_read(cached, path):
    cached.embed(TEXTS[:5])
    # SQLite's own bound on a file's size fails as a full disk does.
    cached._database._one.cursor().execute("PRAGMA max_page_count = 1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        many = [f"{'long ' * 10}{number}" for number in range(500)]
        for _ in range(2):
            assert np.array_equal(cached.embed(many), right(many))
    assert len(caught) == 1
    assert "full" in str(caught[0].message)
    before = cached.hits
    assert np.array_equal(cached.embed(TEXTS[:5]), right(TEXTS[:5]))
    assert cached.hits == before + 5


def test_a_replay_returns_recorded_vectors_names_damaged_ones_and_creates_no_file(tmp_path):
    path = tmp_path / "embeddings.sqlite"
    vectors = CachedEmbedder(Hashed(), path).embed(TEXTS)
    replay = ReplayEmbedder(path)
    assert replay.embed([]).shape == (0, 8)
    assert (replay.embed(TEXTS) == vectors).all()
    cached = CachedEmbedder(replay, None)
    cached.close()
    assert (cached.embed(TEXTS) == vectors).all(), "a closed recording is opened again"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE embeddings SET vector = zeroblob(32)")
    with pytest.raises(ModelError, match="'text 3' is damaged"):
        replay.embed(TEXTS[3:])
    path = tmp_path / "absent.sqlite"
    with pytest.raises(ModelError):
        _ = ReplayEmbedder(path).fingerprint
    assert not path.exists()


def test_a_vector_that_is_not_finite_is_an_error_and_never_stored(hashed, path):
    whole = hashed.embed
    hashed.embed = lambda texts, kind: whole(texts) / [[text != "bad"] for text in texts]
    for cached in (CachedEmbedder(hashed, path), CachedEmbedder(hashed, None)):
        with np.errstate(all="ignore"), pytest.raises(ModelError, match=r"'bad' has numbers that are not finite"):
            cached.embed(["good", "bad"])
    reopened(path).embed(["bad"])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        nan = np.full(8, np.nan, "<f4").tobytes()
        assert other.execute("UPDATE embeddings SET vector = ?, checksum = ?", (nan, zlib.crc32(nan))).rowcount == 1
    with pytest.raises(ModelError, match="'bad' is damaged"):
        ReplayEmbedder(path).embed(["bad"])
    assert np.array_equal(reopened(path).embed(["bad"]), right(["bad"]))


def test_a_batch_of_an_embedder_is_stored_before_the_next_and_widths_never_mix(hashed, path, cached):
    hashed.batch_size = 8
    hashed.embed = lambda texts, kind: Hashed.embed(hashed, texts) if len(texts) == 8 else 1 / 0
    with pytest.raises(ZeroDivisionError):
        cached.embed(TEXTS)
    assert reopened(path).embed(TEXTS[:16]).shape == (16, 8)
    hashed.embed = lambda texts, kind: np.ones((len(texts), 4), np.float32)
    with pytest.raises(ModelError, match=r"different widths, \[4, 8\]; .* start a new cache\.embeddings"):
        cached.embed(TEXTS)
