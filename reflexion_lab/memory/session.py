"""What one loop carries from attempt to attempt, as the prompt of the preset `bot` tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import CLASSES, classify_evaluation
from reflexion_lab.memory.lessons.insights import insight_of, with_insight
from reflexion_lab.records import Attempt, Check, Episode, Evaluation, Recollection, Reflection, Session
from reflexion_lab.tasks.evaluators.trajectory import summary_of
from reflexion_lab.text.shorten import line, percent

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
    tests = max(0, results.tests - sum(check.kind == "test" for check in results.failing))
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
