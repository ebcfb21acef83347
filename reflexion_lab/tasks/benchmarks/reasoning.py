"""Questions from the generators of reasoning-gym (Stojanovski et al., arXiv 2505.24760), with their own scorers."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from reflexion_lab.errors import ConfigError, HarnessError
from reflexion_lab.limits import Count, Tasks, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.text.replies.answers import extract_answer, is_plain, is_symbolic

_REASONS = {
    "its scorer evaluates the text of an answer (eval, parse_expr), which is the model's": "binary_matrix n_queens"
    " puzzle24 bitwise_arithmetic countdown intermediate_integration number_sorting polynomial_multiplication"
    " simple_integration spiral_matrix string_insertion",
    "its scorer needs unbounded time for an answer such as 1e99999999": "coin_flip",
    "its scorer accepts nan for any right answer": "complex_arithmetic",
    "its scorer accepts any text where the right answer is False": "game_of_life_halting",
    "its scorer rejects the right answer after a round through JSON": "arc_agi rearc",
    "it stores no right answer": "boxnet graph_color propositional_logic rubiks_cube rush_hour",
    "its questions depend on how many are drawn": "acre",
    "a seed does not repeat in a new process": "isomorphic_strings knight_swap list_functions ransom_note word_ladder",
    "its generator executes code": "codeio",
    "it only combines others; give `families` instead": "composite",
}
REFUSED = {name: why for why, names in _REASONS.items() for name in names.split()}
"""Generators of reasoning-gym 0.1.25 that are not admitted, with the reason; tests look for it in the other 77."""
TRIES = 20
"""Questions that are drawn for each that is wanted, until there are as many different ones."""


@validated
def reasoning(
    families: Sequence[str] = ("basic_arithmetic",),
    n: Tasks = 40,
    seed: Count = 0,
    difficulty: Mapping[str, Mapping[str, Any]] | None = None,
) -> Benchmark:
    """`n` different questions, in turn of each of the `families`; a larger `n` begins with the same ones.

    `difficulty`: by family, values of its generator's config. The right answer passes: it is scored as the judge will.
    A task's cluster is its family. `data["is_number"]` says whether the right answer is a number, `data["has_lines"]`
    whether it has several lines. Raises ConfigError: a family is unknown, not admitted (`REFUSED`) or has too few
    questions, a value of its config is refused, or reasoning-gym is not installed.
    """
    if not families or len({*families}) < len(families):
        raise ConfigError("benchmark.load.families", list(families), "one or several different families")
    if strange := sorted({*(difficulty or {})} - {*families}):
        raise ConfigError("benchmark.load.difficulty", strange, f"some of {', '.join(families)}")
    shares = [len(range(at, n, len(families))) for at in range(len(families))]
    tasks = {
        family: _tasks(family, share, seed, {**(difficulty or {}).get(family, {})})
        for family, share in zip(families, shares, strict=True)
        if share
    }
    return Benchmark("reasoning", tuple(tasks[families[i % len(families)]][i // len(families)] for i in range(n)))


def _tasks(family: str, n: int, seed: int, config: dict[str, Any]) -> list[Task]:
    # Item i of a generator has the seed `seed + i`: seeds next to each other would give the same questions.
    own_seed = int(hashlib.sha256(f"{seed}:{family}".encode()).hexdigest()[:7], 16)
    data, tasks = _generator(family, own_seed, n * TRIES, json.dumps(config)), dict[str, Task]()
    for number in range(n * TRIES):
        with contextlib.redirect_stdout(io.StringIO()):  # some generators print
            entry = data[number]
        task = _task(family, number, seed, config, entry)
        tasks.setdefault(task.prompt, task)
        if len(tasks) == n:
            break
    else:
        raise ConfigError("benchmark.load.n", n, f"{len(tasks)} or fewer of {family}, or another difficulty")
    return [*tasks.values()]


def _task(family: str, number: int, seed: int, config: dict[str, Any], entry: dict[str, Any]) -> Task:
    check = {"rule": "scorer", "family": family, "config": config, "version": _version(), "entry": entry}
    text = json.dumps(check, ensure_ascii=False, default=str)  # the metadata of a few holds fractions
    answer = entry["answer"]
    task = Task(
        task_id=f"reasoning/{family}/{seed}/{number}",
        prompt=entry["question"],
        entry_point="",
        kind="answer",
        data={"is_number": is_plain(answer)}
        | ({"is_symbolic": True} if is_symbolic(answer) else {})
        | ({"has_lines": True} if "\n" in answer.strip() else {}),
        hidden_tests=(text,),
        canonical_solution=answer,
        tags=("reasoning", family),
        cluster=f"reasoning/{family}",
    )
    if score(json.loads(text), extract_answer(f"Answer:\n{answer}", task).program) != 1.0:
        raise HarnessError(f"{task.task_id}: the scorer of reasoning-gym {_version()} rejects its own right answer")
    return task


def score(check: Mapping[str, Any], answer: str) -> float:
    """The score of `answer` by its family's scorer, in [0, 1]; 0.0 if the scorer raises, since it accepted the right
    answer when the task was drawn. Raises HarnessError: reasoning-gym is not installed.
    """
    try:
        scorer = _generator(check["family"], 0, 1, json.dumps(check["config"]))
    except ConfigError as problem:
        raise HarnessError(str(problem)) from problem
    try:
        return float(scorer.score_answer(answer, check["entry"]))
    except (Exception, RecursionError):  # of any type: the answer is a model's text
        return 0.0


@lru_cache(maxsize=256)
def _generator(family: str, seed: int, size: int, config: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package that it imports
            import reasoning_gym
            from reasoning_gym.factory import DATASETS
    except ImportError:
        expected = "reasoning-gym: pip install 'reflexion-lab[worlds]'"
        raise ConfigError("benchmark=reasoning", "no package reasoning-gym", expected) from None
    if family in REFUSED or family not in DATASETS:
        admitted = ", ".join(sorted(DATASETS.keys() - REFUSED.keys()))
        got = f"{family}: {REFUSED.get(family, 'unknown')}"
        raise ConfigError("benchmark.load.families", got, f"some of {admitted}")
    try:
        return reasoning_gym.create_dataset(family, seed=seed, size=size, **json.loads(config))
    except (AssertionError, TypeError, ValueError) as problem:
        names = ", ".join(sorted(DATASETS[family][1].__dataclass_fields__))
        got = f"{config} ({problem})"
        raise ConfigError(
            f"benchmark.load.difficulty.{family}", got, f"values that its config takes: {names}"
        ) from None


def _version() -> str:
    return importlib.metadata.version("reasoning-gym")
