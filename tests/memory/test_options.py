"""Invalid options of memories, recall policies, curators, retrievers and embedders are named."""

import math
from functools import partial

import pytest

from reflexion_lab.memory.archive import Archive, Shown
from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.memory.curators.a_mem import AMem
from reflexion_lab.memory.curators.reasoning_bank import ReasoningBank
from reflexion_lab.memory.embedders.minilm import MiniLM
from reflexion_lab.memory.embedders.openai import OpenAIEmbedder
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer
from reflexion_lab.memory.lessons.mistakes import Mistakes
from reflexion_lab.memory.lessons.wisdom import WisdomBook
from reflexion_lab.memory.recall import Similar, Window, WindowThenSimilar
from reflexion_lab.memory.retrieval.bm25 import BM25
from reflexion_lab.memory.retrieval.hybrid import Hybrid
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.memory.retrieval.tfidf import TfIdf
from reflexion_lab.records import Sampling
from reflexion_lab.storage.in_memory import InMemory

ARCHIVE, MISTAKES = partial(Archive, InMemory(), Jaccard), partial(Mistakes, Jaccard())
BOOK, HYBRID = partial(WisdomBook, Jaccard()), partial(Hybrid, [BM25(), Jaccard()])
OPTIONS = [
    (ARCHIVE, "shown", (Shown(min_score=2.0),), r"Shown\.min_score: got 2\.0, expected 0 to 1"),
    (ARCHIVE, "shown", (Shown(wisdom=-1),), r"Shown\.wisdom: got -1, expected 0 or more"),
    (ARCHIVE, "shown", (Shown(max_tokens=-1),), r"Shown\.max_tokens: got -1"),
    (ARCHIVE, "match", ("tsk",), r"Archive\.{}: got 'tsk', expected one of task, task_error"),
    (EpisodeBuffer, "max_episodes", ("5", 2.5, None, True), r"EpisodeBuffer\.{}"),
    (MISTAKES, "max_entries", (0, -1, 2.5, True), r"Mistakes\.{}"),
    (MISTAKES, "threshold", (1.5, -0.1, math.nan, "0.5"), r"Mistakes\.{}"),
    (BOOK, "retire_after", (0,), r"WisdomBook\.{}: got 0"), (BOOK, "retire_below", (1.5,), r"WisdomBook\.{}: got 1\.5"),
    (Window, "omega", (-1, 1.5, "some", True, None), r"Window\.{}: .* expected an int of 0 or more, or one of all"),
    (Window, "max_tokens", (-1,), r"Window\.{}: got -1"), (Similar, "k", (-1,), r"Similar\.{}: got -1"),
    (Similar, "min_score", (1.5,), r"Similar\.{}: got 1\.5"),
    (WindowThenSimilar, "omega", (-2,), r"WindowThenSimilar\.{}: got -2"),
    (Jaccard, "min_length", (0,), r"Jaccard\.{}"), (TfIdf, "min_length", (-1,), r"TfIdf\.{}"),
    (BM25, "k1", (-0.1, math.nan, math.inf), r"BM25\.{}"), (BM25, "b", (1.5, math.nan), r"BM25\.{}"),
    (Hybrid, "retrievers", ([BM25()],), r"Hybrid\.{}"), (HYBRID, "depth", (0,), r"Hybrid\.{}"),
    (HYBRID, "constant", (-1, math.nan), r"Hybrid\.{}"),
    (partial(AMem, Jaccard(), None, Sampling()), "neighbours", (10,), "{}"),
    (partial(ReasoningBank, Jaccard(), None, Sampling()), "scaling", ("both",), "{}"),
    (MiniLM, "threads", (-1,), r"MiniLM\.{}: got -1, expected"),
    (SentenceTransformer, "batch_size", (0,), r"SentenceTransformer\.{}: got 0, expected 1 or more, or null"),
    (SentenceTransformer, "dtype", ("int8",), r"SentenceTransformer\.{}: got 'int8', expected one of float32"),
    (partial(OpenAIEmbedder, "small"), "base_url", ("http://",), r"embedder\.{}: got 'http://'"),
]  # fmt: skip


def test_an_invalid_option_is_named():
    for make, option, values, message in OPTIONS:
        for value in values:
            with pytest.raises(ValueError, match=message.format(option)):
                make(**{option: value})
