"""The loop in a program of one's own: own generator and executor, with the memory, reflectors and loop of a run."""

from __future__ import annotations

import hashlib
import inspect
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError, FolderError, Unanswered
from reflexion_lab.loop.deadline import DeadlineError, awaited, with_deadline
from reflexion_lab.loop.selection import Solution
from reflexion_lab.loop.stop import FirstOf
from reflexion_lab.memory.archive import Archive, Rounds
from reflexion_lab.notebook.overrides import as_lines, one_line_errors, with_objects
from reflexion_lab.notebook.run import Run
from reflexion_lab.records import (
    Attempt,
    Beginning,
    Check,
    Completion,
    Episode,
    Evaluation,
    Message,
    Recollection,
    Sampling,
    Task,
    Trajectory,
    Usage,
    Wisdom,
    identity,
)
from reflexion_lab.runner import objects
from reflexion_lab.runner.config.assemble import loop_factory, manifest_of
from reflexion_lab.runner.config.build import build, converted, has_durable_store, unknown
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.choices import options
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import Models, load_archive, load_models, load_sandbox
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder, write_digests
from reflexion_lab.runner.runner import result_of
from reflexion_lab.storage.place import dump, load
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.evaluators.unit_tests import evaluation_by, feedback
from reflexion_lab.text.prompts.render import Prompts
from reflexion_lab.text.replies.extract import extract

LINES = ("arm=agent", "tracker=none", "quiet=true", "cache.mode=off", "storage.spending=null",
         "memory.shared.same_task=true")  # fmt: skip
"""How an agent differs from a run by default: it leaves no file, and reads what it knows of a task again."""


class Generated(NamedTuple):
    """The actor of a function `(task, recollection) -> text`. `has_program`: whether its text is searched for one."""

    generate: Callable[..., Any]
    has_program: bool

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        reply = awaited(self.generate)(task, recalled(recollection))
        if isinstance(reply, Trajectory):
            return reply
        if not isinstance(reply, str):
            raise ConfigError("generate(…)", f"a {type(reply).__name__} as its result", "a text, or a Trajectory")
        program = extract(reply, task).program if self.has_program else reply
        return Trajectory(solution=program, strategy="own", reply=reply, extraction="" if self.has_program else "own")


class Tested(NamedTuple):
    """The evaluator of a function `code -> verdict`, or `(code, task) -> verdict`."""

    test: Callable[..., Any]

    def evaluate(self, task: Task, trajectory: Trajectory) -> Evaluation:
        values: tuple[Any, ...] = (trajectory.solution,)
        with suppress(ValueError):  # a built-in function without a signature takes the code
            named = inspect.signature(self.test).parameters.values()
            asked = [each for each in named if each.default is each.empty and each.kind <= each.POSITIONAL_OR_KEYWORD]
            values += (task,) * (len(asked) > 1)
        return evaluation_of(awaited(self.test)(*values))


class Answers:
    """The model of a function from prompt to reply; without one, of nothing."""

    only_chats = "a function of yours"
    slots, context = 64, 0

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.function = function
        self.fingerprint = f"own:{getattr(function, '__qualname__', type(function).__name__)}"

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        if self.function is None:
            raise ConfigError("agent: no model", expected="generate= or reflect= with a function or a model's name")
        start = time.monotonic()
        text = awaited(self.function)("\n\n".join(message.content for message in messages))
        if not isinstance(text, str):
            raise ConfigError("reflect(…)", f"a {type(text).__name__} as its result", "a text")
        return Completion(text=text, model="own", usage=Usage(calls=1, seconds=time.monotonic() - start))


def recalled(recollection: Recollection) -> Recollection:
    """The recollection with its text."""
    return replace(recollection, text=Prompts().render("memory", memory=recollection).strip())


