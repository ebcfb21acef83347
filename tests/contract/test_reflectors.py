"""What every reflector promises, whatever it is given."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflexion_lab.agent.reflectors.fallback import WithFallback
from reflexion_lab.agent.reflectors.llm import LLMReflector
from reflexion_lab.agent.reflectors.none import NoReflection
from reflexion_lab.agent.reflectors.placebo import FeedbackOnly, Generic, Keywords, LengthMatched
from reflexion_lab.agent.reflectors.reviewed import Reviewed
from reflexion_lab.agent.reflectors.rules import Rules
from reflexion_lab.protocols import Reflector
from reflexion_lab.records import Attempt, Check, Completion, Episode, Message, Reflection, Sampling, Task
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.pool import Shuffled
from tests import builders as make

REPLY = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5"


class Echo:
    """A model that quotes back whatever it reads: what may not be told must not be asked."""

    fingerprint = "echo"
    slots = 1
    context = 2048

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        read = " ".join(messages[-1].content.split()).replace("ROOT_CAUSE", "").replace("CONFIDENCE", "")
        return Completion(text=REPLY.replace("a\n", f"{read}\n", 1), model="echo")


def with_fallback() -> WithFallback:
    return WithFallback(LLMReflector(Echo(), Sampling(max_tokens=192)), Rules())


MAKE: dict[str, Callable[[Path], Reflector]] = {
    "none": lambda pool: NoReflection(),
    "rules": lambda pool: Rules(),
    "llm": lambda pool: with_fallback(),
    "feedback_only": lambda pool: FeedbackOnly(),
    "generic": lambda pool: Generic(),
    "length_matched": lambda pool: LengthMatched(with_fallback(), seed=3),
    "keywords": lambda pool: Keywords(with_fallback()),
    "shuffled": lambda pool: Shuffled(pool, seed=3),
    "reviewed": lambda pool: Reviewed(with_fallback(), "retry"),
    "rejected": lambda pool: Reviewed(Rules(), "reject", severe=("low_confidence", "short")),
}
EVERY = pytest.mark.parametrize("name", MAKE)


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which enough is left for every attempt of a test."""
    folder = RunFolder(tmp_path_factory.mktemp("pool"))
    folder.write_manifest(make.manifest("pool"))
    for number in range(9):
        folder.append("attempts.jsonl", failed(f"other/{number}", reflection=make.reflection(number)))
    folder.close()
    return folder.path


def failed(task_id: str, *checks: Check, outcome: str = "fail", solution: str = "x = 1\n", **fields: object) -> Attempt:
    judged = {"passed": outcome == "pass", "outcome": outcome}
    return make.attempt(*checks, judged=judged, acted={"solution": solution}, task_id=task_id, **fields)


def secret(task: str = "t/1") -> Task:
    return Task(
        task_id=task, prompt="def f(x):\n", entry_point="f", hidden_tests=("assert f(90210) == 'xyzzy'",),
        canonical_solution="return plugh",
    )  # fmt: skip


ODD = [
    failed("t/1"),
    failed("t/1", outcome="extraction_failed", solution=""),
    failed("t/1", Check(name="", outcome="error")),
    failed("t/1", Check(name="assert f('💥\ud800') == 'é'", outcome="fail", message="\x00\n\u2028"), solution="\ud800"),
    failed(
        "t/1", *[Check(name="n" * 5000, outcome="error", error_type="E" * 999, message="m\n" * 9999, line=10**9)] * 99
    ),
    failed("t/1", Check(name="assert f(1) == 1", outcome="pass"), outcome="pass"),
    failed("t/1", Check(name="ROOT_CAUSE: CONFIDENCE: 2 {{ x }} {% if %}", outcome="timeout"), outcome="timeout"),
    failed("t/1", outcome="memory", solution="y" * 200_000),
]


@EVERY
@pytest.mark.parametrize("attempt", ODD)
def test_odd_evidence_gives_one_reflection_or_none(name: str, attempt: Attempt, pool: Path) -> None:
    reflection = MAKE[name](pool).reflect(secret(), attempt, [])
    assert reflection is None or isinstance(reflection, Reflection)
    assert (reflection is None) == (name == "none")
    if reflection:
        assert 0 <= reflection.confidence <= 1
        assert (reflection.about_attempt, reflection.reflection_id) == (attempt.number, f"t/1#{attempt.number}")


@EVERY
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    texts=st.lists(st.text(max_size=80), min_size=5, max_size=5),
    outcome=st.sampled_from(["fail", "error", "timeout", "memory", "early_exit"]),
)
@pytest.mark.slow
def test_any_evidence_gives_the_same_words_again(name: str, texts: list[str], outcome: str, pool: Path) -> None:
    check = Check(name=texts[0], outcome=outcome, error_type=texts[1], message=texts[2], expected=texts[3], line=1)
    attempt = failed("t/1", check, outcome=outcome, solution=texts[4])
    first, again = (MAKE[name](pool).reflect(secret(), attempt, []) for _ in range(2))
    assert first == again
    assert first is None or 0 <= first.confidence <= 1


@EVERY
def test_a_loop_of_attempts_gives_the_same_words_again(name: str, pool: Path) -> None:
    def loop() -> list[Reflection | None]:
        reflector, episodes, reflections = MAKE[name](pool), list[Episode](), list[Reflection | None]()
        for number in range(1, 5):
            attempt = failed("t/1", Check(name="assert f(1) == 2", outcome="fail"), number=number)
            reflections.append(reflector.reflect(secret(), attempt, episodes))
            episodes.append(make.episode(number, reflection=reflections[-1]))
        return reflections

    assert loop() == loop()


@EVERY
def test_hidden_tests_and_the_solution_are_never_told(name: str, pool: Path) -> None:
    for attempt in ODD:
        reflection = MAKE[name](pool).reflect(secret(), attempt, [])
        assert not any(mark in repr(reflection) for mark in ("xyzzy", "90210", "plugh"))


@EVERY
def test_a_control_names_itself(name: str, pool: Path) -> None:
    reflection = MAKE[name](pool).reflect(secret(), ODD[0], [])
    controls = {"feedback_only", "generic", "length_matched", "keywords", "shuffled"}
    assert (reflection is not None and reflection.source == f"control:{name}") == (name in controls)
