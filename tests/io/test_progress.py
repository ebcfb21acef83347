from reflexion_lab.io.terminal import Progress
from reflexion_lab.records import Usage
from tests.builders import grade

USAGE = Usage(calls=1, prompt_tokens=5, completion_tokens=7, seconds=1.0, cost=0.25)


def test_a_log_gets_a_line_with_tasks_passes_rates_cost_and_time(capsys):
    progress = Progress(total=3, spent=lambda: USAGE)
    progress.attempt()
    progress.task(grade(passed=True))
    progress.close()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("1/3 tasks, 1 passed, ")
    for part in ("attempts/s", "tokens/s", "cost 0.2500", "left"):
        assert part in line


def test_the_line_counts_uncached_calls_begins_where_a_resumed_run_stood_and_quiet_is_quiet(capsys):
    spent = Usage(calls=1, prompt_tokens=1, cost=0.75)  # a reflection; the actor's reply was cached
    progress = Progress(total=1, spent=lambda: spent)
    progress.attempt()
    progress.close()
    assert "cost 0.7500" in capsys.readouterr().err
    progress = Progress(total=9, finished=4, passed=2)
    progress.close()
    assert capsys.readouterr().err.startswith("4/9 tasks, 2 passed")
    progress = Progress(total=1, quiet=True)
    progress.task(grade())
    progress.close()
    assert capsys.readouterr().err == ""
