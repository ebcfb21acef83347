"""What a sweep costs: the union of its trajectories. Last line: one JSON object.

    python bench/sweep.py [--tasks N]

A grid Ω x max attempts x threshold of 75 cells on HumanEval, with a scripted model whose replies depend on the whole
prompt, so that every cell that reads something else goes another way.

(a) The sweep with shared caches: calls, against the distinct prompts. At Ω = 0 a retry draws the first prompt again,
    and no two draws of one loop are one: such further draws are counted apart.
(b) The same cells one by one, each with caches of its own: calls, and whether every result is the same.
(c) The same sweep again, as a whole process: calls and seconds.
"""

import argparse
import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    return {**fixed, "run_root": f"{root}/runs", "workers": 8} | ({"benchmark.limit": limit} if limit else {}) | GRID


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
    attempts = sum(len(Log.read(RunFolder.existing(run)).every) for run in finished.runs)
    return finished, {
        "cells": len(finished), "attempts": attempts, "calls": len(model.received), "distinct_prompts": prompts,
        "further_draws_of_a_prompt": further, "calls_per_distinct_prompt": round(len(model.received) / prompts, 3),
        "first_draws_per_distinct_prompt": round((len(model.received) - further) / prompts, 3),
        "seconds": round(seconds, 1),
    }  # fmt: skip


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
    return {"calls": calls, "identical_cells": same, "seconds": round(time.perf_counter() - start, 1)}


def repeated(root, limit):
    """The finished sweep again, in a process of its own; its model is this file's, so that no cell has to run again."""
    start = time.perf_counter()
    command = [sys.executable, __file__, "--repeat", root, *(["--tasks", str(limit)] if limit else [])]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1]) | {"seconds": round(time.perf_counter() - start, 2)}


def repeat(root, limit, student):
    model = model_for(student)
    states = sweep(overrides(root, limit), quiet=True).states.values()
    return {"cells_kept": sum(state.status == "kept" for state in states), "calls": len(model.received)}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--tasks", type=int, help="only the first N tasks")
    options.add_argument("--repeat", metavar="ROOT", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    student = Student(humaneval())
    if arguments.repeat:
        print(json.dumps(repeat(arguments.repeat, arguments.tasks, student)))
        return
    with tempfile.TemporaryDirectory() as root:
        finished, cost = shared(root, arguments.tasks, student)
        alone = one_by_one(root, finished, student)
        second = repeated(root, arguments.tasks)
    print(json.dumps({
        "subject": "sweep", "shared": cost, "again": second, "one_by_one": alone,
        "times_fewer_calls": round(alone["calls"] / cost["calls"], 2),
        "times_faster": round(alone["seconds"] / cost["seconds"], 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
