"""What a sweep costs: the union of its trajectories.

    python bench/sweep.py [--tasks 20] [--smallest]

A grid Ω x max attempts x threshold of 75 cells on HumanEval, with a scripted model whose replies depend on the whole
prompt, so that every cell that reads something else goes another way.

(a) The sweep with shared caches: calls, against the distinct prompts. At Ω = 0 a retry draws the first prompt again,
    and no two draws of one loop are one: such further draws are counted apart.
(b) The same cells one by one, each with caches of its own: calls, and whether every result is the same.
(c) The same sweep again, as a whole process: calls and seconds.
"""

import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import Row, options_of, print_rows

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import finish
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.tasks.benchmarks.humaneval import humaneval

GRID = {
    "recall.omega": [0, 1, 2, 3, 5],
    "loop.max_attempts": [1, 2, 3, 4, 5],
    "loop.confidence_threshold": [0.34, 0.67, 1.0],
}


def chance(*parts):
    """A share in [0, 1) that these texts always give."""
    return int(hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8], 16) / 2**32


class Student:
    """Right on easy tasks at once, on harder ones the more often, the more it has read; a guess otherwise."""

    def __init__(self, tasks):
        self.bodies = {task.prompt.strip(): task.canonical_solution for task in tasks}

    def __call__(self, messages):
        text = "\n".join(message.content for message in messages)
        if "ROOT_CAUSE" in messages[-1].content:
            cause = f"cause {chance(text):.6f}"
            return f"ROOT_CAUSE: {cause}\nWHAT_WENT_WRONG: wrong\nWHAT_TO_CHANGE: mend {cause}\nCONFIDENCE: 0.5\n"
        prompt = next(prompt for prompt in self.bodies if prompt in text)
        if chance(text) < 0.25 + 0.3 * chance(prompt):
            return self.bodies[prompt]
        return f"\n    return {['None', '0', '[]', 'True', repr('')][int(5 * chance(text, 'guess'))]}\n"


def overrides(root, limit):
    (Path(root) / "unused.json").write_text('[{"when": "", "reply": ""}]')
    fixed = {"model": "scripted", "model.path": f"{root}/unused.json", "benchmark": "humaneval", "tracker": "none"}
    return {**fixed, "run_root": f"{root}/runs", "workers": 8, "benchmark.limit": limit} | GRID


def results(run):
    """Results of a run, without names, times and cache marks."""
    log = Log.read(RunFolder.existing(run))
    rows = [
        (a.task_id, a.number, a.trajectory.solution, a.evaluation.passed, a.evaluation.reward, a.stop_reason,
         a.reflection.text if a.reflection else "", log.grades[a.task_id, a.number].passed)
        for a in log.every
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()


def model_for(student):
    model = ScriptedModel(student, name="student")
    parts._model = lambda _node, _files: model
    return model


def shared(root, limit, student):
    model, start = model_for(student), time.perf_counter()
    finished = sweep(overrides(root, limit))
    seconds = time.perf_counter() - start
    assert len(finished.runs) == 75, next(state.problem for state in finished.states.values() if state.problem)
    prompts = len({tuple((m.role, m.content) for m in received) for received in model.received})
    further = further_draws(finished.root / "calls.sqlite")
    calls = len(model.received)
    return finished, {"calls": calls, "first": calls - further, "prompts": prompts, "seconds": seconds}


def further_draws(path):
    """Calls that draw a prompt of their own loop again: at Ω = 0 every retry does."""
    requests = sqlite3.connect(path).execute("SELECT request FROM calls")
    return sum(json.loads(request)["sample"] > 0 for (request,) in requests)


def one_by_one(root, finished, student):
    calls, same, start = 0, 0, time.perf_counter()
    for cell, run in zip(finished, finished.runs, strict=True):
        model = model_for(student)
        alone = [line for line in cell.overrides if not line.startswith("run_root=")]
        cfg = compose(*alone, f"run_root={root}/alone-{cell.number}", "quiet=true")
        lab = assemble(cfg)
        finish(lab)
        calls += len(model.received)
        same += results(lab.folder.path) == results(run)
    return {"calls": calls, "same": same, "seconds": time.perf_counter() - start}


def repeated(root, limit):
    """The finished sweep again, in a process of its own; its model is this file's, so that no cell has to run again."""
    start = time.perf_counter()
    command = [sys.executable, __file__, "--repeat", root, str(limit)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return time.perf_counter() - start, json.loads(output.splitlines()[-1])


def repeat(root, limit, student):
    model = model_for(student)
    states = sweep(overrides(root, limit), quiet=True).states.values()
    return {"cells_kept": sum(state.status == "kept" for state in states), "calls": len(model.received)}


def rows(limit):
    student = Student(humaneval())
    with tempfile.TemporaryDirectory() as root:
        finished, cost = shared(root, limit, student)
        alone = one_by_one(root, finished, student)
        seconds, again = repeated(root, limit)
    cells = f"{len(finished)} cells, {limit} tasks"
    yield Row(f"{cells}: calls", "calls", cost["calls"], "cell by cell", alone["calls"])
    yield Row(f"{cells}: calls but further draws", "calls", cost["first"], "distinct prompts", cost["prompts"], 1)
    yield Row(cells, "s", cost["seconds"], "cell by cell", alone["seconds"])
    yield Row("cells with the results of the cell alone", "cells", alone["same"], "all", len(finished), -1)
    yield Row("the finished sweep again, a process", "s", seconds, limit=3)
    yield Row("the finished sweep again", "calls", again["calls"], limit=0)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--repeat":
        print(json.dumps(repeat(sys.argv[2], int(sys.argv[3]), Student(humaneval()))))
        return
    options = options_of(__doc__, tasks=20)
    print_rows(rows(1 if options.smallest else options.tasks))


if __name__ == "__main__":
    main()
