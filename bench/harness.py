"""What the harness costs per attempt, with models that answer at once or sleep. Last line: one JSON object.

    python bench/harness.py

(a) HumanEval × 3 attempts with a model of no latency that never succeeds: visible tests really executed, reflections
    parsed, JSONL and MLflow on, caches off. Attempts a second from the first to the last; imports, the database's
    migration and the grades after the seal stated apart. The 11 tasks without a visible test get one attempt.
(b) 160 tasks of 6 calls each by a model that sleeps 0.2 s a call, 32 workers: wall time until the last submission is
    graded, against the list schedule.
(c) inspect_ai with its mock model, 164 × 3 attempts of two calls without any execution, where it is installed.
"""

import heapq
import json
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.terminal import Progress
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
REFLECTION = (
    "ROOT_CAUSE: The body returns None\nWHAT_WENT_WRONG: None was compared with the value\n"
    "WHAT_TO_CHANGE: return the value\nCONFIDENCE: 0.5\n"
)


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


def overhead(folder):
    """(a): attempts a second, and what was left out of it."""
    page = lab(ScriptedModel(never_right), folder, "benchmark=humaneval", "workers=8")
    page.tracker.prepare()
    page.sandbox.run("def f(x):\n    return x\n", "f", ["assert f(1) == 1"])
    with times_of("attempt") as times:
        start = time.perf_counter()
        page.runner.run()
    ended = time.perf_counter()
    page.tracker.track(page.folder.path)
    tracked = time.perf_counter()
    page.sandbox.close()
    log = Log.read(page.folder)
    assert len(log.every) == len(times) == 3 * 153 + 11, "a task did not take the attempts that it should"
    return {
        "attempts": len(log.every),
        "attempts_per_second": round(len(log.every) / (times[-1] - start), 1),
        "seconds_after_the_last_attempt_grading_included": round(ended - times[-1], 2),
        "seconds_mlflow": round(tracked - ended, 2),
    }


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
    """(b): wall time over that of greedy list scheduling of the same calls without any overhead."""
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
    return {"wall_seconds": round(wall, 2), "ratio_to_list_schedule": round(wall / max(free), 3)}


def inspect_ai():
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

    samples = [Sample(input=f"task {n}", target="x") for n in range(164)]
    model = get_model("mockllm/model", custom_outputs=replies())
    start = time.perf_counter()
    eval(
        Task(dataset=MemoryDataset(samples), solver=act_and_reflect()),
        model=model,
        log_dir=tempfile.mkdtemp(),
        display="none",
    )
    return round(164 * 3 / (time.perf_counter() - start), 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = overhead(folder) | schedule(folder)
    peer = inspect_ai()
    report["attempts_per_second_inspect_ai"] = peer
    report["ratio_to_inspect_ai"] = round(report["attempts_per_second"] / peer, 2) if peer else None
    print(json.dumps(report))


if __name__ == "__main__":
    main()
