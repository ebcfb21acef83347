"""Records of a recorded run: its manifest, and its attempts as far as they are recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from reflexion_lab.agent.reflectors.fields import Fields, ParseError, parse_fields
from reflexion_lab.audit.importing import Recording
from reflexion_lab.audit.samples import IMPORTS, completed
from reflexion_lab.audit.stored_programs import LIMITS
from reflexion_lab.audit.transcripts import Step, Transcript
from reflexion_lab.loop.reflexion import delta
from reflexion_lab.loop.selection import best_of, submitted_at
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import (
    Attempt,
    Evaluation,
    Manifest,
    MemoryState,
    Message,
    Reflection,
    Task,
    TaskResult,
    Trajectory,
    Usage,
)
from reflexion_lab.runner.folder.manifest import config_digest, git_state, named, provenance, versions
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.sandbox.cached import VERSION
from reflexion_lab.text.replies.syntax import Parser


class Terms(NamedTuple):
    """Settings of the execution of a recording."""

    benchmark: Benchmark
    load: dict[str, object]
    """Config that loads the benchmark."""
    hidden: str
    """Source of the hidden tests: `own` (of the rows) or `humaneval`."""
    lenient: bool
    """Whether the judge adds usual imports and prompts to programs, and loops run as the source's did."""
    prompts: Prompts
    cut: int | None = None
    """Maximum attempts of each loop; None for all."""
    longest: int = 0
    """Attempts of the longest loop of all runs of the variant."""

    def verdict(self, recording: Recording) -> str:
        """Field of the recorded verdict of the same hidden tests."""
        is_own = self.hidden == "own" or not recording.has_tests
        return f"{'own' if is_own else 'he'}_{'lenient' if self.lenient else 'pass'}"


def recording_manifest(recording: Recording, terms: Terms, executor: Sandbox) -> Manifest:
    """Manifest of the run, with commit and versions of the import."""
    config = _config(recording, terms)
    commit, dirty = git_state()
    known = {task.task_id for task in terms.benchmark}
    how = ("" if terms.lenient else "-strict") + (f"-a{terms.cut}" if terms.cut else "")
    arm, benchmark = named(recording.known.arm), named(terms.benchmark.name)  # the arm is foreign text
    source = recording.source.partition(" (")[0]  # without its remarks
    return Manifest(
        run_id=f"recorded-{arm}-{recording.label}-{benchmark}{how}-s{recording.seed}",
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        seed=recording.seed,
        config=config,
        config_digest=config_digest(config),
        git_commit=commit,
        dirty=dirty,
        package_versions=versions(),
        benchmark=terms.benchmark.name,
        benchmark_digest=terms.benchmark.digest,
        n_expected=sum(loop.task_id in known for loop in recording.loops),
        prompt_digests={},
        model_fingerprint=f"recorded:{source}/{'+'.join(recording.models)}",
        slots=0,
        feedback_source=recording.known.feedback_source,
        isolation=tuple(executor.layers),
        provenance=provenance(config, sandbox_version=VERSION),
    )


def _not_recorded(recording: Recording, terms: Terms) -> list[str]:
    steps = [step for loop in recording.loops for step in loop.steps]
    has = {name for step in steps for name, value in step.fields.items() if value is not None}
    missing = {
        "sampling seed": True,
        "slots": True,
        "what memory recalled": recording.known.feedback_source != "none",
        "prompts": "prompt_key" not in has or not terms.prompts,
        "replies": "raw" not in has,
        "temperature": "temperature" not in has,
        "tokens of the actor": "prompt_tokens" not in has,
        "seconds of the actor": "latency_s" not in has,
        "tokens of reflections": "reflection" in has,
        "calls and tokens of written tests": recording.known.feedback_source == "self_tests",
        "calls": not recording.known.calls,
    }
    return [name for name, is_missing in missing.items() if is_missing]


def _config(recording: Recording, terms: Terms) -> dict[str, object]:
    known = recording.known
    return {
        "arm": known.arm,
        "seed": recording.seed,
        "feedback_source": known.feedback_source,
        "loop": {"max_attempts": terms.longest},
        "benchmark": {"name": terms.benchmark.name, "load": terms.load, "ids": None, "sample": None, "limit": None},
        "sandbox": {"limits": msgspec.to_builtins(LIMITS)},
        "recorded": {
            "source": recording.source,
            "file": recording.file,
            "file_digest": recording.file_digest,
            "variant": recording.variant,
            "strategy": recording.strategy,
            "models": list(recording.models),
            "hidden_tests": terms.hidden,
            "lenient": terms.lenient,
            "cut": terms.cut,
            "not_recorded": _not_recorded(recording, terms),
        },
    }


Prompts = Mapping[str, tuple[Message, ...]]
"""Messages by the `prompt_key` of an attempt."""

NO_MEMORY = MemoryState(capacity=0, size=0, in_context=0, total=0)
"""Memory is not recorded."""


