"""What a round of 16 tasks costs with each curator: at the beginning and at the end of a stream.

python bench/curators.py [--tasks 1000] [--only 'expel awm'] [--smallest]

CPU seconds of what a curator does in a round: what it selects for each task, its calls, and the changes of memory. The
model replies at once, in the form that each curator asks for and with words that differ from call to call, so that
memory grows as far as its limits let it. Programs are not executed: their attempts are drawn.
"""

import statistics
import time
from string import ascii_lowercase

from analysis import made_up
from msgspec.structs import replace
from table import Row, options_of, print_rows

from reflexion_lab.agent.models import simulated
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.parts import Models, load_curated, with_defaults
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.tasks.benchmarks.basics import basics

ROUND, LIMIT = 16, 1.5
OWN = {"shuffled": ("curator@curator.first=memento",), "full_history": ("memory.shared.items.max_tokens=8000",)}
WORDS = [3 * letter for letter in ascii_lowercase]
"""Of causes, which count as equal where they differ in numbers alone."""


class Student(simulated.SimulatedModel):
    calls = 0

    def complete(self, messages, *, sampling, sample=0):
        self.calls += 1
        completion = super().complete(messages, sampling=sampling, sample=sample)
        lesson = f"{simulated.LESSON.rstrip('.')}, as in case {self.calls} of group {self.calls % 97}"
        return replace(completion, text=completion.text.replace(simulated.LESSON, lesson))


def measured(name, tasks):
    """CPU seconds of every round, and items after the first tenth of them and after all."""
    cfg = with_defaults(RunConfig.of(compose(f"curator={name}", *OWN.get(name, ()), f"benchmark.load.n={len(tasks)}",
                                             "benchmark=basics")))  # fmt: skip
    memory = load_curated(cfg, Models({"actor": Student(tasks)}))
    spent, sizes = [], []
    for number, first in enumerate(range(0, len(tasks), ROUND)):
        finished, cpu = [], 0.0
        for task in tasks[first : first + ROUND]:
            start = time.process_time()
            selection = memory.selection(task)
            cpu += time.process_time() - start
            read = {"recalled_items": tuple(item.item_id for item in selection.items)}
            attempts = [replace(made_up(task.task_id, n, n == 2 and first % 3 > 0, n == 2), **read) for n in (1, 2)]
            cause = replace(attempts[0].reflection, root_cause=f"{WORDS[len(finished)]} of {WORDS[number % 9]}")
            attempts[0] = replace(attempts[0], reflection=cause)
            finished.append((task, attempts))
        start = time.process_time()
        for _ in memory.learn(number, [memory.finished(*loop) for loop in finished]):
            pass
        spent.append(cpu + time.process_time() - start)
        sizes.append(len(memory.memory))
    return spent, sizes


def rows(tasks, only=()):
    drawn = basics(n=tasks, seed=0)
    for name in only or sorted(path.stem for path in CONF.glob("curator/*.yaml") if path.stem != "none"):
        spent, sizes = measured(name, drawn)
        tenth = max(1, len(spent) // 10)
        begin, end = statistics.median(spent[1 : tenth + 1]), statistics.median(spent[-tenth:])
        assert sizes[-1] or name == "filler", f"curator={name} kept nothing"
        yield Row(
            f"round {len(spent)}, curator={name}, {sizes[-1]} items", "CPU ms", round(1000 * end, 2),
            f"round {tenth}, {sizes[tenth - 1]} items", round(1000 * begin, 2), LIMIT,
        )  # fmt: skip


def main():
    options = options_of(__doc__, tasks=1000, only="")
    print_rows(rows(64 if options.smallest else options.tasks, options.only.split()))


if __name__ == "__main__":
    main()
