"""What memory costs: the buffer, the stores, and loading very many episodes.

    python bench/memory.py [--episodes 100000] [--appends 20000] [--rounds 3] [--folder FOLDER] [--smallest]

Episodes are 1 KB of JSON each, with a reflection, over 164 tasks. The buffer is filled to its capacity before eviction
is timed, at two capacities within one round, so that their ratio compares like with like. Stores are filled one record
a call, and 1,000 a call. Loading runs in a process of its own, whose peak memory is reported; what it loads lies in
`--folder`, and the operating system has it in memory already. PostgreSQL is one that this script starts by itself.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from table import Row, options_of, print_rows

from reflexion_lab.errors import StoreError
from reflexion_lab.records import Episode, Reflection
from reflexion_lab.storage.place import opened

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))
from own_server import own_server

BATCH = 1000
PLACES = {"jsonl": "kept", "sqlite": "kept.sqlite"}
REFLECTION = Reflection(
    reflection_id="r-1",
    about_attempt=1,
    root_cause="The loop ends one step early, so that the last item is never looked at",
    what_went_wrong="f([1, 2, 3]) gave 3 where 6 was expected",
    what_to_change="Let the range end at len(items), and look at an empty list first",
    confidence=0.7,
    source="llm",
    category="assertion",
)


def episode(number):
    """1 KB as JSON."""
    return Episode(
        episode_id=f"ep-{number * 2654435761 % 2**32:032x}",
        session_id=f"run/HumanEval/{number % 164}",
        agent_id="reflexion",
        task_id=f"HumanEval/{number % 164}",
        task_description="Return the sum of the items of a list of whole numbers; 0 for an empty one.",
        attempt_number=1 + number % 3,
        code="def total(items):\n    result = 0\n    for i in range(len(items) - 1):\n        result += items[i]\n",
        test_results="assert total([1, 2, 3]) == 6: 3 found",
        failure_analysis="AssertionError",
        reflection=REFLECTION,
        passed=False,
        timestamp=1e9 + number,
        metadata={"verification_type": "unit_tests", "outcome": "fail"},
    )


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def evictions(capacity, appends):
    """Appends a second to a full buffer, and to one that is filling."""
    from reflexion_lab.memory.buffer import EpisodeBuffer

    buffer = EpisodeBuffer(capacity)
    some = [episode(number) for number in range(BATCH)]

    def store(count):
        for number in range(count):
            buffer.store(some[number % BATCH])

    filling = capacity / seconds(lambda: store(capacity))
    return filling, appends / seconds(lambda: store(appends))


def the_buffer(capacity, appends, rounds):
    figures = []
    for _ in range(rounds):
        filling, full = evictions(capacity, appends)
        _, small = evictions(BATCH, appends)
        figures.append((full / small, filling, full, small))
    _, _, full, small = sorted(figures)[len(figures) // 2]
    return full, f"a buffer of {BATCH:,}", small


def appends(place, first, one_by_one, batches):
    """Appends a second, of episodes from number `first` on: one record a call, and `BATCH` a call."""
    with closing(opened(place)) as store:
        single = [[episode(first + number)] for number in range(one_by_one)]
        first += one_by_one
        many = [[episode(first + batch * BATCH + n) for n in range(BATCH)] for batch in range(batches)]
        singly = seconds(lambda: [store.append(records) for records in single])
        batched = seconds(lambda: [store.append(records) for records in many])
    return {"one a call": one_by_one / singly, f"{BATCH:,} a call": batches * BATCH / batched}


def stores(folder, count, rounds):
    """The median round of each store that can be had here."""
    figures = {}
    with ExitStack() as stack:
        names = dict(PLACES)
        try:
            names["postgresql"] = stack.enter_context(own_server()).url
        except (StoreError, OSError) as error:
            print(f"no PostgreSQL to measure: {error}", file=sys.stderr)
        for name, where in names.items():
            rows = []
            for number in range(rounds):
                place = where if name == "postgresql" else str(folder / f"{number}-{where}")
                rows.append(appends(place, number * 10 * count, min(count, 5000), max(1, count // BATCH)))
            figures[name] = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    return figures


LOAD = """
import json, resource, sys, time
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.place import opened
start = time.perf_counter()
store = opened(sys.argv[1])
episodes = list(store.read(Episode))
figures = {"s": time.perf_counter() - start, "CPU s": time.process_time(), "n": len(episodes)}
figures["MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
start = time.perf_counter()
store.search(Search(task_id="HumanEval/7", limit=5))
print(json.dumps({**figures, "ms": 1000 * (time.perf_counter() - start)}))
"""


def loading(folder, count):
    """Seconds and peak memory of reading all episodes into a list, in a process of its own."""
    figures = {}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for name, where in PLACES.items():
        place = str(folder / f"load-{where}")
        with closing(opened(place)) as store:
            for first in range(0, count, 5 * BATCH):
                store.append([episode(number) for number in range(first, min(first + 5 * BATCH, count))])
        command = [sys.executable, "-c", LOAD, place]
        printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        figures[name] = json.loads(printed)
    return figures


def rows(episodes, each, rounds, folder):
    buffer = the_buffer(episodes, min(episodes, 200_000), rounds)
    yield Row(f"appends to a full buffer of {episodes:,}", "1/s", *buffer)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for place, figures in stores(Path(name), each, rounds).items():
            yield from (Row(f"{place}: appends, {how}", "1/s", figure) for how, figure in figures.items())
        for place, figures in loading(Path(name), episodes).items():
            yield from (Row(f"{place}: reading {episodes:,} episodes", unit, figures[unit]) for unit in ("s", "CPU s"))
            yield Row(f"{place}: memory with {episodes:,} episodes", "MB", figures["MB"])
            yield Row(f"{place}: newest five of a task", "ms", figures["ms"])


def main():
    options = options_of(__doc__, episodes=100_000, appends=20_000, rounds=3, folder="")
    sizes = (2000, 1000, 1) if options.smallest else (options.episodes, options.appends, options.rounds)
    print_rows(rows(*sizes, options.folder or None))


if __name__ == "__main__":
    main()
