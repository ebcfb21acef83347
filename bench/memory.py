"""What memory costs: the buffer, the stores, and loading a million episodes. Last line: one JSON object.

    python bench/memory.py [--episodes 1000000] [--appends 20000] [--rounds 3] [--folder FOLDER]

Episodes are 1 KB of JSON each, with a reflection, over 164 tasks. The buffer is filled to its capacity before eviction
is timed, at two capacities within one round, so that their ratio compares like with like. Stores are filled one record
a call, and 1,000 a call. Loading runs in a process of its own, whose peak memory is reported; what it loads lies in
`--folder`, and the operating system has it in memory already. PostgreSQL is one that this script starts by itself.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

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
    ratio, filling, full, small = sorted(figures)[len(figures) // 2]
    return {
        "capacity": capacity,
        "appends_per_second": round(filling),
        "appends_per_second_while_evicting": round(full),
        "appends_per_second_while_evicting_at_1000": round(small),
        "ratio_to_capacity_1000": round(ratio, 2),
    }


def appends(place, first, one_by_one, batches):
    """Appends a second, of episodes from number `first` on: one record a call, and `BATCH` a call."""
    with closing(opened(place)) as store:
        single = [[episode(first + number)] for number in range(one_by_one)]
        first += one_by_one
        many = [[episode(first + batch * BATCH + n) for n in range(BATCH)] for batch in range(batches)]
        singly = seconds(lambda: [store.append(records) for records in single])
        batched = seconds(lambda: [store.append(records) for records in many])
    return {"per_second_singly": round(one_by_one / singly), "per_second_in_batches": round(batches * BATCH / batched)}


def stores(folder, count, rounds):
    """The median round of each store that can be had here."""
    figures = {}
    with ExitStack() as stack:
        names = dict(PLACES)
        try:
            names["postgresql"] = stack.enter_context(own_server()).url
        except (StoreError, OSError) as error:
            print(f"no PostgreSQL to measure: {error}")
        for name, where in names.items():
            rows = []
            for number in range(rounds):
                place = where if name == "postgresql" else str(folder / f"{number}-{where}")
                rows.append(appends(place, number * 10 * count, min(count, 5000), max(1, count // BATCH)))
            figures[name] = {key: round(statistics.median(row[key] for row in rows)) for key in rows[0]}
    return figures


LOAD = """
import json, resource, sys, time
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.place import opened
start = time.perf_counter()
store = opened(sys.argv[1])
episodes = list(store.read(Episode))
seconds, cpu_seconds = time.perf_counter() - start, time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
store.search(Search(task_id="HumanEval/7", limit=5))
print(json.dumps({"episodes": len(episodes), "seconds": round(seconds, 2),
                  "cpu_seconds": round(cpu_seconds, 2), "peak_mb": peak >> 10,
                  "ms_of_newest_five_of_a_task": round((time.perf_counter() - start) * 1000, 1)}))
"""


def loading(folder, count):
    """Seconds and peak memory of reading all episodes into a list, in a process of its own."""
    figures = {}
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for name, where in PLACES.items():
        place = str(folder / f"load-{where}")
        with closing(opened(place)) as store:
            filling = seconds(
                lambda store=store: [
                    store.append([episode(number) for number in range(first, min(first + 5 * BATCH, count))])
                    for first in range(0, count, 5 * BATCH)
                ]
            )
        command = [sys.executable, "-c", LOAD, place]
        printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        figures[name] = {**json.loads(printed), "seconds_of_filling": round(filling, 1)}
    return figures


def table(report, above=""):
    """The report for people, one line a figure."""
    for name, value in report.items():
        if isinstance(value, dict):
            table(value, f"{above}{name} ")
        else:
            print(f"{above}{name.replace('_', ' '):60}"[:60], value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=1_000_000, help="capacity of the buffer, and what is loaded")
    parser.add_argument("--appends", type=int, default=20_000, help="appends to each store in batches")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the stores lie while they are measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        report = {
            "bytes_of_an_episode": len(msgspec.json.encode(episode(1))),
            "load_average": round(os.getloadavg()[0], 1),
            "buffer": the_buffer(options.episodes, min(options.episodes, 200_000), options.rounds),
            "stores": stores(Path(name), options.appends, options.rounds),
            "loading": loading(Path(name), options.episodes),
        }
    table(report)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
