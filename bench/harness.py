"""What the harness costs per attempt, with models that answer at once or sleep.

    python bench/harness.py [--tasks 160] [--smallest]

(a) HumanEval × 3 attempts with a model of no latency that never succeeds: visible tests really executed, reflections
    parsed, JSONL and MLflow on, caches off. Attempts a second from the first to the last; imports, the database's
    migration and the grades after the seal stated apart. The 11 tasks without a visible test get one attempt.
(b) 160 tasks of 6 calls each by a model that sleeps 0.2 s a call, 32 workers: wall time until the last submission is
    graded, against the list schedule.
(c) inspect_ai with its mock model, 164 × 3 attempts of two calls without any execution, where it is installed.
(d) CPU of the lab's process per attempt of (a), by stage, each without the stages within it. Timing adds a tenth.
"""

import contextlib
import functools
import heapq
import os
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from table import Row, options_of, print_rows

from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.terminal import Progress
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.runner import Runner
from reflexion_lab.tasks.sandbox import sandbox
from reflexion_lab.text.prompts import render
from reflexion_lab.text.prompts.render import Prompts

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
REFLECTION = (
    "ROOT_CAUSE: The body returns None\nWHAT_WENT_WRONG: None was compared with the value\n"
    "WHAT_TO_CHANGE: return the value\nCONFIDENCE: 0.5\n"
)
GRADES = "hidden grade"
ALONE = ("workers=8", "tracker=none")
STAGES = (
    (GRADES, Runner, "_grade"),
    ("loop and records", Runner, "_run_loop"),
    ("loop and records", Reflexion, "act evaluate record"),
    ("recall", Reflexion, "recall"),
    ("prompts", Prompts, "render fit"),
    ("calls and their ledger", CachedModel, "complete"),
    ("programs of replies", render, "extract continued"),
    ("reflection", Reflexion, "reflect"),
    ("memory", EpisodicMemory, "remember"),
    ("checks, prepared", sandbox, "prepare_all _job"),
    ("sandbox: turns", sandbox.Sandbox, "run"),
    ("sandbox: sending", sandbox.Server, "run"),
    ("verdicts", sandbox, "read_checks"),
    ("files", RunFolder, "append sync"),
)
"""Stages of an attempt: the methods in which it is."""


def never_right(messages):
    return REFLECTION if "ROOT_CAUSE" in messages[-1].content else "\n    return None\n"


def lab(model, folder, *overrides):
    """A lab whose model is `model`; everything else as a user would have it."""
    script = Path(folder) / "unused.json"
    script.write_text('[{"when": "", "reply": ""}]')
    parts._model = lambda _node, _files: model
    cfg = compose(
        "model=scripted", f"model.path={script}", f"run_root={folder}", "cache.mode=off", "quiet=true", *overrides
    )
    return assemble(cfg)


def overhead(folder, tasks):
    """(a): attempts a second, and what was left out of it."""
    page = lab(ScriptedModel(never_right), folder, "benchmark=humaneval", f"benchmark.limit={tasks}", "workers=8")
    page.tracker.prepare()
    page.sandbox.run("def f(x):\n    return x\n", "f", ["assert f(1) == 1"])
    with times_of("attempt") as times:
        start, before = time.perf_counter(), os.times()
        page.runner.run()
    ended, after = time.perf_counter(), os.times()
    page.tracker.track(page.folder.path)
    tracked = time.perf_counter()
    page.sandbox.close()
    children, attempts = os.times(), len(times)  # those of the sandbox have ended only now
    cpu = sum(after[:2]) + sum(children[2:4]) - sum(before[:4])
    assert len(Log.read(page.folder).every) == attempts
    return {
        "per_second": attempts / (times[-1] - start), "cpu_ms": 1000 * cpu / attempts, "grading": ended - times[-1],
        "mlflow": tracked - ended,
    }  # fmt: skip


