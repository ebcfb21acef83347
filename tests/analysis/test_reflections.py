"""Figures on reflections, by hand."""

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.learning.effect import readings, reward_change
from reflexion_lab.analysis.learning.reflections import ReflectionFigures, forecasts, reflections
from reflexion_lab.analysis.run_log import Log

RUN_ID = "run-1"


@pytest.fixture
def tried(attempt, reflection):
    """An attempt at a task: `reads` are numbers of attempts at it, or ids of episodes; it reflects unless it passed."""

    def make(task_id, number, reward, reads=(), source="llm", **fields):
        words = reflection(number, source) if 0 <= reward < 1 else None
        words = replace(words, **fields) if words else None
        recalled = tuple(f"ep-{task_id}-{name}" if isinstance(name, int) else name for name in reads)
        return replace(attempt(task_id, number, reward, reflection=words), recalled=recalled)

    return make


@pytest.fixture
def attempts(tried):
    """Of three retries that read one, one passes; of two that read none, one."""
    return {
        "a": [
            tried("a", 1, 0.5, category="assertion", flags=("generic", "misses_check"), confidence=0.9),
            tried("a", 2, 0.0, (1,), category="type", flags=("leaks_value",), confidence=0.8),
            tried("a", 3, 1.0, (1, 2)),
        ],
        "b": [
            tried("b", 1, 0.0, category="type", confidence=0.3, flags=("leaks_value", "holds_code")),
            tried("b", 2, 0.25, (1,), "rules:type"),
        ],
        "c": [tried("c", 1, 0.0, category="assertion"), tried("c", 2, 1.0)],
        "d": [
            tried("d", 1, 0.0, source="rules:syntax", category="syntax"),
            tried("d", 2, 0.5, source="control:advice"),
        ],
        "e": [tried("e", 1, 1.0)],
    }


@pytest.fixture
def log(write_run, attempts) -> Log:
    return Log.read(write_run(attempts=attempts))


@pytest.fixture
def figures(log) -> ReflectionFigures:
    return reflections(log)


def counted(rate):
    return rate.k, rate.n


def test_a_run_without_any_reflection_has_no_figures(write_run):
    assert reflections(Log.read(write_run({"a": [(1.0, True)]}))) is None


def test_reflections_are_counted_by_who_wrote_them_and_flags_are_rates_of_all(figures):
    assert {name: group.n for name, group in figures.by_source.items()} == {"llm": 4, "rules": 2, "control:advice": 1}
    assert next(iter(figures.by_source)) == "llm"
    assert (figures.n, figures.tasks) == (7, 4)
    assert counted(figures.every.read) == (3, 7)  # a later attempt names its episode
    assert counted(figures.by_source["rules"].read) == (0, 2)
    assert {name: counted(rate) for name, rate in figures.every.flags.items()} == {
        "generic": (1, 7), "misses_check": (1, 7), "leaks_value": (2, 7), "holds_code": (1, 7),
    }  # fmt: skip
    assert figures.by_source["llm"].flags["generic"].n == 4
    assert figures.by_source["rules"].flags == {}
    assert counted(figures.mentions_check) == (6, 7)
    assert counted(figures.leaks) == (2, 7)


def test_a_flag_that_stands_twice_counts_once(write_run, tried):
    log = Log.read(write_run(attempts={"a": [tried("a", 1, 0.0, flags=("short", "short"))]}))
    assert counted(reflections(log).every.flags["short"]) == (1, 1)


def test_without_any_flag_nobody_is_said_to_have_looked(write_run, tried):
    figures = reflections(Log.read(write_run(attempts={"a": [tried("a", 1, 0.0)]})))
    assert figures.is_reviewed is False
    assert figures.mentions_check is figures.leaks is None


def test_retries_that_read_one_are_compared_with_those_that_read_none(figures):
    assert counted(figures.every.retries) == (1, 3)  # one read two reflections and counts once
    assert figures.every.tasks == 2
    assert (counted(figures.base), figures.base_of) == ((1, 2), "retries without a reflection")
    assert figures.every.effect.value == pytest.approx(1 / 3 - 1 / 2)
    assert figures.every.reward_change == pytest.approx((-0.5 + 1.0 + 0.25) / 3)
    assert counted(figures.every.hidden) == (1, 3)


def test_where_every_retry_read_one_the_base_is_all_of_them(write_run, attempts):
    figures = reflections(Log.read(write_run(attempts={name: attempts[name] for name in ("a", "b")})))
    assert (counted(figures.base), figures.base_of) == ((1, 3), "all retries")
    assert figures.every.effect is None


def test_before_the_seal_there_are_no_hidden_verdicts(write_run, attempts):
    figures = reflections(Log.read(write_run(attempts=attempts, sealed=False)))
    assert figures.every.hidden is None
    assert counted(figures.every.retries) == (1, 3)


@pytest.mark.parametrize("passes", [True, False])
def test_hidden_verdicts_change_no_other_figure(write_run, passes):
    figures = reflections(Log.read(write_run({"a": [(0.0, False), (1.0, passes)], "b": [(0.0, False), (0.0, passes)]})))
    assert counted(figures.base) == (1, 2)
    assert figures.every.hidden.k == 0


