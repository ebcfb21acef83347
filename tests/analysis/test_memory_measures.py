"""Measures of memory across tasks: by hand on a small matrix, and a planted gain within its interval."""

import math

import msgspec
import numpy as np
import pytest

from reflexion_lab.analysis.learning.curation import collapses, operations, reads, shown, sizes
from reflexion_lab.analysis.learning.memory import Stream, changes, effect, measures, prequential
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Item, Operation, Update
from tests.builders import attempt, grade

NAN = math.nan
BY_HAND = Stream(
    tasks=("a", "b", "c", "d", "held"), learnt=(1, 2, 3, 4, NAN), online=(0, 1, 1, 0, 1), checkpoints=(0, 2, 3, 4),
    verdicts=((0, 0, 1, 1, 0), (1, 1, 0, 1, 0), (1, 0, 1, NAN, 1), (0, 1, 1, 0, 1)),
)  # fmt: skip
"""Checkpoints after 0, 2, 3 and 4 rounds of one task each."""


def test_each_difference_is_the_one_of_its_definition():
    expected = {
        "online_utility": [0, 1, 0, -1, NAN],
        "stability": [-1, 0, 0, 0, NAN],  # of a and b since round 2, of c since 3, of d since 4
        "forgetting": [1, 0, 0, NAN, NAN],  # d is learnt at the last checkpoint
        "backward_transfer": [-1, 0, 0, NAN, NAN],
        "generalisation": [NAN, NAN, NAN, NAN, 1],
    }
    for name, difference in changes(BY_HAND).items():
        np.testing.assert_array_equal(difference, expected[name], err_msg=name)


def test_means_pairs_and_names_by_hand():
    result = measures([BY_HAND])
    means = [getattr(result, name) for name in changes(BY_HAND)]
    assert [(round(mean.value, 9), mean.n) for mean in means] == [
        (0, 4), (-0.25, 4), (round(1 / 3, 9), 3), (round(-1 / 3, 9), 3), (1, 1),
    ]  # fmt: skip
    assert all(mean.low <= mean.value <= mean.high for mean in means)
    assert (result.against.damaged, result.against.repaired, result.lost, result.gained) == (1, 1, ("d",), ("b",))


def test_what_lacks_checkpoints_is_none():
    no_zero = BY_HAND._replace(checkpoints=(2, 3, 4), verdicts=BY_HAND.verdicts[1:])
    result = measures([no_zero])
    assert (result.online_utility, result.generalisation, result.against) == (None, None, None)
    assert result.stability.value == -0.25
    alone = measures([BY_HAND._replace(checkpoints=(), verdicts=np.empty((0, 5)))])
    assert {getattr(alone, name) for name in changes(BY_HAND)} == {None}
    without = BY_HAND._replace(checkpoints=(0, 4), verdicts=(BY_HAND.verdicts[0], BY_HAND.verdicts[3]))
    result = measures([without])
    assert (result.forgetting, result.stability, result.backward_transfer) == (None, None, None)
    assert result.online_utility.value == 0


@pytest.mark.parametrize("wrong", [{"checkpoints": (0, 2, 2, 4)}, {"online": (0, 1)}, {"verdicts": ((0,) * 5,)}])
def test_shapes_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ConfigError, match="stream"):
        changes(BY_HAND._replace(**wrong))


def test_clusters_widen_and_a_later_pass_is_in_the_cluster_of_the_first():
    cases = [(f"t{n}", 0, float(n % 8 < 4)) for n in range(16)]
    of_cluster = {f"t{n}": f"c{n % 8}" for n in range(16)}
    alone, together = effect(cases), effect(cases, of_cluster)
    assert (alone.clusters, together.clusters, together.value) == (16, 8, alone.value)
    assert together.high - together.low > alone.high - alone.low
    passes = Stream(("a", "a@pass2"), (1, 2), (0, 1), (0, 2), ((0, 0), (1, NAN)))
    utility = measures([passes]).online_utility
    assert (utility.value, utility.n, utility.clusters) == (0.5, 2, 1)


