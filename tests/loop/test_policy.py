"""Policies: which attempt the next one continues."""

import math
import random

import pytest
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.loop.policy import BestFirst, Chain, Independent, RepairTree, TreeSearch, is_tree, path_to
from reflexion_lab.loop.policy import with_parents as pairs
from tests.builders import attempt


def grown(policy, rewards, most=20):
    """The loop that `policy` makes of attempts with these rewards; 1 is a pass."""
    history = []
    for reward in rewards[:most]:
        parent = policy.parent(history)
        if parent is None:
            break
        judged = {"passed": reward == 1, "reward": reward, "outcome": "pass" if reward == 1 else "fail"}
        history.append(attempt(number=len(history) + 1, parent=parent, judged=judged))
    return history


def parents(history):
    return [each.parent for each in history]


@pytest.mark.parametrize(
    ("policy", "rewards", "expected"),
    [
        (Chain(), [0] * 4, [0, 1, 2, 3]), (Independent(), [0] * 4, [0, 0, 0, 0]),
        (RepairTree(programs=3, repairs=0), [0] * 9, [0, 0, 0]),
        # The best, the earlier on a tie, at most so often.
        (BestFirst(programs=2, children=2), [0.2, 0.4, 0.4, 0.1, 0.3, 0], [0, 0, 2, 2, 3, 3]),
    ],
    ids=["chain", "independent draws", "no repairs", "best first"],
)  # fmt: skip
def test_a_policy_decides_which_attempt_the_next_one_continues(policy, rewards, expected):
    assert parents(grown(policy, rewards)) == expected


def test_a_repair_tree_repairs_each_program_that_failed_and_no_repair():
    history = grown(RepairTree(programs=3, repairs=2), [0, 1, 0.5] + [0] * 9)
    assert parents(history) == [0, 0, 0, 1, 1, 3, 3]
    assert RepairTree(programs=3, repairs=2).parent(history) is None
    assert [RepairTree(programs=3, repairs=2).continues(each) for each in history] == [True] * 3 + [False] * 4
    policy = RepairTree(programs=2, repairs=1)
    unknown = {"passed": False, "outcome": "no_tests"}
    history = [attempt(number=1, parent=0, judged=unknown), attempt(number=2, parent=0, judged={"passed": False})]
    assert policy.parent(history) == 2


def reference(rewards, children, exploration):
    """UCT as in a textbook: nodes with visits and values, updated along the path."""
    root = {"n": 0, "q": 0.0, "children": [], "number": 0}
    order = []
    for number, reward in enumerate(rewards, 1):
        path = [root]
        while len(path[-1]["children"]) >= children:
            above = path[-1]
            scores = [
                (c["q"] / c["n"] + exploration * math.sqrt(math.log(above["n"]) / c["n"]), -c["number"])
                for c in above["children"]
            ]
            best = max((round(score, 9), tie) for score, tie in scores)
            path.append(next(c for c in above["children"] if c["number"] == -best[1]))
        node = {"n": 0, "q": 0.0, "children": [], "number": number}
        path[-1]["children"].append(node)
        order.append(path[-1]["number"])
        for each in [*path, node]:
            each["n"] += 1
            each["q"] += reward
    return order


@pytest.mark.parametrize("children", [1, 2, 3])
def test_tree_search_is_uct(children):
    for seed in range(30):
        rewards = [random.Random(f"{seed}:{n}").choice([0.0, 0.25, 0.5, 0.75]) for n in range(25)]
        exploration = random.Random(seed).choice([0.0, 0.5, 1.0, 2.0])
        history = grown(TreeSearch(children, exploration), rewards, 25)
        assert parents(history) == reference(rewards, children, exploration)


def test_paths_begin_with_a_fresh_draw():
    history = grown(RepairTree(programs=2, repairs=2), [0] * 6)
    assert [each.number for each in path_to(5, history)] == [2, 5] and path_to(0, history) == []
    with pytest.raises(
        ConfigError, match="policy: got attempt 9 as a parent, expected the number of an earlier attempt"
    ):
        path_to(9, history)
    with pytest.raises(ConfigError, match="policy: got attempt 2 as a parent"):  # a damaged record leads in a circle
        path_to(5, [history[0], replace(history[1], parent=5), *history[2:]])
    assert [before and before.number for before, _ in pairs(history)] == [None, None, 1, 1, 2, 2]
    assert is_tree(history) and not is_tree(grown(Chain(), [0] * 5))


def test_older_records_without_a_parent_are_a_chain():
    assert [attempt(number=number).parent for number in (1, 2, 3)] == [0, 1, 2]


@pytest.mark.parametrize("values", [{"programs": 0}, {"repairs": -1}])
def test_sizes_are_checked(values):
    with pytest.raises(ConfigError):
        RepairTree(**values)
