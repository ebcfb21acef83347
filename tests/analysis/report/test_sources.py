from msgspec.structs import replace

from reflexion_lab.analysis.report.sources import Sources
from reflexion_lab.memory.wisdom import extract
from reflexion_lab.notebook.view import view
from reflexion_lab.records import Wisdom

RUN = "20260101-000000-000000-reflexion-toy-s7"


def test_an_episode_is_told_with_its_place_and_its_words(attempt, reflection):
    made = [attempt("t/1", 1, 0.5, reflection=reflection(1)), attempt("t/1", 2, 1)]
    reader = replace(attempt("t/2", 1, 0), recalled=(f"ep-{RUN}/t/1-1", f"ep-{RUN}/t/1-2"))
    first, second = Sources({"t/1": made, "t/2": [reader]}, RUN).gifts(reader)
    assert (first.kind, first.where, first.was_read, first.is_own) == ("episode", "attempt 1 at t/1", True, False)
    assert dict(first.words) == {"verdict": "failed, 0 of 1 right", "root cause": "cause 1", "to change": "change"}
    assert (second.where, second.words) == ("attempt 2 at t/1", [("verdict", "passed, 1 of 1 right")])


def test_what_an_attempt_recalls_of_its_own_loop_is_told_as_such_even_outside_of_a_run(attempt, reflection):
    made = [attempt("t/1", 1, 0, reflection=reflection(1)), replace(attempt("t/1", 2, 1), recalled=("ep-t/1-1",))]
    (gift,) = Sources({"t/1": made}).gifts(made[1])
    assert (gift.where, gift.is_own) == ("attempt 1 at this task", True)
    assert "cause 1" in view(made).html


def test_an_episode_of_another_run_is_placed_though_its_words_are_elsewhere(attempt):
    other = RUN.replace("s7", "s8")
    reader = replace(attempt("t/1", 1, 0), recalled=(f"ep-{other}/t/9-3",))
    (gift,) = Sources({"t/1": [reader]}, RUN).gifts(reader)
    assert (gift.where, gift.words, gift.is_own) == (f"attempt 3 at t/9, run {other}", [], False)


def test_wisdom_is_what_memory_began_with_else_what_the_run_itself_gives(attempt, reflection):
    known = Wisdom(
        wisdom_id="wis-1",
        pattern="off by one",
        frequency=4,
        impact=0,
        domain="code",
        advice="count",
        tasks=("a", "b", "c", "d"),
    )
    shared = [attempt(f"t/{n}", 1, 0, reflection=reflection(1, words="Forgot the `key`")) for n in (1, 2)]
    (own,) = extract(_episodes(shared))
    reader = replace(attempt("t/3", 1, 0), recalled_wisdom=("wis-1", own.wisdom_id, "wis-lost"))
    gifts = Sources({a.task_id: [a] for a in (*shared, reader)}, RUN, [known]).gifts(reader)
    assert [gift.where for gift in gifts] == [
        "4 attempts at a, b, c and 1 more", "2 attempts at t/1, t/2, as it stood at the end", ""
    ]  # fmt: skip
    assert gifts[0].words == [("pattern", "off by one"), ("advice", "count")]
    assert gifts[1].words[0] == ("pattern", "Forgot the `key`")
    assert gifts[2].words == []


def test_a_mistake_tells_what_failed_at_its_task_and_room_that_lacked_is_told(attempt):
    name = f"mistake-{RUN}/t/1-abc123"
    reader = attempt("t/2", 1, 0)
    reader = replace(reader, recalled_mistakes=(name,), trajectory=replace(reader.trajectory, left_out=(name,)))
    (gift,) = Sources({"t/1": [attempt("t/1", 1, 0), attempt("t/1", 2, 1)], "t/2": [reader]}, RUN).gifts(reader)
    assert (gift.where, gift.was_read) == ("t/1", False)
    assert gift.words == [("attempt 1", "assert True: failed the assertion is false")]


def _episodes(made):
    from reflexion_lab.analysis.report.sources import _as_episode

    return map(_as_episode, made)
