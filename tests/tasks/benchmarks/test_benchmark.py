import pytest

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark


def task(task_id: str) -> Task:
    return Task(task_id=task_id, prompt="def f(): ...", entry_point="f")


LETTERS = Benchmark("letters", tuple(task(f"L/{letter}") for letter in "qwertyuiop"))


def names(benchmark: Benchmark) -> str:
    return "".join(task.task_id[-1] for task in benchmark)


def test_tasks_are_found_by_position_id_and_slice() -> None:
    assert (names(LETTERS), len(LETTERS)) == ("qwertyuiop", 10)
    assert LETTERS[1] is LETTERS["L/w"]
    assert LETTERS[-1].task_id == "L/p"
    assert isinstance(LETTERS[2:4], Benchmark)
    assert names(LETTERS[2:4]) == "er"
    with pytest.raises(KeyError, match=r"letters has no task 'L/W'.*did you mean 'L/."):
        LETTERS["L/W"]


def test_any_text_serves_as_an_id_but_once() -> None:
    ids = ("../../etc/passwd", "a\nb", "\0", "..", " ")
    assert [t.task_id for t in Benchmark("odd", tuple(map(task, ids)))] == list(ids)
    with pytest.raises(ValueError, match="letters: 1 task ids occur twice, as 'a'"):
        Benchmark("letters", (task("a"), task("b"), task("a")))


def test_the_digest_depends_on_content_and_order_of_the_whole_alone() -> None:
    same = Benchmark("another name", tuple(task(f"L/{letter}") for letter in "qwertyuiop"))
    turned = Benchmark("letters", LETTERS.tasks[::-1])
    assert same.digest == LETTERS.digest
    assert len({LETTERS.digest, turned.digest, LETTERS[:3].digest, Benchmark("l", LETTERS.tasks[:3]).digest}) == 3
    assert len(LETTERS.digest) == 64
    for part in (LETTERS[:3], LETTERS.sample(3, 0), LETTERS.only(["L/q"]), LETTERS.select(limit=1)):
        assert (part.name, part.digest) == (LETTERS.name, LETTERS.digest)
    assert Benchmark("letters", LETTERS.tasks, "abc")[:1].digest == "abc"


def test_a_sample_is_in_benchmark_order_and_hangs_on_its_seed() -> None:
    draws = {seed: names(LETTERS.sample(4, seed)) for seed in range(20)}
    assert all(draw == "".join(sorted(draw, key="qwertyuiop".index)) for draw in draws.values())
    assert all(len(set(draw)) == 4 for draw in draws.values())
    assert draws == {seed: names(LETTERS.sample(4, seed)) for seed in range(20)}
    assert len(set(draws.values())) > 10
    for n in range(1, 10):  # a smaller one is part of a larger one
        assert set(names(LETTERS.sample(n, 7))) < set(names(LETTERS.sample(n + 1, 7)))
    assert names(LETTERS.select(sample=5)) == names(LETTERS.sample(5, 0))
    assert names(LETTERS.select(sample=5, seed=1)) != names(LETTERS.sample(5, 0))


def test_ids_are_taken_in_benchmark_order_then_a_sample_then_a_limit() -> None:
    assert names(LETTERS.only(["L/p", "L/q", "L/p"])) == "qp"
    assert names(LETTERS.only("L/p")) == "p"
    with pytest.raises(ValueError, match=r"benchmark\.ids: .*'L/q2'.*did you mean 'L/q'.*'zebra'"):
        LETTERS.only(["L/q", "zebra", "L/q2"])
    with pytest.raises(ValueError, match=r"benchmark\.ids"):
        LETTERS.only([])
    assert LETTERS.select() == LETTERS
    assert names(LETTERS.select(limit=99)) == "qwertyuiop"
    ids = [f"L/{letter}" for letter in "poiuy"]
    selection = LETTERS.select(ids=ids, sample=3, seed=5, limit=2)
    assert names(selection) == names(LETTERS.only(ids).sample(3, 5))[:2]


@pytest.mark.parametrize("n", [-1, 0, 11])
def test_a_size_that_cannot_be_is_an_error(n: int) -> None:
    with pytest.raises(ValueError, match=f"benchmark.sample: got {n}, expected 1 to 10 tasks of letters"):
        LETTERS.sample(n, 0)
    if n < 1:
        with pytest.raises(ValueError, match=f"select.limit: got {n}, expected 1 or more, or null"):
            LETTERS.select(limit=n)
