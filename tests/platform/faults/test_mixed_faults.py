"""Any mix of faults that pass: the figures of a run are those of a server that never fails."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Message, Sampling
from reflexion_lab.tasks.benchmarks.basics import basics

NUMBERS = itertools.count()
TASKS = basics(seed=0, n=6)
SHARED = (
    "benchmark.load.n=6", "retriever=recency", "memory.shared.round_size=2", "memory.shared.shown={wisdom:2}",
    "feedback_source=visible", "reflector=rules",
)  # fmt: skip
WAITED_FOR = frozenset({"429", "408", "409", "500", "502", "503"})
"""Those whose server says when to come again: soon. After others half a second is waited, and then a whole one."""


def mixes(faults, slow):
    names = st.sets(st.sampled_from(sorted(faults.RETRYABLE)), min_size=1)
    return st.tuples(
        st.integers(0, 2**32), names if slow else names.map(lambda some: (some & WAITED_FOR) or WAITED_FOR)
    )


def end_alike(faults, student, measured, unbroken, runs, drawn, *overrides):
    seed, names = drawn
    with faults.FaultServer(student, faults.mixed(seed, 0.3, names)) as server:
        folder = runs(server, f"arm=mix{next(NUMBERS)}", *overrides)
    interrupted, whole = measured(folder), unbroken(*overrides)
    assert interrupted == whole
    assert set(server.answered.values()) == {1}  # nothing that was answered was asked, and paid, again
    counted = sum(usage.retries for usage in summary(Log.read(folder)).usage.values())
    kinds = set(server.faults) & faults.ANSWERED
    assert counted <= server.faults.total() - sum(server.faults[kind] for kind in kinds)
    return folder, server


CHECKED = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)


@CHECKED
@given(data=st.data())
def test_mixed_faults_change_no_figure(faults, student, measured, unbroken, finished, data):
    draws = data.draw(mixes(faults, slow=False))
    end_alike(faults, student, measured, unbroken, finished, draws, "model.retries=2")


@CHECKED
@given(data=st.data())
def test_nor_do_they_where_every_one_of_them_breaks_a_loop_off(faults, student, measured, unbroken, finished, data):
    draws = data.draw(mixes(faults, slow=True))
    folder, server = end_alike(faults, student, measured, unbroken, finished, draws, "model.retries=0")
    broken = server.faults.total() - sum(server.faults[kind] for kind in faults.ANSWERED)
    assert len(folder.set_aside) == broken


def test_a_deferred_task_restarts_within_its_round(faults, student, measured, unbroken, run):
    first = TASKS[0].prompt.strip()
    left = ["503"]
    with faults.FaultServer(student, lambda r: left.pop() if left and first in r.text else "") as server:
        folder, problem = run(server, "model.retries=0", *SHARED)
    assert problem is None
    assert measured(folder) == unbroken(*SHARED)
    assert [deferral.task_id for deferral in folder.set_aside] == [TASKS[0].task_id]
    own_round = {TASKS[0].task_id, TASKS[1].task_id}
    ended = list(folder.results)
    assert set(ended[:2]) == own_round
    assert any(attempt.recalled_wisdom for loop in folder.attempts.values() for attempt in loop)


def test_an_answer_that_comes_twice_is_never_taken_for_the_next_one(faults, student):
    with faults.FaultServer(lambda body: f"to {body['messages'][0]['content']}", lambda request: "twice") as server:
        model = OpenAIModel("student", server.url, timeout=20)
        items = [[Message(role="user", content=str(number))] for number in range(40)]
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(lambda messages: model.complete(messages, sampling=Sampling()).text, items))
        model.close()
    assert replies == [f"to {number}" for number in range(40)]


@pytest.mark.soak
@settings(CHECKED, max_examples=150, derandomize=False)
@given(data=st.data())
def test_mixed_faults_change_no_figure_in_many_mixes(faults, student, measured, unbroken, finished, data):
    retries = data.draw(st.integers(0, 3))
    shared = SHARED if data.draw(st.booleans()) else ()
    draws = data.draw(mixes(faults, slow=True))
    end_alike(faults, student, measured, unbroken, finished, draws, f"model.retries={retries}", *shared)
