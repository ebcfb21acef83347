"""The layout of a reflection file, which the guide of the preset `ralph` prescribes: its fields, limits and origins.

Iterations and actions count from 0. Fields that the guide does not name are the lab's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Annotated
from urllib.parse import quote, unquote

from msgspec import Meta, field

from reflexion_lab.limits import Count, Positive, Share
from reflexion_lab.memory.retrieval.texts import signature
from reflexion_lab.records import Attempt, Category, Delta, Episode, Evaluation, Record, Reflection, Task
from reflexion_lab.records.attempt import Check
from reflexion_lab.records.memory import Results
from reflexion_lab.text.shorten import line

LOOP_ID = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
"""Loop ids: no path separators and no leading dot, so that folders stay inside the parent folder."""
PROGRAM = "program.py"
"""Name of the one file that an actor of the lab writes."""
MOST_TESTS = 10**5
"""A file that says more is not believed."""


class Changes(Record, frozen=True):
    additions: Count = 0
    deletions: Count = 0


class Action(Record, frozen=True):
    description: str
    file_path: str = ""  # "" if it wrote no program
    changes: Changes = Changes()


class ActorOutput(Record, frozen=True):
    actions: tuple[Action, ...]
    rationale: str = ""
    strategy: str = ""
    files_modified: tuple[str, ...] = ()
    total_changes: Changes = Changes()  # since the previous attempt
    program: str = ""


class VerificationResult(Record, frozen=True):
    tool: str  # a kind of check
    status: str
    stderr: str = ""


class StructuredError(Record, frozen=True):
    type: str
    message: str
    file: str = ""
    line: Count = 0  # 0 if unknown


class EvaluatorOutput(Record, frozen=True):
    passed: bool  # the feedback verdict; never that of hidden tests
    verification_type: str
    reward_signal: Share
    results: tuple[VerificationResult, ...] = ()
    errors: tuple[StructuredError, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    outcome: str = ""
    feedback: str = ""
    signature: str = ""


class CreditAssignment(Record, frozen=True):
    failing_action_indices: tuple[Count, ...] = ()
    root_cause: str = ""
    failure_category: Category = Category.UNKNOWN


class SelfReflection(Record, frozen=True):
    reflection_text: str  # "" after a pass that nobody reflected on
    credit_assignment: CreditAssignment
    causal_reasoning: str = ""
    actionable_insights: tuple[str, ...] = ()  # what to change, then the action items
    lessons_learned: tuple[str, ...] = ()
    confidence: Share = 0.0
    related_reflections: tuple[Count, ...] = ()  # iterations whose reflections the attempt read
    source: str = "file"


class MemoryMetadata(Record, frozen=True):
    omega_capacity: Count | None  # null: no limit
    current_memory_size: Count
    reflections_in_context: tuple[Count, ...]  # iterations of the window after this reflection
    total_reflections_generated: Count


class ReflectionFile(Record, frozen=True, kw_only=True):
    """The file of one attempt; its folder has the name of `loop_id`, and its own number is `iteration` + 1."""

    loop_id: Annotated[str, Meta(pattern=f"^{LOOP_ID.pattern}$")]
    iteration: Count
    timestamp: Annotated[datetime, Meta(extra_json_schema={"pattern": r"^\d{4}-\d\d-\d\d[Tt ]\d\d:"})] | None = None
    session_id: str = ""  # "" if it is the loop id, unquoted
    task_id: str = ""
    task_description: str = ""
    agent_id: Annotated[str, Meta(min_length=1)] = "ralph"
    actor_output: ActorOutput
    evaluator_output: EvaluatorOutput
    self_reflection: SelfReflection
    performance_delta: Delta = Delta()
    memory_metadata: MemoryMetadata
    schema_version: Annotated[Positive, Meta(le=1)] = 1

    @property
    def number(self) -> int:
        """Number of the attempt, 1-based."""
        return self.iteration + 1

    @property
    def reflection(self) -> Reflection | None:
        """The reflection; None after a pass without words."""
        words, credit = self.self_reflection, self.self_reflection.credit_assignment
        change, *items = words.actionable_insights or ("",)
        return Reflection(
            reflection_id=f"{self.task_id}#{self.number}", about_attempt=self.number, root_cause=credit.root_cause,
            what_went_wrong=words.causal_reasoning, what_to_change=change, action_items=tuple(items),
            lessons=words.lessons_learned, confidence=words.confidence, category=credit.failure_category,
            source=words.source, text=words.reflection_text,
        ) if words.reflection_text else None  # fmt: skip

    @property
    def episode(self) -> Episode:
        """The attempt as a store has it."""
        session_id, verdict = self.session_id or unquote(self.loop_id), self.evaluator_output
        words = self.reflection
        errors = "\n".join(f"{error.type} {error.message}" for error in verdict.errors)
        failing = tuple(Check(name=e.message, outcome="fail", error_type=e.type, line=e.line) for e in verdict.errors)
        passed, tests = (
            int(min(max(verdict.metrics.get(name, 0), 0), MOST_TESTS)) for name in ("tests_passed", "tests_total")
        )
        passed += sum(result.status == "passed" and result.tool != "test" for result in verdict.results)
        results = Results(total=passed + len(failing), passed=passed, failed=len(failing), failing=failing, tests=tests)
        return Episode(
            episode_id=f"ep-{session_id}-{self.number}", session_id=session_id, turn_id=str(self.number),
            agent_id=self.agent_id, task_id=self.task_id, task_description=self.task_description,
            attempt_number=self.number, code=self.actor_output.program, test_results=verdict.feedback,
            results=results, failure_analysis=verdict.signature or errors, reflection=words,
            improvement=words.what_to_change if words else "", confidence=self.self_reflection.confidence,
            passed=verdict.passed, reward=verdict.reward_signal,
            timestamp=self.timestamp.timestamp() if self.timestamp else 0.0,
            metadata={"verification_type": verdict.verification_type, "outcome": verdict.outcome,
                      "errors": str(len(verdict.errors))},
        )  # fmt: skip


def file_of(task: Task, attempt: Attempt, session_id: str, agent_id: str, own: Sequence[Episode]) -> ReflectionFile:
    """The file of an attempt. `own`: earlier episodes of the loop, oldest first."""
    trajectory, before, omega = attempt.trajectory, own[-1].code if own else "", attempt.memory.omega
    reflected = [episode for episode in own if episode.reflection and episode.attempt_number < attempt.number]
    iterations = [episode.attempt_number - 1 for episode in reflected] + [attempt.number - 1] * bool(attempt.reflection)
    window = tuple(iterations if omega is None else iterations[max(0, len(iterations) - omega) :])
    related = tuple(episode.attempt_number - 1 for episode in reflected if episode.episode_id in attempt.recalled)
    actions, failing = _actions(attempt, before)
    program, loop_id = trajectory.solution, loop_id_of(session_id)
    files, total = trajectory.files_modified or (PROGRAM,) * bool(program), changes(before, program)
    return ReflectionFile(
        loop_id=loop_id, iteration=attempt.number - 1, timestamp=datetime.now(UTC),
        session_id=session_id if unquote(loop_id) != session_id else "",
        task_id=task.task_id, task_description=task.prompt, agent_id=agent_id,
        actor_output=ActorOutput(actions, trajectory.rationale, trajectory.strategy, files, total, program),
        evaluator_output=_verdict(attempt.evaluation), performance_delta=attempt.delta,
        self_reflection=_words(attempt.reflection, failing, related),
        memory_metadata=MemoryMetadata(omega, len(window), window, len(iterations)),
    )  # fmt: skip


def loop_id_of(session_id: str) -> str:
    """The session id with path separators quoted; where that is too long for a name, with a digest as its end."""
    name = quote(session_id, safe=" ").lstrip(".")
    return name if len(name) <= 200 else f"{name[:180]}-{sha256(session_id.encode()).hexdigest()[:16]}"


def changes(before: str, after: str) -> Changes:
    """Lines added and removed; 0 removed where nothing was written. In long programs, a line that moved is neither."""
    old, new = before.splitlines(), after.splitlines()
    is_long, matcher = len(old) + len(new) > 800, SequenceMatcher(None, old, new, autojunk=False)  # quadratic time
    same = (Counter(old) & Counter(new)).total() if is_long else sum(b.size for b in matcher.get_matching_blocks())
    return Changes(len(new) - same, (len(old) - same) * bool(after))


def _actions(attempt: Attempt, before: str) -> tuple[tuple[Action, ...], tuple[int, ...]]:
    """The actions, and the numbers of those that ended in an error, or wrote the failing program."""
    trajectory, evaluation = attempt.trajectory, attempt.evaluation
    turns = [
        (": ".join(filter(None, (step.action or "reply", line(step.thought, 200)))), step.program, step.error)
        for step in trajectory.steps
    ] or [(trajectory.strategy, trajectory.solution, "")]
    actions = []
    for words, program, _ in turns:
        actions.append(Action(words, PROGRAM * bool(program), changes(before, program)))
        before = program or before
    wrote = [number for number, (_, program, _) in enumerate(turns) if program and program == trajectory.solution]
    failing = {number for number, (*_, error) in enumerate(turns) if error} | {wrote[-1] if wrote else len(turns) - 1}
    is_failure = not evaluation.passed and evaluation.has_verdict
    return tuple(actions), tuple(sorted(failing)) if is_failure else ()


def _verdict(evaluation: Evaluation) -> EvaluatorOutput:
    kinds = dict.fromkeys(check.kind for check in evaluation.checks)
    failing = {kind: [check for check in evaluation.failures if check.kind == kind] for kind in kinds}
    texts = {k: "\n".join(f"{check.name}: {check.message or check.outcome}" for check in failing[k]) for k in kinds}
    errors = (
        StructuredError(c.error_type or c.outcome, c.message or c.name, PROGRAM * bool(c.line), c.line)
        for c in evaluation.failures
    )
    tests = sum(check.kind == "test" for check in evaluation.checks)
    metrics: dict[str, float] = {"tests_passed": tests - len(failing.get("test", ())), "tests_total": tests}
    metrics |= {f"{kind}_errors": len(checks) for kind, checks in failing.items() if kind != "test"}
    results = tuple(VerificationResult(kind, "failed" if texts[kind] else "passed", texts[kind]) for kind in kinds)
    return EvaluatorOutput(
        evaluation.passed, evaluation.verification_type, evaluation.reward, results, tuple(errors), metrics,
        evaluation.outcome, evaluation.feedback, signature(evaluation),
    )  # fmt: skip


def _words(words: Reflection | None, failing: tuple[int, ...], related: tuple[int, ...]) -> SelfReflection:
    if words is None:
        return SelfReflection("", CreditAssignment(), source="")
    texts = [text.strip().rstrip(".") for text in (words.root_cause, words.what_went_wrong, words.what_to_change)]
    category = Category(words.category if words.category in set(Category) else Category.ROOT_CAUSE)
    text = " ".join(f"{text}." for text in texts if text) or words.text or words.what_worked
    advice = tuple(filter(None, (words.what_to_change, *words.action_items)))
    lessons = tuple(filter(None, (*words.lessons, words.key_insight)))
    credit = CreditAssignment(failing, words.root_cause, category)
    return SelfReflection(text, credit, words.what_went_wrong, advice, lessons, words.confidence, related, words.source)