def stages(folder, tasks):
    """(d): CPU milliseconds per attempt of each stage. Grades, which come after the loops, are one stage."""
    page = lab(ScriptedModel(never_right), folder, "benchmark=humaneval", f"benchmark.limit={tasks}", *ALONE)
    spent, thread, lock = Counter(), threading.local(), threading.Lock()

    def timed(stage, method):
        @functools.wraps(method)
        def call(*arguments, **named):
            within = thread.__dict__.setdefault("within", [])
            if within and within[-1][0] == GRADES:
                return method(*arguments, **named)
            start = time.thread_time()
            within.append((stage, []))
            try:
                return method(*arguments, **named)
            finally:
                seconds = time.thread_time() - start
                with lock:
                    spent[stage] += seconds - sum(within.pop()[1])
                if within:
                    within[-1][1].append(seconds)

        return call

    methods = [(stage, owner, name) for stage, owner, names in STAGES for name in names.split()]
    with contextlib.ExitStack() as patches:
        for stage, owner, name in [*methods, ("making a loop", page.runner, "loop")]:
            patches.enter_context(mock.patch.object(owner, name, timed(stage, getattr(owner, name))))
        page.runner.run()
    page.sandbox.close()
    attempts = len(Log.read(page.folder).every)
    return {stage: 1000 * seconds / attempts for stage, seconds in spent.most_common()}


@contextmanager
def times_of(event):
    """The moments at which a run's progress bar hears of `event`, in order."""
    times, method = [], getattr(Progress, event)

    def timed(self, *arguments):
        method(self, *arguments)
        times.append(time.perf_counter())

    setattr(Progress, event, timed)
    try:
        yield times
    finally:
        setattr(Progress, event, method)


def schedule(folder, tasks=160, workers=32, seconds=0.2):
    """(b): wall time, and that of greedy list scheduling of the same calls without any overhead."""
    model = ScriptedModel(never_right, seconds=seconds)
    size = (f"benchmark.load.n={tasks}", f"workers={workers}", "tracker=none")
    page = lab(model, folder, "benchmark=basics", *size)
    page.sandbox.run("def f(x):\n    return x\n", "f", ["assert f(1) == 1"])
    with times_of("task") as ends:
        start = time.perf_counter()
        page.runner.run()
    wall = ends[-1] - start
    page.sandbox.close()
    free = [0.0] * workers
    for attempts in Log.read(page.folder).attempts.values():
        calls = sum(usage.calls for attempt in attempts for usage in attempt.usage.values())
        heapq.heappush(free, heapq.heappop(free) + calls * seconds)
    return wall, max(free)


def inspect_ai(tasks):
    """(c): attempts a second of a peer, or None."""
    try:
        from inspect_ai import Task, eval
        from inspect_ai.dataset import MemoryDataset, Sample
        from inspect_ai.model import ChatMessageUser, ModelOutput, get_model
        from inspect_ai.solver import solver
    except ImportError:
        return None

    @solver
    def act_and_reflect():
        async def solve(state, generate):
            for _ in range(6):
                state = await generate(state)
                state.messages.append(ChatMessageUser(content="Again."))
            return state

        return solve

    def replies():
        while True:
            yield ModelOutput.from_content("mockllm/model", "    return None\n")

    samples = [Sample(input=f"task {n}", target="x") for n in range(tasks)]
    model = get_model("mockllm/model", custom_outputs=replies())
    start = time.perf_counter()
    eval(
        Task(dataset=MemoryDataset(samples), solver=act_and_reflect()),
        model=model,
        log_dir=tempfile.mkdtemp(),
        display="none",
    )
    return tasks * 3 / (time.perf_counter() - start)


def rows(attempts, tasks):
    with tempfile.TemporaryDirectory() as folder:
        own, peer = overhead(folder, attempts), inspect_ai(attempts)
        yield Row("attempts", "1/s", own["per_second"], "inspect_ai", peer, -1.5 if peer else None)
        yield Row("an attempt and its grade, with the sandbox", "CPU ms", own["cpu_ms"])
        yield Row("grades after the last attempt", "s", own["grading"])
        yield Row("MLflow, a run", "s", own["mlflow"])
        for stage, milliseconds in stages(folder, attempts).items():
            yield Row(f"an attempt in the lab's process: {stage}", "CPU ms", milliseconds)
        wall, ideal = schedule(folder, tasks)
        yield Row(f"{tasks} tasks, 32 workers, 0.2 s a call", "s", wall, "list schedule", ideal, 1.05)


def main():
    options = options_of(__doc__, tasks=160)
    print_rows(rows(20, 16) if options.smallest else rows(164, options.tasks))


if __name__ == "__main__":
    main()
