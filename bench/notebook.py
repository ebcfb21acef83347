"""What a notebook waits for. Last line: one JSON object.

    python bench/notebook.py [--runs 5] [--attempts 3000]

(a) From a fresh interpreter's `import reflexion_lab as rl` to the first finished attempt, scripted, whole process.
(b) The share of a fast scripted run that its progress display takes, in a real kernel with widgets: what its calls
    take of the workers' CPU time, and runs with and without it in turn.
(c) The explorer: reading and first showing a run of 164 tasks with 5 attempts each.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RULES = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a slip\nWHAT_WENT_WRONG: x\nWHAT_TO_CHANGE: y\nCONFIDENCE: 0.5\n"},
    {"when": "", "reply": "    return None\n"},
]
COMMON = """{"model": "scripted", "model.path": "rules.json", "tracker": "none", "loop.stuck_after": None}"""
FIRST = f"""
import os, sys, time
import reflexion_lab as rl
from reflexion_lab.io.terminal import Progress
def ended(self):
    print(time.process_time(), time.time(), flush=True)
    os._exit(0)
Progress.attempt = ended
rl.run({COMMON}, "benchmark.limit=1", "run_root=first", "cache.mode=off")
"""
SHOWN = """
import json, time
import reflexion_lab as rl
start, cpu = time.perf_counter(), time.process_time()
seen = rl.explore("long/2*")
shown = seen._repr_mimebundle_()
assert "application/vnd.jupyter.widget-view+json" in shown and "Attempt 1" in seen.widgets.page.value
again = time.perf_counter()
seen.widgets.attempt.value = 1
print(json.dumps({"tasks": len(seen.histories), "attempts": sum(len(s.attempts) for s in seen.histories),
    "seconds": round(again - start, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
    "next_attempt_seconds": round(time.perf_counter() - again, 3)}))
"""
COST = f"""
import json, statistics, threading, time
import reflexion_lab as rl
from reflexion_lab.runner import runner
from reflexion_lab.io.terminal import Progress
common, spent = {COMMON}, []
def timed(name):
    plain = getattr(Progress, name)
    def call(self, *record):
        start = time.thread_time()
        plain(self, *record)
        spent.append(time.thread_time() - start)
    setattr(Progress, name, call)
timed("attempt"), timed("task")
carried_out = runner.Runner.run
def run(self):
    start, cpu = time.perf_counter(), time.process_time()
    carried_out(self)
    took.append((time.perf_counter() - start, time.process_time() - cpu))
runner.Runner.run = run
took, on, off, shares = [], [], [], []
options = dict(common, **{{"benchmark": "humaneval", "loop.max_attempts": DEEP, "run_root": "cost"}})
rl.run(options, quiet=True)  # warms caches
for _ in range(RUNS):
    for quiet, times in ((False, on), (True, off)):
        took.clear(), spent.clear()
        rl.run(options, quiet=quiet)
        times.append(took[0])
        if not quiet:
            shares.append(sum(spent) / took[0][1])
print(json.dumps({{"attempts": 153 * DEEP + 11, "share_of_cpu": round(statistics.median(shares), 4),
    "cpu_with": round(statistics.median(t[1] for t in on), 2),
    "cpu_without": round(statistics.median(t[1] for t in off), 2),
    "ratio_of_cpu": round(min(t[1] for t in on) / min(t[1] for t in off), 3),
    "ratio_of_seconds": round(min(t[0] for t in on) / min(t[0] for t in off), 3)}}))
"""


def first_attempt(folder, runs):
    """Median seconds of whole processes, after one that warms the file cache, beside a bare interpreter."""
    times, cpu, bare = [], [], []
    for _ in range(runs + 1):
        start = time.time()
        process = subprocess.run([sys.executable, "-c", FIRST], cwd=folder, check=True, capture_output=True, text=True)
        used, ended = map(float, process.stdout.split()[-2:])
        times.append(ended - start)
        cpu.append(used)
        start = time.time()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.time() - start)
    figures = {
        "median": statistics.median(times[1:]),
        "best": min(times[1:]),
        "cpu": statistics.median(cpu[1:]),
        "bare_interpreter": statistics.median(bare[1:]),
    }
    return {name: round(seconds, 2) for name, seconds in figures.items()}


def in_kernel(folder, code):
    """The JSON that a cell prints last."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": folder}}).execute()
    text = "".join(output.text for output in notebook.cells[0].outputs if output.get("name") == "stdout")
    return json.loads(text.splitlines()[-1])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--attempts", type=int, default=3000, help="of the run that the progress display is held to")
    arguments = options.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.json").write_text(json.dumps(RULES))
        attempt = first_attempt(folder, arguments.runs)
        cost = COST.replace("RUNS", str(arguments.runs)).replace("DEEP", str(max(2, arguments.attempts // 153)))
        progress = in_kernel(folder, cost)
        more = '"benchmark=humaneval", "loop.max_attempts=5", "run_root=long"'
        long = f"import reflexion_lab as rl; rl.run({COMMON}, {more})"
        subprocess.run([sys.executable, "-c", long], cwd=folder, check=True, capture_output=True)
        explorer = in_kernel(folder, SHOWN)
    print(json.dumps({
        "subject": "notebook", "load": round(os.getloadavg()[0], 1),
        "import_to_first_attempt_seconds": attempt, "progress": progress, "explorer": explorer,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