def planted(rng, orders, gain, tasks=60, harm=0.0):
    """Independent verdicts: 40 % without memory, `gain` more once half of the stream is learnt, then `harm` less."""
    before = np.full(tasks, 0.4)
    streams = []
    for _ in range(orders):
        place = rng.permutation(tasks)
        names = [f"t{task}" for task in place]
        chance = {0: before, tasks // 2: before + gain, tasks: before + gain - harm}
        online = rng.random(tasks) < np.where(np.arange(tasks) < tasks // 2, 0.4, 0.4 + gain)
        verdicts = [rng.random(tasks) < p for p in chance.values()]
        streams.append(Stream(names, np.arange(1, tasks + 1), online, tuple(chance), np.array(verdicts, float)))
    return streams


@pytest.mark.parametrize("orders", [1, 4])
def test_a_planted_gain_is_within_its_interval_about_as_often_as_it_says(orders):
    rng, hits = np.random.default_rng(0), {"online_utility": 0, "backward_transfer": 0}
    truth = {"online_utility": 0.15, "backward_transfer": -0.2}
    for _ in range(200):
        result = measures(planted(rng, orders, 0.3, harm=0.2))
        for name, value in truth.items():
            hits[name] += getattr(result, name).low <= value <= getattr(result, name).high
    assert min(hits.values()) >= 0.91 * 200, hits


def test_orders_are_units_where_all_tasks_have_all_of_them():
    rng = np.random.default_rng(1)
    result = measures(planted(rng, 4, 0.3))
    assert (result.orders, result.online_utility.n, result.online_utility.over) == (4, 240, "tasks and orders")
    assert result.backward_transfer.over == "tasks"  # other tasks come last in each order
    assert measures(planted(rng, 2, 0.3)).online_utility.over == "tasks"


def test_the_curve_is_of_windows_and_of_all_so_far_without_held_out_tasks():
    curve = prequential([BY_HAND, BY_HAND._replace(online=(1, 1, 1, 1, 0))], windows=2)
    assert [(w.end, w.solved.value, w.so_far.value, w.solved.n) for w in curve] == [
        (2, 0.75, 0.75, 4),
        (4, 0.75, 0.75, 4),
    ]
    assert [w.end for w in prequential([BY_HAND], windows=9)] == [1, 2, 3, 4]
    assert prequential([]) == []


def update(number, tokens, *ops, **fields):
    return Update(round=number, call=0, task_ids=("t",), operations=ops, tokens=tokens, **fields)


def test_sizes_collapses_and_counts_of_a_log():
    log = [
        update(0, 100, Operation(kind="add", item_ids=("i",))),
        update(0, 90, Operation(kind="remove", item_ids=("i",), reason="limit"), items=3),
        update(2, 45),
        update(3, 22, Operation(kind="remove", item_ids=("j",)), Operation(kind="add", item_ids=("k",))),
    ]
    assert [(size.round, size.tokens) for size in sizes(log)] == [(0, 90), (2, 45), (3, 22)]
    collapsed = [(lost.round, lost.before, lost.after) for lost in collapses(log)]
    assert collapsed == [(3, 45, 22)]  # 45 of 90 is no collapse
    assert collapses(log, [Item(item_id="old", text="word " * 400)])[0].round == 0
    assert operations(log) == {"add": 2, "limit": 1, "remove": 1}


def test_readers_of_an_item_are_counted_by_hidden_verdict_and_its_votes_apart():
    judged = [
        (attempt(task_id="a", recalled_items=("i", "j", "i")), grade("a", 1, True)),
        (attempt(task_id="b", recalled_items=("i",)), grade("b", 1, False)),
        (attempt(task_id="c", recalled_items=("i",)), msgspec.structs.replace(grade("c"), outcome="no_tests")),
    ]
    votes = Operation(kind="vote", item_ids=("j", "k"), votes={"helpful": 1, "harmful": -1})
    rows = {row.item_id: (row.passed, row.failed, row.votes) for row in reads(judged, [update(0, 0, votes, votes)])}
    twice = {"helpful": 2, "harmful": -2}
    assert rows == {"i": (1, 1, {}), "j": (1, 0, twice), "k": (0, 0, twice)}


def items_of(section, *names):
    return [Item(item_id=name, text=name, section=section) for name in names]


SHOWN = [
    # Items at the beginning, sections of new ones, items written for one task, items read: how many of how many.
    ({"": "ab"}, {"": "cd"}, "", "ac", (2, 4)),
    ({"": "a"}, {"rules": "b"}, "", "a", (1, 2)),  # an item that nobody read in time counts
    ({}, {"pairs": "abc", "": "p"}, "wx", "wx", (2, 3)),  # the page was written first for a task
    ({}, {"pairs": "abc"}, "wx", "w", (1, 2)),
    ({}, {"pairs": "abc"}, "w", "wa", (2, 4)),
    ({}, {"pairs": "abc"}, "w", "", (0, 1)),  # it did not fit into the prompt
    ({}, {}, "", "", (0, 0)),
]


@pytest.mark.parametrize(("begun", "new", "written", "read", "expected"), SHOWN)
def test_items_read_are_of_those_that_could_be_read(begun, new, written, read, expected):
    beginning = [item for section, names in begun.items() for item in items_of(section, *names)]
    adds = [Operation(kind="add", item_ids=(n,), section=section) for section, names in new.items() for n in names]
    readers = [attempt(recalled_items=tuple(read), written_items=tuple(items_of("", *written)))]
    rate = shown(beginning, [Update(round=0, call=0, task_ids=("a",), operations=tuple(adds))], readers)
    assert (rate.k, rate.n) == expected
