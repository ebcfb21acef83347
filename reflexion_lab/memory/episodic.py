"""The episodic memory of one loop, its session, and the bounded episode buffer."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import CLASSES, classify_evaluation
from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import validated
from reflexion_lab.memory.lessons.insights import insight_of, with_insight
from reflexion_lab.memory.lessons.mistakes import CHECK_CHARS
from reflexion_lab.memory.recall import DEFAULT
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.memory.reflection_layout import file_of
from reflexion_lab.memory.retrieval.texts import Match, document, signature
from reflexion_lab.memory.retrieval.trace import SEARCHES, Search, note, retrieved
from reflexion_lab.protocols import Outcome, Recall, Retriever, SharedMemory
from reflexion_lab.records import (
    Attempt,
    Check,
    Episode,
    Evaluation,
    Item,
    MemoryState,
    Recollection,
    Reflection,
    Results,
    Selection,
    Session,
    Task,
    Trajectory,
)
from reflexion_lab.storage.kinds import filled
from reflexion_lab.tasks.evaluators.trajectory import summary_of
from reflexion_lab.text.prompts.render import OVERHEAD
from reflexion_lab.text.shorten import estimated, line, percent


class NoSharedMemory:
    """Empty shared memory, for independent tasks."""

    omega = DEFAULT
    outcomes: Mapping[str, tuple[int, int]] = {}

    def similar(self, task: Task, own: object, k: int, min_score: float, outcome: Outcome = "any") -> list[Episode]:
        return []

    def past(self, task: Task) -> list[Episode]:
        return []

    def lessons(self, task: Task, own: object) -> Recollection:
        return Recollection()

    def selection(self, task: Task) -> Selection:
        return Selection()


class EpisodicMemory:
    """The memory of one task's loop: its own episodes, and those of other tasks through `known`.

    `max_episodes`: capacity; the oldest episode is evicted. 0 or less: 1000. `known`: memory shared by all tasks of a
    round. `run_id`: prefix of session and episode ids, unique per run; "" if they stay within one run. `show_session`:
    include the session's history in prompts. `files`: also write reflections to readable files; errors become warnings.
    `heading`: of the episodes in prompts that have one.
    """

    def __init__(
        self,
        recall: Recall,
        max_episodes: int = 1000,
        *,
        known: SharedMemory | None = None,
        run_id: str = "",
        agent_id: str = "actor",
        show_session: bool = False,
        files: ReflectionFiles | None = None,
        heading: str = Recollection().heading,
    ) -> None:
        self.policy = recall
        self.known = known or NoSharedMemory()
        self.run_id = run_id
        self.agent_id = agent_id
        self.show_session = show_session
        self.files = files
        self.heading = heading
        self.buffer = EpisodeBuffer(max_episodes)
        self.session = Session(session_id="")
        self.token_ratio = 0.0
        self.items: tuple[Item, ...] | None = None

    def recall(self, task: Task) -> Recollection:
        """The episodes and lessons that the actor reads."""
        own = self.buffer.by_task(task.task_id)
        if not own and self.show_session:
            self.session = session_of(self.known.past(task), self.session)
        has_session = self.show_session and self.session.last_evaluation is not None
        searches: list[Search] = []
        before = SEARCHES.set(searches)
        selected = with_own(self.policy.select(own, task, self.known), task)
        lessons = self.known.lessons(task, own)
        chosen = Selection() if self.items is not None else self.known.selection(task)  # once per loop
        SEARCHES.reset(before)
        self.items = chosen.items if self.items is None else self.items
        recollection = replace(
            lessons, items=self.items, written_items=chosen.written, selection_usage=chosen.usage, heading=self.heading,
            others=selected.others, own=selected.own, omega=selected.omega,
            session_id=session_id(self.run_id, task.loop_id),
            left_out=tuple(sorted({*selected.left_out, *lessons.left_out})), token_ratio=self.token_ratio or 1.0,
            session=session_text(self.session, selected=selected, lessons=lessons) if has_session else "",
        )  # fmt: skip
        return replace(recollection, retrieved=retrieved(searches, recollection.ids))

    def remember(self, task: Task, attempt: Attempt) -> None:
        """Store an attempt with its feedback verdict."""
        own = self.buffer.by_task(task.task_id)
        episode = episode_of(task, attempt, session_id(self.run_id, task.loop_id), self.agent_id)
        self.buffer.store(episode)
        if self.files and (attempt.reflection or attempt.evaluation.passed):
            self.files.note(file_of(task, attempt, episode.session_id, self.agent_id, own))
        self.session = session_after(replace(self.session, session_id=episode.session_id), attempt)
        self.token_ratio = max(self.token_ratio, token_ratio(attempt.trajectory))

    def state(self, recollection: Recollection) -> MemoryState:
        return MemoryState(
            capacity=self.buffer.capacity, size=len(self.buffer), in_context=len(recollection.episodes),
            total=self.buffer.total, omega=recollection.omega,
            own=len(recollection.of_loop),
        )  # fmt: skip


SMALLEST_RATIO, SMALLEST_BEYOND_ASCII = 0.75, 0.25
"""Credible ratios are raised to this: some servers count a truncated prompt. SmolLM2's median is 0.77."""
CREDIBLE = 2 / 3
"""Share of the smallest ratio below which a count is ignored: some servers leave out cached tokens."""


