"""Records for tests: a call names what matters to it, the rest has a plain default. And cases: `pairwise`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import msgspec
import yaml

from reflexion_lab import records
from reflexion_lab.analysis.summary import canonical_form

TABLES = yaml.safe_load((Path(__file__).parent / "tables.yaml").read_text(encoding="utf-8"))
ADD = "def add(a, b):\n    return a - b\n"
STUDY = Path(__file__).parents[1] / "experiments" / "memory_methods"
FAMILIES = (f"hydra.searchpath=[file://{STUDY}/conf]", "benchmark=families", "model=family_student")
"""A stream of tasks whose rules only memory of earlier tasks can tell, and its simulated student."""
"""The program of an attempt, wrong in its second line."""


def evaluation(*checks: records.Check, **fields: Any) -> records.Evaluation:
    """By default passed where there are checks and all of them did."""
    passed = fields.get("passed", bool(checks) and all(check.outcome == "pass" for check in checks))
    given = {"passed": passed, "outcome": "pass" if passed else "fail", "reward": float(passed), "checks": checks}
    return records.Evaluation(**given | fields)


def trajectory(solution: str = ADD, **fields: Any) -> records.Trajectory:
    return records.Trajectory(**{"solution": solution, "strategy": "single_shot"} | fields)


def attempt(
    *checks: records.Check, judged: dict[str, Any] | None = None, acted: dict[str, Any] | None = None, **fields: Any
) -> records.Attempt:
    """`judged` and `acted`: fields of its evaluation and of its trajectory."""
    return records.Attempt(
        **{
            "task_id": "t/1",
            "number": 1,
            "recalled": (),
            "trajectory": trajectory(**acted or {}),
            "evaluation": evaluation(*checks, **judged or {}),
            "memory": records.MemoryState(capacity=1, size=0, in_context=0, total=0),
        }
        | fields
    )


def reflection(number: int = 1, **fields: Any) -> records.Reflection:
    """On attempt `number`, which its texts name."""
    return records.Reflection(
        **{
            "reflection_id": f"t/1#{number}",
            "about_attempt": number,
            "root_cause": f"cause {number}",
            "what_went_wrong": f"wrong {number}",
            "what_to_change": f"change {number}",
            "confidence": 0.5,
            "source": "llm",
        }
        | fields
    )


def episode(number: int = 1, **fields: Any) -> records.Episode:
    """A failed attempt `number` with a reflection."""
    return records.Episode(
        **{
            "episode_id": f"ep-{number}",
            "agent_id": "actor",
            "task_id": "t/1",
            "attempt_number": number,
            "code": "",
            "test_results": "",
            "reflection": reflection(number),
            "passed": False,
        }
        | fields
    )


def grade(task_id: str = "t/1", number: int = 1, passed: bool = False, sealed: bool = False) -> records.Grade:
    """The hidden verdict of one test."""
    return records.Grade(
        task_id=task_id,
        number=number,
        passed=passed,
        outcome="pass" if passed else "fail",
        checks_passed=int(passed),
        checks_total=1,
        sealed=sealed,
    )


def manifest(run_id: str, **fields: Any) -> records.Manifest:
    empty = dict.fromkeys(("created_at", "config_digest", "git_commit", "benchmark_digest", "model_fingerprint"), "")
    return records.Manifest(
        **empty
        | {
            "run_id": run_id,
            "seed": 0,
            "config": {},
            "dirty": False,
            "package_versions": {},
            "benchmark": "b",
            "n_expected": 1,
            "prompt_digests": {},
            "slots": 1,
            "feedback_source": "visible",
            "isolation": (),
        }
        | fields
    )


class Replies:
    """A model that gives one reply to every call, or raises it; `asked` has messages, sampling and draw of each."""

    fingerprint = "replies"
    slots = 1

    def __init__(self, reply: str | BaseException, context: int = 0, **fields: Any) -> None:
        self.reply = reply
        self.context = context
        self.fields = fields
        self.requests: list[tuple[tuple[records.Message, ...], records.Sampling, int]] = []

    def complete(self, messages: Any, *, sampling: records.Sampling, sample: int = 0) -> records.Completion:
        self.requests.append((tuple(messages), sampling, sample))
        if isinstance(self.reply, BaseException):
            raise self.reply
        return records.Completion(text=self.reply, model="replies", **self.fields)

    @property
    def prompt(self) -> str:
        """The last message of the last call."""
        return self.requests[-1][0][-1].content


def says(text: str) -> list[records.Message]:
    """A chat of one message."""
    return [records.Message(role="user", content=text)]


def pairwise(*factors: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Cases, one value a factor, in which every two values of different factors meet: far fewer than the product."""
    cases = list(product(*(range(len(values)) for values in factors)))
    missing = {pair for case in cases for pair in combinations(enumerate(case), 2)}
    while missing:
        case = max(cases, key=lambda case: len(missing.intersection(combinations(enumerate(case), 2))))
        missing.difference_update(combinations(enumerate(case), 2))
        yield tuple(values[place] for values, place in zip(factors, case, strict=True))


def scripted(folder: Path, *rules: dict[str, Any], reply: str = "\n    return 0\n") -> list[str]:
    """Overrides for a scripted model: `rules`, and else `reply`."""
    script = folder / "script.json"
    script.write_text(json.dumps([*rules, {"when": "", "scope": "conversation", "reply": reply}]))
    return ["model=scripted", f"model.path={script}"]


def runner(
    tasks: Sequence[records.Task],
    sandbox: Any,
    folder: Any,
    model: Any,
    *,
    source: str = "visible",
    workers: int = 1,
    attempts: int = 3,
    reflector: Any = None,
    suite_writer: Callable[[], Any] | None = None,
) -> Any:
    """A `Runner` of plain loops in the run folder `folder`, without a config."""
    from reflexion_lab.agent.actors.single_shot import SingleShot
    from reflexion_lab.agent.reflectors.rules import Rules
    from reflexion_lab.loop.reflexion import Reflexion
    from reflexion_lab.loop.stop import FirstOf, MaxAttempts, NoFeedback, Passed
    from reflexion_lab.memory.episodic import EpisodicMemory
    from reflexion_lab.memory.recall import Window
    from reflexion_lab.runner.folder.manifest import new_manifest
    from reflexion_lab.runner.runner import Runner
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
    from reflexion_lab.tasks.evaluators.judge import HiddenTests
    from reflexion_lab.tasks.evaluators.unit_tests import UnitTests

    def loop() -> Reflexion:
        return Reflexion(
            actor=SingleShot(model, records.Sampling()),
            evaluator=UnitTests(sandbox),
            reflector=reflector or Rules(),
            memory=EpisodicMemory(Window(1)),
            stop=FirstOf(NoFeedback(), Passed(), MaxAttempts(attempts)),
        )

    if not (folder.path / "manifest.json").exists():
        config = {"arm": "test", "seed": 0, "feedback_source": source}
        folder.write_manifest(new_manifest(config, Benchmark("own", tuple(tasks)), {"actor": model}, sandbox.layers))
    return Runner(
        tasks=tasks,
        loop=loop,
        judge=HiddenTests(sandbox),
        folder=folder,
        feedback_source=source,
        workers=workers,
        quiet=True,
        suite_writer=suite_writer,
    )


def canonical_bytes(log):
    """The canonical form of a run as JSON lines, one per task; equal forms are equal bytes."""
    lines = ({"task_id": task_id, **form} for task_id, form in canonical_form(log).items())
    return b"".join(msgspec.json.encode(line, order="deterministic") + b"\n" for line in lines)