def program(step: Step, task: Task) -> tuple[str, str]:
    """The program that the recording judged, and its extraction; ("", "") without one.

    It is `code`, a whole program; without it, the reply, which completes the prompt if that is code.
    """
    code, raw = step.code, step.raw
    if code.strip():
        return code, "recorded"
    if not raw.strip():
        return "", ""
    whole = _behind(task, raw)
    return whole, "recorded: reply" if whole == raw else "recorded: prompt + reply"


def lenient(program: str, task: Task) -> str:
    """`program` with the usual imports and the prompt before it, as for recorded lenient verdicts; "" stays "".

    A prompt in prose is left out.
    """
    return IMPORTS + _behind(task, program) if program.strip() else ""


def _behind(task: Task, code: str) -> str:
    """`code` after the prompt; without the prompt if that would be a syntax error, as for prose."""
    whole, parser = completed(task.prompt, code), Parser()
    return code if parser.parse(whole) is None and parser.parse(code) is not None else whole


def as_tried(recording: Recording, program: str, task: Task) -> str:
    """The program as its loop executed it.

    Loops with the task's tests had its prompt, loops with self-written tests only imports. Feedback computed afterwards
    was computed on the recorded program.
    """
    if recording.is_recomputed or not program.strip():
        return program
    return lenient(program, task) if recording.known.feedback_source == "visible" else IMPORTS + program


def trajectory(recording: Recording, step: Step, task: Task, prompts: Prompts) -> Trajectory:
    """The recorded trajectory."""
    solution, extraction = program(step, task)
    latency = step.fields.get("latency_s")
    return Trajectory(
        solution=solution,
        strategy=recording.strategy,
        messages=prompts.get(step.text("prompt_key", ""), ()),
        reply=step.raw,
        extraction=extraction,
        model=step.text("model", recording.model),
        finish_reason="not recorded",
        usage=Usage(
            calls=recording.known.calls,
            prompt_tokens=_whole(step, "prompt_tokens"),
            completion_tokens=_whole(step, "completion_tokens"),
            seconds=float(latency) if isinstance(latency, int | float) and not isinstance(latency, bool) else 0.0,
        ),
    )


def attempts(
    recording: Recording,
    loop: Transcript,
    trajectories: Sequence[Trajectory],
    evaluations: Sequence[Evaluation],
    longest: int,
) -> list[Attempt]:
    """The recorded attempts at one task, with our verdicts; `longest` as in `Terms`."""
    history: list[Attempt] = []
    recorded = zip(loop.steps, trajectories, evaluations, strict=True)
    for number, (step, actor_trajectory, evaluation) in enumerate(recorded, 1):
        is_last = number == len(loop.steps)
        history.append(
            Attempt(
                task_id=loop.task_id,
                number=number,
                recalled=(),
                trajectory=actor_trajectory,
                evaluation=evaluation,
                reflection=reflection(step, f"{recording.run}/{loop.task_id}/{number}", number),
                delta=delta(evaluation, history),
                memory=NO_MEMORY,
                stop_reason=_ended(longest, number, evaluation) if is_last else "",
            )
        )
    return history


def result(task: Task, attempts: Sequence[Attempt], feedback_source: str) -> TaskResult:
    """Result of a task's loop by our rules; `recorded.json` has the source's submission."""
    return TaskResult(
        task_id=task.task_id,
        attempts=len(attempts),
        submitted=submitted_at(attempts).number,
        best=best_of(attempts).number,
        last=attempts[-1].number,
        stop_reason=attempts[-1].stop_reason,
        feedback_source=feedback_source,
        duration=0.0,
        cluster=task.cluster_id,
    )


def reflection(step: Step, name: str, number: int) -> Reflection | None:
    """The recorded reflection, with our labelled fields if it has them. Its cost is unknown but for one call."""
    text = step.reflection
    if not text.strip():
        return None
    try:
        fields = parse_fields(text)
    except ParseError:
        fields = Fields(root_cause="", what_went_wrong="", what_to_change="", confidence=0.0, is_stated=False)
    return Reflection(
        reflection_id=name,
        about_attempt=number,
        root_cause=fields.root_cause,
        what_went_wrong=fields.what_went_wrong,
        what_to_change=fields.what_to_change,
        confidence=fields.confidence if fields.is_stated else 0.0,
        source="recorded",
        category=fields.category or "unknown",
        action_items=fields.action_items,
        key_insight=fields.key_insight,
        lessons=fields.lessons,
        what_worked=fields.what_worked,
        confidence_source="stated" if fields.is_stated else "none",
        text=text,
        usage=Usage(calls=1),
    )


def _ended(longest: int, number: int, evaluation: Evaluation) -> str:
    """Stop reason, derived from the loop's length and the last verdict."""
    if evaluation.passed or evaluation.outcome == "no_tests":
        return "passed" if evaluation.passed else "no_feedback"
    return "max_attempts" if number == longest else "recorded_end"


def _whole(step: Step, name: str) -> int:
    value = step.fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