def token_ratio(trajectory: Trajectory) -> float:
    """Prompt tokens counted by the model per estimated token; 0.0 where the count is missing or not credible.

    Tokens beyond the estimate are the chat template's, up to `OVERHEAD`, which every prompt leaves free.
    Read from the recorded call, so that a replay, which has no tokenizer, fits prompts alike.
    """
    usage = trajectory.usage
    texts = [message.content for message in trajectory.messages]
    size, ascii_size = sum(map(estimated, texts)), sum(estimated(re.sub(r"[^\0-\x7f]", "", text)) for text in texts)
    if usage.calls - usage.refused != 1 or not size:
        return 0.0
    of_ascii = min(ascii_size / size, 1.0)
    smallest = SMALLEST_RATIO * of_ascii + SMALLEST_BEYOND_ASCII * (1 - of_ascii)
    ratio = max(min(usage.prompt_tokens, size), usage.prompt_tokens - OVERHEAD) / size
    return max(ratio, smallest) if ratio >= CREDIBLE * smallest else 0.0


def with_own(selected: Recollection, task: Task) -> Recollection:
    """The selection with all episodes of the task, also of earlier passes and runs, among its own ones."""
    before = tuple(episode for episode in selected.others if episode.task_id == task.task_id)
    others = tuple(episode for episode in selected.others if episode.task_id != task.task_id)
    return replace(selected, others=others, own=(*before, *selected.own))


def session_id(run_id: str, loop_id: str) -> str:
    """Id of a loop, of this `Task.loop_id`, in a run."""
    return f"{run_id}/{loop_id}" if run_id else loop_id


def episode_of(task: Task, attempt: Attempt, session_id: str, agent_id: str) -> Episode:
    """The episode of an attempt."""
    reflection, evaluation = attempt.reflection, attempt.evaluation
    metadata = {"verification_type": evaluation.verification_type, "outcome": evaluation.outcome}
    metadata |= {"errors": str(len(evaluation.failures)), "trajectory": summary_of(attempt.trajectory)}
    if attempt.recalled_wisdom:
        metadata["wisdom"] = " ".join(attempt.recalled_wisdom)
    critiques = [step.critique for step in attempt.trajectory.steps if step.critique]
    if critiques and critiques[-1].issues:  # with the submitted program
        metadata["issue"] = critiques[-1].issues[0][:CHECK_CHARS]
    total, failed = len(evaluation.checks), len(evaluation.failures)
    results = Results(
        total=total, passed=total - failed, failed=failed, failing=evaluation.failures,
        tests=sum(check.kind == "test" for check in evaluation.checks), components=evaluation.components,
        issues=evaluation.issues, suggestions=evaluation.suggestions,
    )  # fmt: skip
    return Episode(
        episode_id=f"ep-{session_id}-{attempt.number}", session_id=session_id, turn_id=str(attempt.number),
        agent_id=agent_id, task_id=task.task_id, task_description=task.prompt, attempt_number=attempt.number,
        code=attempt.trajectory.solution, test_results=evaluation.feedback, failure_analysis=signature(evaluation),
        results=results, reflection=reflection, improvement=reflection.what_to_change if reflection else "",
        confidence=reflection.confidence if reflection else 0.0, passed=evaluation.passed, reward=evaluation.reward,
        timestamp=time.time(), metadata=metadata,
    )  # fmt: skip