def uses(log):
    """A line for each reflection and attempt that read it: task and attempt of either, verdict, change of reward."""
    return [
        (*name(words.attempt), *name(reading.attempt), reading.passed, reward_change(reading))
        for reading in readings(log)
        for words in reading.read
    ]


def name(attempt):
    return attempt.task_id, attempt.number


def test_readings_say_who_read_what_and_what_came_of_it(log):
    assert uses(log) == [
        ("a", 1, "a", 2, False, -0.5), ("a", 1, "a", 3, True, 1.0), ("a", 2, "a", 3, True, 1.0),
        ("b", 1, "b", 2, False, 0.25),
    ]  # fmt: skip


def test_first_attempts_of_other_tasks_may_read_but_are_no_retry(write_run, tried):
    attempts = {"a": [tried("a", 1, 0.0), tried("a", 2, 0.0)], "b": [tried("b", 1, 1.0, (f"ep-{RUN_ID}/a-1",))]}
    log = Log.read(write_run(attempts=attempts))
    assert uses(log) == [("a", 1, "b", 1, True, None)]
    figures = reflections(log)
    assert counted(figures.every.read) == (1, 2)
    assert figures.every.retries.n == 0
    assert figures.every.effect is None


def test_an_episode_of_any_shard_is_read(write_run, tried):
    run = write_run(attempts={"a": [tried("a", 1, 0.0), tried("a", 2, 1.0, ("ep-run-2/a-1",))]})
    log = replace(Log.read(run), shard_ids=("run-1", "run-2"))
    assert [(len(reading.read), reading.reads_others) for reading in readings(log)] == [(0, False), (1, False)]


OTHERS = ("recalled_wisdom", "recalled_mistakes", "recalled_items", "recalled_insights")


@pytest.mark.parametrize("reads", [{"recalled": ("ep-earlier/a-1",)}, *({field: ("w",)} for field in OTHERS)])
def test_who_read_of_other_runs_is_no_base(write_run, tried, reads):
    retry = replace(tried("a", 2, 1.0), **reads)
    attempts = {"a": [tried("a", 1, 0.0), retry], "b": [tried("b", 1, 0.0), tried("b", 2, 0.0)]}
    log = Log.read(write_run(attempts=attempts))
    assert [reading.reads_others for reading in readings(log)] == [False, True, False, False]
    assert counted(reflections(log).base) == (0, 1)


def test_a_retry_without_a_verdict_is_no_failure(write_run, attempts, tried):
    attempts["f"] = [tried("f", 1, 0.0), tried("f", 2, -1.0, (1,))]
    log = Log.read(write_run(attempts=attempts))
    assert counted(reflections(log).every.retries) == (1, 3)
    assert uses(log)[-1] == ("f", 1, "f", 2, None, None)


def test_an_episode_that_passed_holds_no_reflection(write_run, tried):
    attempts = {"a": [tried("a", 1, 1.0)], "b": [tried("b", 1, 0.0), tried("b", 2, 1.0, ("ep-a-1",))]}
    log = Log.read(write_run(attempts=attempts))
    assert uses(log) == []
    assert reflections(log).base_of == "retries without a reflection"


def test_words_that_were_kept_back_were_not_read(write_run, tried):
    empty = dict.fromkeys(("root_cause", "what_went_wrong", "what_to_change"), "")
    log = Log.read(
        write_run(attempts={"a": [tried("a", 1, 0.0, flags=("generic",), **empty), tried("a", 2, 1.0, (1,))]})
    )
    assert uses(log) == []
    assert forecasts(log) == {}
    figures = reflections(log)
    assert (figures.n, counted(figures.every.read), counted(figures.every.flags["generic"])) == (1, (0, 1), (1, 1))
    assert (counted(figures.base), figures.base_of) == ((1, 1), "retries without a reflection")


def test_confidence_is_held_against_the_next_attempt_that_read_it(log):
    result = forecasts(log)
    pairs = [(forecast.task_id, forecast.confidence, forecast.came_true) for forecast in result["stated"]]
    assert pairs == [("a", 0.9, False), ("a", 0.8, True), ("b", 0.3, False)]
    calibration = reflections(log).calibration["stated"]
    assert (calibration.n, calibration.tasks) == (3, 2)
    assert calibration.brier.value == pytest.approx((0.9**2 + 0.2**2 + 0.3**2) / 3)


def test_confidence_is_judged_by_where_it_comes_from(write_run, tried):
    sources = {
        "a": {"confidence_source": "measured"},
        "b": {"source": "rules:type", "confidence_source": "class"},
        "c": {"source": "control:advice", "confidence_source": "none"},
        "d": {"source": "fallback:type", "confidence_source": "measured"},
    }
    attempts = {name: [tried(name, 1, 0.0, **fields), tried(name, 2, 1.0, (1,))] for name, fields in sources.items()}
    pairs = forecasts(Log.read(write_run(attempts=attempts)))
    assert {name: [forecast.task_id for forecast in stated] for name, stated in pairs.items()} == {
        "measured": ["a", "d"],
        "class": ["b"],
    }
