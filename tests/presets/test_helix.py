"""What the document of the debate system promises, through the user's door."""

import time

import pytest

import reflexion_lab as rl
from reflexion_lab.records import Evaluation

SMALL = ("preset=helix", "model=simulated", "model.first=0", "model.repair=0", "tracker=none", "store=none")


def test_a_loop_by_hand_has_a_result_and_its_episodes_are_looked_up():
    parts = rl.by_hand(*SMALL, "benchmark.load.n=2")
    task, loop = parts.tasks[0].public, parts.loop()
    solution = loop.solve(task)
    assert (solution.passed, solution.confidence, solution.stop_reason) == (False, 0.0, "max_attempts")
    assert [reflection.about_attempt for reflection in solution.reflections] == [1, 2, 3]
    assert solution.output == solution.attempts[0].trajectory.solution  # all are equally wrong
    assert [check.outcome for check in solution.tests] == ["error", "error"]
    assert solution.seconds > 0
    assert solution.episodes == tuple(loop.memory.buffer.by_agent("helix"))
    assert solution.episodes == tuple(loop.memory.buffer.by_session(task.task_id))
    assert loop.memory.buffer.by_agent("other") == loop.memory.buffer.by_session("other") == []
    for number, episode in enumerate(solution.episodes, 1):
        results, reflection = episode.results, solution.reflections[number - 1]
        assert (results.total, results.passed, results.failed) == (2, 0, 2)
        assert [check.error_type for check in results.failing] == ["ValueError"] * 2
        assert results.failing[0].name in episode.test_results
        assert (episode.attempt_number, episode.reflection, episode.agent_id) == (number, reflection, "helix")
        assert (episode.improvement, episode.confidence) == (reflection.what_to_change, reflection.confidence)
        assert "ValueError" in episode.failure_analysis and episode.timestamp > 0
        assert (episode.turn_id, episode.session_id) == (str(number), task.task_id)
        assert (episode.task_description, episode.code) == (
            task.prompt,
            solution.attempts[number - 1].trajectory.solution,
        )


def test_the_loop_ends_with_the_first_program_that_passes():
    parts = rl.by_hand(*SMALL, "model.first=1", "benchmark.load.n=1")
    solution = parts.loop().solve(parts.tasks[0].public)
    assert (solution.passed, solution.confidence, len(solution.attempts), solution.reflections) == (True, 1.0, 1, ())
    assert (solution.stop_reason, solution.episodes[0].results.passed) == ("passed", 2)


def test_the_configuration_is_that_of_the_document():
    cfg = rl.compose(*SMALL)
    assert (cfg.loop.max_attempts, cfg.loop.confidence_threshold, cfg.loop.timeout) == (3, 0.95, 300)
    assert rl.by_hand(*SMALL).loop().memory.buffer.capacity == 1000
    example = ("loop.max_attempts=5", "loop.confidence_threshold=0.9", "loop.timeout=600", "memory.max_episodes=2000")
    parts = rl.by_hand(*SMALL, *example, "benchmark.load.n=1")
    loop = parts.loop()
    assert (len(loop.solve(parts.tasks[0].public).attempts), loop.memory.buffer.capacity) == (5, 2000)


class Slow:
    """An evaluator that takes 1.5 s and states no seconds."""

    def evaluate(self, task, trajectory):
        time.sleep(1.5)
        return Evaluation(passed=False, outcome="fail", reward=0.0)


def test_the_time_of_an_own_evaluator_ends_the_loop(tmp_path):
    own = ("loop.timeout=2.9", "loop.max_attempts=9", "benchmark.load.n=1", f"run_root={tmp_path}")
    run = rl.run(*SMALL, *own, evaluator=Slow, quiet=True)
    *_, last = run.attempts(*run.task_ids)
    assert (last.stop_reason, last.number) == ("timeout", 2)


@pytest.mark.parametrize("workers", [1, 3])
def test_later_tasks_of_a_run_read_wisdom_and_similar_episodes(tmp_path, workers):
    words = ("benchmark.load.n=8", f"workers={workers}", f"run_root={tmp_path}", "loop.max_attempts=2")
    run = rl.run(*SMALL, *words, "cache.mode=off", quiet=True)
    order = [task.task_id for task in rl.by_hand(*SMALL, *words).tasks]
    for place, task in enumerate(order):
        prompts = [attempt.trajectory.messages[-1].content for attempt in run.attempts(task)]
        first, second = run.attempts(task)
        others = {name.rsplit("-", 1)[0].partition("/")[2] for name in first.recalled}
        assert bool(others) == ("at a similar task, which failed" in prompts[0]) == (place >= 4)
        assert others <= {*order[:4]}
        assert bool(second.recalled_wisdom) == ("Causes of failure that have come back:" in prompts[1]) == (place >= 4)


def test_a_second_run_reads_wisdom_and_episodes_of_the_first(tmp_path):
    words = (*SMALL[:-1], "benchmark.load.n=2", "loop.max_attempts=2", f"run_root={tmp_path}")
    for seen, run in enumerate([rl.run(*words, "seed=0", quiet=True), rl.run(*words, "seed=1", quiet=True)]):
        for first, second in map(run.attempts, run.task_ids):
            assert bool(first.recalled) == bool(second.recalled_wisdom) == bool(seen)
