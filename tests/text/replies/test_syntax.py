"""Trees of hostile text, from many threads at once."""

import gc
import sys
import threading

from reflexion_lab.text.replies.syntax import tree_of

NESTED = f"assert f([1, 2, (3, 4, [5, 6, {{'a': [1, 2]}}])]) == [{'[1, 2, 3], ' * 20}]"


class Cyclic:
    """Runs Python when it is collected, in the midst of whatever is being built."""

    def __init__(self):
        self.self = self

    def __del__(self):
        sum(range(50))


def test_threads_can_parse_concurrently():
    interval, threshold, problems = sys.getswitchinterval(), gc.get_threshold(), []

    def parse():
        for _ in range(150):
            Cyclic()
            try:
                tree_of(NESTED)
            except Exception as problem:
                problems.append(problem)

    threads = [threading.Thread(target=parse) for _ in range(8)]
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
