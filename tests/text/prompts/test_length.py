"""The estimate of a text's length, against the tokenizer of a real model."""

import gzip
import json
import random
from itertools import pairwise

import pytest

from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
from reflexion_lab.records import Message, Sampling
from reflexion_lab.text.shorten import estimated

FIELDS = ("code", "raw", "feedback", "reflection")
WHITE = [
    " " * 30_000, "\n" * 2000, "\t" * 5000, "\n \n" * 900, "x\n" + " \t" * 200 + "y", "  \r\n" * 300, "\x0b\x0c " * 90,
]  # fmt: skip


@pytest.fixture(scope="module")
def count():
    # With a context this short it refuses a text and says how many tokens it has, without reading it.
    model = LlamaCppModel(slots=1, threads=1, context=256)

    def counted(text):
        reply = model.complete([Message(role="assistant", content=text)], sampling=Sampling(max_tokens=1))
        assert reply.finish_reason == "context_overflow", f"too short to be counted: {text[:50]!r}"
        return reply.refused_tokens

    return counted


def test_no_recorded_text_is_longer_than_estimated(recorded_runs, count):
    draw, texts = random.Random("lengths"), []
    for path in sorted((recorded_runs / "transcripts").glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            rows = [json.loads(line) for line in file]
        items = [attempt[field] for row in rows for attempt in row["attempts"] for field in FIELDS if field in attempt]
        texts += sampled(draw, [text for text in items if isinstance(text, str) and 1200 < len(text) < 4000])
    assert len(texts) >= 200
    ratios = [estimated(text) / count(text) for text in texts]
    assert min(ratios) >= 1
    assert sorted(ratios)[len(ratios) // 2] < 1.6


@pytest.mark.parametrize("text", WHITE, ids=range(len(WHITE)))
def test_white_space_is_not_free(text, count):
    assert estimated(text) >= count(text) * 0.99


def test_an_estimate_grows_with_its_text_and_never_fails():
    estimates = {"": 0, "word": 1, "words": 2, "WORD": 2, "a b": 2, "数": 2, "λ": 1, "\ud800": 1, "\0": 1}
    assert {text: estimated(text) for text in estimates} == estimates
    text = "def f(x):\n    return {x: 'λ'}\t\n" * 3
    sizes = [estimated(text[:size]) for size in range(len(text))]
    assert all(later >= earlier - 1 for earlier, later in pairwise(sizes))


def sampled(draw, texts, most=50):
    return draw.sample(texts, min(most, len(texts)))
