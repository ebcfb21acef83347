from reflexion_lab.progress import Progress
from reflexion_lab.records import Attempt, Evaluation, Grade, MemoryState, Trajectory, Usage


def attempt(cached=False):
    usage = Usage(calls=1, prompt_tokens=5, completion_tokens=7, seconds=1.0, cost=0.25)
    return Attempt(
        task_id="t",
        number=1,
        recalled=(),
        trajectory=Trajectory(solution="", strategy="s", usage=usage, cached=cached),
        evaluation=Evaluation(passed=True, outcome="pass", reward=1.0),
        memory=MemoryState(capacity=1, size=0, in_context=0, total=0),
    )


def grade(passed):
    return Grade(task_id="t", number=1, passed=passed, outcome="pass", checks_passed=1, checks_total=1, sealed=False)


def test_a_log_gets_a_line_with_tasks_passes_rates_cost_and_time(capsys):
    progress = Progress(total=3)
    progress.attempt(attempt())
    progress.task(grade(True))
    progress.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("1/3 tasks, 1 passed, ")
    for part in ("attempts/s", "tokens/s", "cost 0.2500", "left"):
        assert part in line


def test_what_the_cache_answered_is_not_counted_as_work():
    progress = Progress(total=1, quiet=True)
    progress.attempt(attempt(cached=True))
    assert progress.usage == Usage()
    progress.attempt(attempt())
    assert progress.usage.completion_tokens == 7


def test_a_resumed_run_begins_where_it_stood(capsys):
    progress = Progress(total=9, done=4, passed=2)
    progress.close()
    assert capsys.readouterr().err.startswith("4/9 tasks, 2 passed")


def test_quiet_is_quiet(capsys):
    progress = Progress(total=1, quiet=True)
    progress.task(grade(False))
    progress.close()
    assert capsys.readouterr().err == ""