def evaluation_of(result: Any) -> Evaluation:
    """The evaluation of an own test's result. Raises ConfigError: it is no verdict."""
    if isinstance(result, Evaluation):
        return result
    try:
        rows: Any = result if isinstance(result, Sequence) else [("test", result)]
        marks: dict[Any, str] = {True: "pass", False: "fail"}
        checks = tuple(Check(name=str(n), outcome=marks[ok], message="".join(map(str, m))) for n, ok, *m in rows)
    except (TypeError, ValueError, KeyError):
        expected = "true or false, a list of (name, passed, message), or an Evaluation"
        raise ConfigError("test(…)", repr(result)[:80], expected) from None
    return evaluation_by(checks, feedback(checks)) if checks else Evaluation(passed=False, outcome="no_tests", reward=0)


class Deadline:
    """The end of a loop: its parts, own code included, may take what is left of the time limit, no more."""

    def __init__(self, seconds: float) -> None:
        self.start, self.seconds = time.monotonic(), seconds

    @property
    def spent(self) -> float:
        return time.monotonic() - self.start

    def reached(self, attempt: Attempt, history: Sequence[Attempt]) -> str | None:
        return "timeout" if self.spent >= self.seconds else None

    def within(self, call: Callable[..., Any], late: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with the result of `late` where it has none in time."""

        def bounded(*values: Any) -> Any:
            before = self.spent
            try:
                if before < self.seconds:
                    return with_deadline(self.seconds - before, partial(call, *values), call.__name__)
            except (DeadlineError, Unanswered):  # also of a part that had as much time for itself
                if self.spent < self.seconds:
                    raise
            return late(self.spent - before, *values)

        return bounded


def _no_verdict(seconds: float, *values: Any) -> Evaluation:
    message = "it gave no result before the time limit of the loop"
    checks = (Check(name="test", outcome="timeout", error_type="TimeoutError", message=message),)
    return replace(evaluation_by(checks, feedback(checks)), seconds=seconds)


class AgentMemory:
    """The memory of an agent across tasks, restarts and processes; loops read it while others add to it.

    `by_session(result.session)`, `by_agent("agent")`: the episodes of a call of `solve`, of agents of this `arm`.
    """

    def __init__(self, cfg: RunConfig, models: Models) -> None:
        self._make = partial(load_archive, cfg, models, build(cfg.store, "store"))
        self._is_durable = has_durable_store(cfg.store)
        self._changed = threading.Condition()
        self._readers = 0
        self.beginning = self._begin()

    def _begin(self) -> Beginning:
        self.archive = cast("Archive", self._make())
        self.archive.keeps_episodes, self.archive.hint = True, "agent.save_run(FOLDER) keeps them"
        self.by_session, self.by_agent = self.archive.buffer.by_session, self.archive.buffer.by_agent
        return self.archive.begin()

    @contextmanager
    def reading(self) -> Iterator[Archive]:
        """The memory, which does not change within the block."""
        with self._changed:
            self._readers += 1
            archive = self.archive
        try:
            yield archive
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[Archive]:
        """The memory, which nobody else reads or changes within the block; without a file, cut to its capacity."""
        with self._changed:
            self._changed.wait_for(lambda: self._readers == 0)
            yield self.archive
            buffer = self.archive.buffer
            if not self._is_durable and len(buffer) == buffer.capacity:
                self.archive.store.prune(min(episode.timestamp for episode in buffer) - 1e-6)
                if buffer.total >= 2 * buffer.capacity:  # forget, too, what wisdom was made of
                    self._begin()

    def __getattr__(self, name: str) -> Any:
        """What loops read of shared memory."""
        value = getattr(self.__dict__["archive"], name)
        return partial(self._read, name) if callable(value) else value

    def _read(self, name: str, *values: Any) -> Any:
        with self.reading() as archive:
            return getattr(archive, name)(*values)

    def relevant(self, text: str, k: int = 3) -> list[Episode]:
        """The `k` episodes nearest to a task's text, best first."""
        return self.archive.buffer.relevant(text, k)

    def wisdom(self, text: str, k: int = 3) -> list[Wisdom]:
        """The `k` causes of failure that have come back, with advice, nearest to a task's text; best first."""
        with self.reading() as archive:
            return archive.book.relevant(text, k)

    def save(self, path: Path | str) -> dict[str, int]:
        """Write all records to one file, `*.json` or `*.jsonl`; returns counts by kind."""
        return dump(self.archive.store, Path(path))

    def load(self, path: Path | str | None = None) -> None:
        """Add the records of a file of `save`; without one, read what other processes have stored meanwhile."""
        with self.writing() as archive:
            if path is not None:
                load(archive.store, Path(path))
            self._begin()
            self.archive.has_learnt = archive.has_learnt or path is not None


class Agent(AbstractContextManager["Agent"]):
    """The loop, its parts and its memory, which `rl.agent(…)` makes. Threads may call `solve` at once. `close`,
    or the end of a `with` block or of the process, closes memory, models and sandbox.

    Functions may be async; what `generate` and `test` raise, `solve` raises; what `reflect` raises is the `problem` of
    its reflection. Raises ConfigError: a value or a result is invalid.

    Parameters
    ----------
    *overrides
        Words or mappings as of `rl.run`, such as `"recall.omega=3"`; they win over what follows.
    generate : function, name of a model, or Actor
        `(task, recollection) -> text`: `task.prompt` is the task, `recollection.text` what memory gives, ready for a
        prompt. Where no function tests it, the first program in the text counts.
    test : function, name of an evaluator, or Evaluator
        `(code) -> verdict`, or `(code, task) -> verdict` without defaults: whether it passed, a list of
        (name, passed, message), or an `Evaluation`. `"unit_tests"`: the task's visible tests, in the sandbox.
    reflect : function, name of a reflector or model, or Reflector
        `prompt -> reply`, such as a call of a model. None: no reflections.
    fallback : "rules" or None
        What replaces a reflection that fails or cannot be read; None: nothing.
    memory : file `*.sqlite`, folder of JSON lines, or PostgreSQL URL
        Processes may share it. None: memory ends with the agent.
    recall : name of a recall policy, or Recall
    wisdom, max_episodes : int
        Causes of failure that came back, which an attempt reads at most; attempts in memory (a file keeps all).
    max_attempts, confidence_threshold, timeout : number
        The loop ends after so many attempts, with this share of passed tests, or after so many seconds, when functions
        that hang are given up: their threads go on, their results are dropped.
    """

    def __init__(
        self,
        *overrides: Any,
        generate: Any = None,
        test: Any = None,
        reflect: Any = "rules",
        fallback: str | None = "rules",
        memory: Path | str | None = None,
        recall: Any = "window_then_similar",
        wisdom: int = 0,
        max_attempts: int = 3,
        confidence_threshold: float = 1.0,
        timeout: float = 300.0,
        max_episodes: int = 1000,
    ) -> None:
        values = {
            "memory.shared.shown.wisdom": wisdom,
            "memory.shared.max_episodes": max_episodes,
            "loop.max_attempts": max_attempts,
            "loop.confidence_threshold": confidence_threshold,
            "loop.timeout": timeout,
        }
        named, parts = _parts(generate, test, reflect, fallback)
        self._overrides = [*LINES, *as_lines([values, *named, *_store(memory), *overrides])]
        self._parts = {"recall": recall, **parts}
        self._can_solve = None not in (generate, test)
        self._held = ExitStack()
        self.close = weakref.finalize(self, self._held.close)
        with one_line_errors():
            check(cfg := RunConfig.of(compose(*with_objects(self._overrides, self._parts))))
            if cfg.feedback_source != "visible":
                raise ConfigError("feedback_source", cfg.feedback_source, "visible: what test= says drives the loop")
            self._timeout = cfg.loop.timeout
            models, self._sandbox = load_models(cfg), load_sandbox(cfg, servers=1)
            self._held.callback(models.close)
            self._held.callback(self._sandbox.close)
            self.memory = AgentMemory(cfg, models)
            self._held.callback(self.memory.close)  # its wisdom then counts what others have added, too
            self.run_id = models.meter.scope = f"{time.strftime('%Y%m%d-%H%M%S')}-{cfg.arm}-{uuid4().hex[:8]}"
            self._store = ("filled" if self.memory.beginning.episodes else "empty") * has_durable_store(cfg.store)
            self._loop = loop_factory(cfg, models, self._sandbox, cast("Archive", self.memory))
            self._loop()  # report invalid values now
        self._rounds = Rounds(self.memory.archive, 1, self.run_id, cfg.arm)
        self._passes, self._counting = Counter[str](), threading.Lock()
        self._solved: deque[tuple[Task, list[Attempt], float]] = deque(maxlen=1000)  # what `save_run` writes

    def recall(self, task: str | Task | Mapping[str, Any]) -> Recollection:
        """What a first attempt at the task would read: similar episodes, wisdom, and all of it as `text`."""
        return recalled(self._loop(self.run_id).memory.recall(task_of(task).public))

    def solve(self, task: str | Task | Mapping[str, Any], initial: str | None = None) -> Solution:
        """Attempt the task until an attempt passes or a stop rule ends the loop; its episodes are remembered.

        `task`: a text that the generator reads, or a task, such as one with visible tests. `initial`: output of the
        first attempt, not asked of `generate`. Raises what own functions raise; attempts before that are remembered.
        """
        if not self._can_solve:
            raise ConfigError("solve: the agent only remembers", expected="rl.agent(generate=…, test=…)")
        whole = task_of(task)
        with self._counting:
            self._passes[whole.task_id] += 1
            whole = replace(whole, repetition=self._passes[whole.task_id], initial_code=initial or whole.initial_code)
        loop, deadline = self._loop(self.run_id), Deadline(self._timeout)
        ends: dict[str, Callable[..., Any]] = {"evaluate": _no_verdict}
        ends["act"] = lambda seconds, *values: Trajectory(solution="", strategy="own", ended="timeout", status="stuck")
        ends["reflect"] = lambda seconds, task, recalled, attempt, history: replace(attempt, stop_reason="timeout")
        for stage, late in ends.items():
            setattr(loop, stage, deadline.within(getattr(loop, stage), late))
        loop.stop = FirstOf(loop.stop, deadline)
        attempts: list[Attempt] = []
        try:
            attempts.extend(loop.attempts(whole.public))
        finally:
            with self.memory.writing() as self._rounds.archive:
                if attempts:
                    self._rounds.finished(whole, attempts)
                    self._rounds.end([whole])
                    self._solved.append((whole, attempts, deadline.spent))
        return loop.solution(whole, attempts, deadline.spent)

    def save_run(self, folder: Path | str) -> Run:
        """Write the solved tasks, at most the newest 1,000, as a run into a new folder; hidden tests grade them.

        Raises FolderError: there is such a folder, or no solved task.
        """
        place, known = Path(folder), self._solved.copy()  # other threads go on
        names = {task.loop_id for task, *_ in known if task.repetition == 1}
        solved = [_alone(names, *each) for each in known]
        if not solved or place.exists():
            raise FolderError(place, "an old folder" if solved else "no solved task", "a new folder, and a solved task")
        lines = [line for line in self._overrides if not line.startswith("benchmark")]
        lines += as_lines([{"run_root": str(place.parent)}])
        parts = self._parts | {"benchmark": [task for task, *_ in solved]}
        with one_line_errors():
            manifest = manifest_of(compose(*with_objects(lines, parts)))
        provenance = replace(manifest.provenance, store=self._store)
        run = Run(RunFolder.create(place.parent, replace(manifest, run_id=place.name, provenance=provenance)))
        run.folder.write_json("memory.json", msgspec.to_builtins(self.memory.beginning))
        judge = HiddenTests(self._sandbox)
        with run.folder.held():
            for task, attempts, seconds in solved:
                result = result_of(task, attempts, manifest.feedback_source, seconds)
                for attempt in attempts:
                    run.folder.append("attempts.jsonl", attempt)
                run.folder.append("results.jsonl", result)
                for attempt in sorted(attempts, key=lambda attempt: attempt.number != result.submitted):
                    judge.sealed = attempt.number != result.submitted
                    grade = judge.grade(task, attempt.number, attempt.trajectory.solution)
                    run.folder.append("grades.jsonl", grade)
            write_digests(run.folder)
            run.folder.close()
        ended = {"ended_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        run.folder.write_json("summary.json", msgspec.to_builtins(run.summary) | ended)
        return run

    def __exit__(self, *problem: object) -> None:
        self.close()


def _alone(
    names: set[str], task: Task, attempts: Sequence[Attempt], seconds: float
) -> tuple[Task, list[Attempt], float]:
    """A loop as that of a task of its own, also where it is a repetition: in a run, all tasks are repeated alike."""
    name, number = task.task_id, task.repetition
    while task.repetition > 1 and name in names:
        name, number = f"{task.task_id}-{number}", number + 1
    names.add(name)
    return replace(task, task_id=name, repetition=1), [replace(each, task_id=name) for each in attempts], seconds


def task_of(task: str | Task | Mapping[str, Any]) -> Task:
    """The task of a text, or of the fields of one. Equal texts are the same task. Raises ConfigError: it is no task."""
    if isinstance(task, str):
        name = hashlib.sha256(task.encode(errors="replace")).hexdigest()[:12]
        return Task(task_id=f"task-{name}", prompt=task, entry_point="solve")
    if isinstance(task, Mapping) and (strange := task.keys() - set(Task.__struct_fields__)):
        raise unknown(f"task.{min(strange)}", Task.__struct_fields__)
    whole = task if isinstance(task, Task) else converted("task", task, Task)
    if identity(whole.task_id)[1] > 1:
        raise ConfigError("task.task_id", whole.task_id, "an id that does not end in @passNUMBER, as later passes do")
    return whole


def _parts(generate: Any, test: Any, reflect: Any, fallback: str | None) -> tuple[list[str], dict[str, Any]]:
    """The overrides of what is named, and the parts of functions and objects."""
    lines, parts = [], {}
    is_program = test is None or isinstance(test, str)
    if isinstance(generate, str):
        lines.append(f"model={generate}")
    else:
        parts["actor"] = generate if hasattr(generate, "act") else Generated(generate, is_program)
        parts["model"] = Answers()
    if isinstance(test, str):
        lines.append(f"evaluator={test}")
    elif test is not None:
        parts["evaluator"] = test if hasattr(test, "evaluate") else Tested(test)
    if hasattr(reflect, "reflect"):
        parts["reflector"] = reflect
        return lines, parts
    name = "llm"
    if reflect is None or reflect in options("reflector"):
        name = reflect or "none"
    else:
        is_named = isinstance(reflect, str)
        role = "model@roles.reflector=" if is_named else "+roles.reflector._target_="
        lines.append(role + (reflect if is_named else objects.register(Answers(reflect))))
    modes = {"rules": "fallback", None: "skip"}  # another one is refused by the config
    on_failure = [f"reflector.on_failure={modes.get(fallback, fallback)}"] * name.startswith("llm")
    return [*lines, f"reflector={name}", *on_failure], parts


def _store(memory: Path | str | None) -> list[str]:
    text = "" if memory is None else str(memory)
    kind = "sqlite" if Path(text).suffix in (".sqlite", ".db") else "postgresql" if "://" in text else "jsonl"
    return [f"store={kind}", *as_lines([{"store.place": text}])] if text else ["store=none"]
