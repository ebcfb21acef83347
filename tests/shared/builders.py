"""Builders of records: every required field has a default, and any field may be given."""

from reflexion_lab.records import Attempt, Episode, Evaluation, MemoryState, Reflection, Trajectory

STATE = MemoryState(capacity=1, size=0, in_context=0, total=0)


def reflection(**fields):
    defaults = {
        "reflection_id": "r",
        "about_attempt": 1,
        "root_cause": "c",
        "what_went_wrong": "w",
        "what_to_change": "x",
        "confidence": 0.5,
        "source": "llm",
    }
    return Reflection(**defaults | fields)


def episode(name="", **fields):
    defaults = {
        "agent_id": "a",
        "task_id": "t",
        "attempt_number": 1,
        "code": "x",
        "test_results": "",
        "reflection": None,
        "passed": False,
    }
    return Episode(**{"episode_id": name} | defaults | fields)


def evaluation(passed=False, **fields):
    return Evaluation(**{"passed": passed, "outcome": "pass" if passed else "fail", "reward": float(passed)} | fields)


def attempt(number=1, **fields):
    defaults = {
        "task_id": "t",
        "number": number,
        "recalled": (),
        "trajectory": Trajectory(solution="x", strategy="s"),
        "evaluation": evaluation(),
        "memory": STATE,
    }
    return Attempt(**defaults | fields)