NEWEST = 5
"""Maximum reflections in a session."""
NAMED = 5
"""Maximum issues, and suggestions, in a prompt."""
PARTS = {"tests": 0, "types": 1, "lint": 2, "task_completion": 3, "code_quality": 4, "efficiency": 5}
"""Places of a score's parts in a prompt, as a store does not keep their order; others come last."""
PROGRESS = {True: "better than the attempt before", False: "no better than the attempt before", None: "N/A"}
DESCRIBED = ("What worked", "Root cause", "What went wrong", "What to change")
ENTRY_CHARS = 160
"""Maximum characters of an issue, suggestion, insight or field of a reflection in a prompt."""


def session_after(session: Session, attempt: Attempt) -> Session:
    """The session after `attempt`."""
    reflection = attempt.reflection
    has_words = reflection and (reflection.root_cause or reflection.what_went_wrong or reflection.what_to_change)
    known, before = session.key_insights, session.last_evaluation
    if reflection and has_words:
        session = _with_reflection(session, reflection, attempt.evaluation.reward)
    return replace(
        session,
        key_insights=with_insight(known, insight_of(reflection)) if reflection else known,
        last_trajectory_summary=summary_of(attempt.trajectory),
        last_evaluation=attempt.evaluation,
        is_progress=attempt.evaluation.rank > before.rank if before else None,
    )


def _with_reflection(session: Session, reflection: Reflection, reward: float, run: str = "") -> Session:
    """The session with one more reflection."""
    scores = (f"score {percent(reward)} of 100{run}", *session.scores)[:NEWEST]
    return replace(session, reflections=(reflection, *session.reflections)[:NEWEST], scores=scores)


def session_of(past: Sequence[Episode], session: Session) -> Session:
    """`session` after the `past`: earlier runs' episodes of the same task, oldest first.

    Runs are counted back: with a date, an equal run on another day would have other prompts.
    """
    loops = list(dict.fromkeys(episode.session_id for episode in past))
    for episode in past:
        if episode.reflection and episode.statements:
            n = len(loops) - loops.index(episode.session_id)
            session = _with_reflection(session, episode.reflection, episode.reward, f", {n} run{'s' * (n > 1)} before")
            insights = with_insight(session.key_insights, insight_of(episode.reflection))
            session = replace(session, key_insights=insights)
    if not past:
        return session
    *before, last = map(evaluation_of, past[-2:])
    return replace(
        session,
        session_id=past[-1].session_id,
        last_trajectory_summary=past[-1].metadata.get("trajectory", ""),
        last_evaluation=last,
        is_progress=last.rank > before[0].rank if before else None,
    )


def evaluation_of(episode: Episode) -> Evaluation:
    """The verdict as far as an episode holds it: checks that passed are without names."""
    results, about = episode.results, episode.metadata
    tests = results.tests - sum(check.kind == "test" for check in results.failing)
    passing = ["test"] * tests + ["lint"] * (results.passed - tests)
    return Evaluation(
        passed=episode.passed, outcome=about.get("outcome", "pass" if episode.passed else "fail"),
        reward=episode.reward, feedback=episode.test_results,
        checks=(*results.failing, *(Check(name="", outcome="pass", kind=kind) for kind in passing)),
        components=results.components, issues=results.issues, suggestions=results.suggestions,
        verification_type=about.get("verification_type", ""),
    )  # fmt: skip


