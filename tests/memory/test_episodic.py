import pytest
from msgspec.structs import replace

from reflexion_lab.memory.episodic import OVERHEAD, SMALLEST_RATIO, EpisodicMemory, token_ratio
from reflexion_lab.memory.recall import Window
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.records import MemoryState, Message, Task, Trajectory, Usage
from reflexion_lab.text.shorten import estimated
from tests import builders

PASSED = builders.evaluation(passed=True)


def task(task_id):
    return Task(task_id=task_id, prompt="", entry_point="f")


def attempt(task_id, number, code="x"):
    return builders.attempt(number=number, task_id=task_id, trajectory=Trajectory(solution=code, strategy="s"))


def filled(recall, numbers, max_episodes=1000):
    memory = EpisodicMemory(recall, max_episodes)
    for number in numbers:
        memory.remember(task("a"), attempt("a", number))
    return memory


def numbers(memory, task_id="a"):
    return [episode.attempt_number for episode in memory.recall(task(task_id)).episodes]


@pytest.mark.parametrize(
    ("omega", "expected"), [(0, []), (1, [5]), (3, [3, 4, 5]), (9, [1, 2, 3, 4, 5]), ("all", [1, 2, 3, 4, 5])]
)
def test_omega_shows_the_newest_oldest_first(omega, expected):
    assert numbers(filled(Window(omega), range(1, 6))) == expected


def test_the_window_is_of_the_task_and_keeps_everything_that_it_does_not_show():
    memory = filled(Window(1), range(1, 6))
    memory.policy = Window(3)
    assert numbers(memory) == [3, 4, 5]
    memory = filled(Window("all"), [1, 2])
    memory.remember(task("b"), attempt("b", 1))
    assert numbers(memory, "b") == [1]


def test_at_capacity_the_oldest_leaves():
    memory = filled(Window("all"), range(1, 6), max_episodes=3)
    assert numbers(memory) == [3, 4, 5]
    recollection = memory.recall(task("a"))
    assert memory.state(recollection) == MemoryState(capacity=3, size=3, in_context=3, total=5, omega=3, own=3)


def test_reflection_files_hold_the_attempts_with_words_and_cost_no_attempt(tmp_path):
    (tmp_path / "taken").write_text("")
    memory = EpisodicMemory(Window("all"), files=ReflectionFiles(tmp_path / "taken"))
    with pytest.warns(RuntimeWarning, match=r"taken.*the run continues"):
        memory.remember(task("a"), replace(attempt("a", 1), evaluation=PASSED))
    assert numbers(memory) == [1]
    memory = EpisodicMemory(Window("all"), files=ReflectionFiles(tmp_path))
    memory.remember(task("a"), attempt("a", 1))
    memory.remember(task("a"), replace(attempt("a", 2), evaluation=PASSED))
    assert [file.number for file in ReflectionFiles(tmp_path).read("a")] == [2]


CHINESE = "给定一个整数列表和一个阈值" * 20


def counted(prompt_tokens, calls=1, prompt="one two three four"):
    messages = (Message(role="user", content=prompt),) if prompt else ()
    usage = Usage(calls=calls, prompt_tokens=prompt_tokens)
    return Trajectory(solution="x", strategy="s", messages=messages, usage=usage)


@pytest.mark.parametrize(
    ("trajectory", "ratio"),
    [
        (counted(4), 4 / estimated("one two three four")),
        (counted(40), 1.0),  # of a chat template
        (counted(8 + OVERHEAD), 8 / estimated("one two three four")),
        (counted(len(CHINESE), prompt=CHINESE), len(CHINESE) / estimated(CHINESE)),  # BERT has a token a character
        (counted(len(CHINESE) // 8, prompt=CHINESE), 0.0),
        (counted(3), SMALLEST_RATIO),  # a server that truncates counts what it kept
        (counted(2), 0.0),  # what a server had cached is left out
        (counted(0), 0.0),  # no count
        (counted(8, calls=2), 0.0),  # prompts of several calls
        (counted(8, prompt=""), 0.0),
    ],
)
def test_the_models_token_count_is_used_if_it_is_of_one_full_prompt(trajectory, ratio):
    assert token_ratio(trajectory) == ratio


def test_the_largest_ratio_of_the_tasks_prompts_counts():
    memory = EpisodicMemory(Window(1))
    assert memory.recall(task("a")).token_ratio == 1.0
    for number, tokens in enumerate((4, 6 + OVERHEAD, 5), 1):
        memory.remember(task("a"), replace(attempt("a", number), trajectory=counted(tokens)))
    assert memory.recall(task("a")).token_ratio == 6 / estimated("one two three four")
