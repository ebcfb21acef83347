"""Trees of hostile text, from many threads at once."""

import ast
import gc
import sys
import threading

import pytest

from reflexion_lab.text.replies.syntax import tree_of

NESTED = f"assert f([1, 2, (3, 4, [5, 6, {{'a': [1, 2]}}])]) == [{'[1, 2, 3], ' * 20}]"


class Cyclic:
    """Runs Python when it is collected, in the midst of whatever is being built."""

    def __init__(self):
        self.self = self

    def __del__(self):
        sum(range(50))


@pytest.mark.parametrize("other", [tree_of, ast.parse])  # of the lab, and of a library, which takes no lock
def test_threads_can_parse_concurrently(other):
    interval, threshold, problems = sys.getswitchinterval(), gc.get_threshold(), []

    def parse(tree, failures):
        for _ in range(150):
            Cyclic()
            try:
                tree(NESTED)
            except Exception as problem:
                failures.append(problem)

    sides = [(other, problems if other is tree_of else []), (tree_of, problems)]
    threads = [threading.Thread(target=parse, args=side) for side in 4 * sides]
    try:
        sys.setswitchinterval(1e-6)
        gc.set_threshold(20)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert problems == []
