"""The stand-in for a hosted model: the same reply to the same request, rates as planted, and a server's manners."""

import json
from collections import Counter

import pytest

from experiments.own_words_api.stub import BUSY, OWN, REPAIR, VAGUE, Stub, Student, kind_of_words
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

TASKS = humaneval().tasks
STUDENT = Student(TASKS)


def request(task, seed=1, **more):
    prompt = f"Complete this Python function.\n\n```python\n{task.prompt.strip()}\n```"
    body = {"model": "gpt-3.5-turbo-0125", "messages": [{"role": "user", "content": prompt}], "seed": seed}
    return json.dumps(body | {"max_tokens": 1024} | more).encode()


def answered(stub, raw):
    """The answer, asked for again while the server is busy."""
    while (answer := stub.answer(raw))[0] == 429:
        assert "Retry-After" in answer[2]
    return answer


def test_first_programs_are_right_for_two_tasks_in_three():
    chances = [STUDENT.chance(task, task.prompt) for task in TASKS]
    assert 0.6 < sum(chances) / len(chances) < 0.7


@pytest.mark.parametrize(("statements", "kind"), [
    ("", "none"), (f"What to change: In my function I will {OWN}.", "own"),
    (f"What to change: In my function I will {VAGUE}.", "vague"), ("Root cause: Amber lake, cedar wind moss", "filler"),
    ("Root cause: My result has the right items in reverse order.", "other"),
    ("What to change: The body of the function must be exactly this:", "quoted"),
])  # fmt: skip
def test_a_retry_is_as_good_as_the_words_that_it_reads(statements, kind):
    after = f"1:\n```python\npass\n```\n> 0 of 2 tests passed.\n{statements}\n"
    assert kind_of_words(after, TASKS[0]) == kind
    chances = [STUDENT.chance(task, f"{task.prompt}\nAttempt {after}") for task in TASKS]
    assert sum(chances) / len(chances) == pytest.approx(REPAIR[kind], abs=0.06)


def test_the_server_has_the_manners_of_a_hosted_one():
    stub = Stub()
    try:
        requests = [request(task, seed) for task in TASKS for seed in range(3)]
        answers = [answered(stub, raw) for raw in requests]
        assert [answered(stub, raw) for raw in requests[:20]] == answers[:20]
        choices = [body["choices"][0] for _, body, _ in answers]
        texts = [choice["message"]["content"] for choice in choices]
        kinds = Counter("refused" if text is None else "empty" if not text else "fenced" for text in texts)
        assert min(kinds["refused"], kinds["empty"]) > 0
        assert kinds["fenced"] > 0.97 * len(texts)
        assert all("```python\n" in text for text in texts if text)
        assert 0 < stub.busy < 3 * BUSY * len(requests)
        assert all(body["usage"]["completion_tokens"] <= 1024 for _, body, _ in answers)
        cut = answered(stub, request(TASKS[0], max_tokens=5))[1]["choices"][0]
        assert cut["finish_reason"] == "length"
        schema = {"type": "json_schema", "json_schema": {"name": "reply"}}
        assert stub.answer(request(TASKS[0], response_format=schema))[0] == 400
    finally:
        stub.server_close()