def session_text(
    session: Session,
    max_chars: int = 2000,
    *,
    selected: Recollection | None = None,
    lessons: Recollection | None = None,
) -> str:
    """The session in a prompt: score, issues, suggestions, summary, then insights and reflections, newest first.

    Truncated to `max_chars` characters at a line break. `selected`, `lessons`: other parts of the prompt, whose
    reflections and insights are not repeated.
    """
    own = [known for known in (selected.episodes if selected else ()) if known.session_id == session.session_id]
    texts = {text for episode in (selected.episodes if selected else ()) for _, text in episode.statements}
    scored = zip(session.reflections, (*session.scores, *[""] * NEWEST), strict=False)
    reflections = [pair for pair in scored if not {text for _, text in pair[0].statements} <= texts]
    known = {*texts, *(lessons.insights if lessons else ())}
    insights = [insight for insight in session.key_insights[::-1] if insight not in known]
    parts = [
        described_evaluation(session.last_evaluation, bool(own)),
        f"Progress: {PROGRESS[session.is_progress]}",
        f"Previous trajectory: {line(session.last_trajectory_summary, ENTRY_CHARS) or 'N/A'}",
    ]
    if insights or not session.key_insights:
        parts.append(f"Key insights:\n{described_insights(insights)}")
    if reflections or not session.reflections:
        parts.append(f"Previous reflections:\n{described_reflections(reflections)}")
    text = "\n".join(parts)
    return text if len(text) <= max_chars else text[: max_chars + 1].rpartition("\n")[0] or text[:max_chars]


def described_evaluation(evaluation: Evaluation | None, shows_checks: bool = False) -> str:
    """Score (reward × 100, halves rounded up), parts, issues and suggestions, one per line.

    The failing checks are issues, counted by error where the prompt `shows_checks` elsewhere, which also leaves out a
    line without suggestions. A failure has the suggestion of its class (`reflector=rules`).
    """
    if evaluation is None:
        return "Previous score: N/A\nParts: N/A\nIssues: None\nSuggestions: None"
    components = sorted(evaluation.components.items(), key=lambda part: (PARTS.get(part[0], len(PARTS)), part[0]))
    parts = ", ".join(f"{_words(name)} {percent(part)} %" for name, part in components)
    failing, suggestions, outcome = evaluation.failures, list(evaluation.suggestions), _words(evaluation.outcome)
    if shows_checks:
        kinds = Counter(check.error_type or check.outcome.replace("fail", "wrong result") for check in failing)
        issues = [f"{kind} in {n} of {len(evaluation.checks)} checks" for kind, n in kinds.items()]
    else:
        issues = [f"{check.name}: {check.message or check.error_type or check.outcome}" for check in failing]
    if failing or evaluation.outcome == "extraction_failed":
        category, check = classify_evaluation(evaluation)
        suggestions.insert(0, CLASSES[category].action.format(evidence=f"`{check.name}`" if check else outcome))
    issues += evaluation.issues
    if not issues and not evaluation.passed:
        issues = [evaluation.feedback.partition("\n")[0] or outcome]
    lines = [f"Previous score: {percent(evaluation.reward)} of 100", f"Parts: {parts or 'N/A'}"]
    lines.append(f"Issues: {_listed(issues)}")
    if suggestions or not shows_checks:
        lines.append(f"Suggestions: {_listed(suggestions)}")
    return "\n".join(lines)


def described_insights(insights: Sequence[str]) -> str:
    """One numbered line each."""
    lines = [f"{number}. {line(insight, ENTRY_CHARS)}" for number, insight in enumerate(insights, 1)]
    return "\n".join(lines) or "No key insights yet."


def described_reflections(reflections: Iterable[tuple[Reflection, str]]) -> str:
    """At most five lines each, with the score of its attempt."""
    entries = []
    for reflection, score in reflections:
        about = ", ".join(filter(None, [score, f"confidence {percent(reflection.confidence)} %"]))
        entries.append(f"Reflection on attempt {reflection.about_attempt} ({about})")
        texts = [(label, text) for label, text in reflection.statements if label in DESCRIBED]
        entries += [f"- {label}: {line(text, ENTRY_CHARS)}" for label, text in texts]
    return "\n".join(entries) or "No previous reflections (this is the first attempt)."


def _listed(entries: Sequence[str]) -> str:
    more = [f"and {len(entries) - NAMED} more"] if len(entries) > NAMED else []
    return "; ".join([*(line(entry, ENTRY_CHARS) for entry in entries[:NAMED]), *more]) or "None"


def _words(name: str) -> str:
    return name.replace("_", " ")


DEFAULT_EPISODES = 1000


class EpisodeBuffer:
    """A bounded FIFO buffer of episodes. Thread-safe; returned lists are copies.

    Storing takes constant time, also at capacity; a look-up takes time proportional to its result. `max_episodes`:
    capacity; the oldest episode is evicted. 0 or less: 1000. `retriever`: for `relevant`; empty, for this buffer alone.
    `match`: retrieval document of an episode, one of `texts.MATCHES`.
    """

    @validated
    def __init__(
        self, max_episodes: int = DEFAULT_EPISODES, retriever: Retriever | None = None, match: Match = "task"
    ) -> None:
        self.capacity = max_episodes if max_episodes > 0 else DEFAULT_EPISODES
        self._retriever = retriever
        self._match = match
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        """Held while the retriever indexes, which may call a model: readers wait for `_lock` alone."""
        self._episodes: dict[int, Episode] = {}
        """By the retriever's document numbers, up to `total - 1`."""
        self.total = 0
        self._look_ups: dict[tuple[str, str], deque[Episode]] = {}
        """By field and value."""

    def store(self, episode: Episode) -> Episode:
        """Store an episode; returns it with an id and a timestamp. Raises DataError without an `agent_id`."""
        return self.extend([episode])[0]

    def extend(self, episodes: Iterable[Episode]) -> list[Episode]:
        """As `store`, for several episodes, oldest first; all or none are stored."""
        if not (stored := [filled(episode) for episode in episodes]):
            return []
        with self._writing:
            if self._retriever is not None:
                self._retriever.add([document(episode, self._match) for episode in stored])
            with self._lock:
                for episode in stored:
                    self._put(episode)
            if self._retriever is not None:
                self._retriever.forget(self.total - len(self._episodes))
        return stored

    def _put(self, episode: Episode) -> None:
        if len(self._episodes) == self.capacity:
            for key in _keys(self._episodes.pop(self.total - self.capacity)):
                self._look_ups[key].popleft()
                if not self._look_ups[key]:
                    del self._look_ups[key]
        for key in _keys(episode):
            self._look_ups.setdefault(key, deque()).append(episode)
        self._episodes[self.total] = episode
        self.total += 1

    def by_task(self, task_id: str) -> list[Episode]:
        """The task's episodes, oldest first."""
        return self._by("task", task_id)

    def by_agent(self, agent_id: str) -> list[Episode]:
        """The agent's episodes, oldest first; in a run, the agent is the arm."""
        return self._by("agent", agent_id)

    def by_session(self, session_id: str) -> list[Episode]:
        """The episodes of one loop, oldest first."""
        return self._by("session", session_id)

    def _by(self, kind: str, name: str) -> list[Episode]:
        with self._lock:
            return [*self._look_ups.get((kind, name), ())]

    def relevant(self, text: str, k: int, min_score: float = 0.0) -> list[Episode]:
        """The `k` nearest episodes, best first, the newer first on a tie; `min_score` is inclusive. Raises ConfigError
        without a retriever.
        """
        if self._retriever is None:
            raise ConfigError("EpisodeBuffer: no retriever for relevant episodes; pass one")
        scores = dict(self._retriever.rank(text, k))
        with self._lock:
            near = {n: self._episodes[n] for n, score in scores.items() if score >= min_score and n in self._episodes}
        note(self._retriever, text, scores, near)
        return [*near.values()]

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Episode]:
        """A snapshot, oldest first."""
        with self._lock:
            return iter([*self._episodes.values()])


def _keys(episode: Episode) -> tuple[tuple[str, str], ...]:
    return ("task", episode.task_id), ("agent", episode.agent_id), ("session", episode.session_id)
