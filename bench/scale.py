"""How the lab grows: with workers and with attempts. Last line: one JSON object.

    python bench/scale.py [--attempts 100000] [--tasks 96]

(a) Throughput of one run with 1 to 64 tasks at once, by a model that sleeps 0.2 s a call: programs really executed,
    caches off, records written. `of_ideal` is the share of what the workers could do if nothing but the model took
    time; the programs that this machine executes a second, which no number of workers goes beyond, stand beside it.
(b) Synthetic attempts, whose parts compute nothing, through loop, runner, run folder, summary, report and MLflow:
    seconds of each, peak memory at an eighth, a half and all of them, bytes on disk an attempt. Once more with a store
    and memory shared by all tasks.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.analysis.report.run_tables import show
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.loop.reflexion import Reflexion
from reflexion_lab.loop.stop import FirstOf, MaxAttempts, Passed
from reflexion_lab.memory.archive import Archive, Rounds, Shown
from reflexion_lab.memory.episodic import EpisodicMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Check, Evaluation, Execution, Message, Reflection, Task, Trajectory, Usage
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.runner import Runner
from reflexion_lab.storage.place import opened
from reflexion_lab.tasks.evaluators.judge import HiddenTests

SECONDS = 0.2
PROMPT = '''def cubes(numbers):
    """The sum of the cubes of numbers, which are whole; of none it is 0.

    >>> cubes([1, 2])
    9
    """
'''
BODY = "    total = 0\n    for number in numbers:\n        total += number * number\n    return total\n"


def run_of(folder, workers, tasks, seconds, *overrides):
    """Seconds of a run's loops and grades, and its attempts; what comes before the first task is left out."""
    chosen = ["model=simulated", "model._target_=slow_model.Slow", f"++model.seconds={seconds}", "actor=single_shot"]
    left_out = [
        f"~model.{name}"
        for name in ("first", "spread", "repair", "damage", "partial", "seed", "context", "price_per_million")
    ]
    plain = ["benchmark=basics", f"benchmark.load.n={tasks}", "tracker=none", "quiet=true", "cache.mode=off"]
    where = [f"run_root={folder}", f"workers={workers}", f"arm=w{workers}"]
    lab = assemble(compose(*chosen, *left_out, *plain, *where, *overrides))
    try:
        begin = time.perf_counter()
        lab.runner.run()
        took = time.perf_counter() - begin
    finally:
        lab.close()
    log = Log.read(lab.folder, texts=False)
    return took, log


def calls(log):
    return sum(usage.calls for attempt in log.every for usage in attempt.usage.values())


def by_workers(root, tasks):
    """(a)"""
    rows = {}
    for workers in (1, 2, 4, 8, 16, 32, 64):
        some = max(4, min(tasks, 3 * workers))
        took, log = run_of(root / f"w{workers}", workers, some, SECONDS)
        ideal = calls(log) * SECONDS / workers
        rows[workers] = {
            "tasks": some,
            "attempts_per_s": round(len(log.every) / took, 2),
            "calls_per_s": round(calls(log) / took, 2),
            "of_ideal": round(ideal / took, 3),
        }
        print(workers, rows[workers], flush=True)
    took, log = run_of(root / "ceiling", 8, tasks, 0.0)
    return {"workers": rows, "attempts_per_s_without_a_model": round(len(log.every) / took, 1)}


class Parts:
    """Actor, evaluator, reflector and sandbox that compute next to nothing, and say as much as real ones do."""

    layers = ()

    def act(self, task, recollection):
        program = f"{PROMPT}{BODY}# {task.task_id}, attempt {recollection.attempt}\n"
        messages = (Message(role="user", content=f"Write the function.\n\n{PROMPT}" * 3),)
        spent = Usage(calls=1, prompt_tokens=400, completion_tokens=100, seconds=SECONDS)
        return Trajectory(
            solution=program, strategy="synthetic", messages=messages, reply=program, model="none", usage=spent
        )

    def evaluate(self, task, trajectory):
        execution = self.run(trajectory.solution, task.entry_point, task.visible_tests)
        passed = all(check.outcome == "pass" for check in execution.checks)
        return Evaluation(
            passed=passed, outcome="pass" if passed else "fail", reward=float(passed), checks=execution.checks,
            feedback="" if passed else "assert cubes([1, 2]) == 9: it gave 5",
        )  # fmt: skip

    def reflect(self, task, attempt, episodes):
        return Reflection(
            reflection_id=f"{task.task_id}#{attempt.number}", about_attempt=attempt.number, source="llm",
            root_cause=f"the sum takes squares in {zlib.crc32(task.task_id.encode()):x}",
            what_went_wrong="cubes([1, 2]) gave 5",
            what_to_change="multiply once more", confidence=0.7, text="ROOT_CAUSE: squares\n" * 10,
            usage=Usage(calls=1, prompt_tokens=500, completion_tokens=80),
        )  # fmt: skip

    def run(self, program, entry_point, checks, setup="", cpu_seconds=0.0):
        outcome = "pass" if sum(program.encode()) % 3 == 0 else "fail"
        passed = tuple(Check(name=check, outcome=outcome) for check in checks)
        return Execution(checks=passed, output="", seconds=0.0, cpu_seconds=0.0)


def synthetic(attempts, root, is_shared):
    """(b), in a process of its own: prints one JSON object."""
    from rich.console import Console

    cfg = compose("arm=synthetic", f"run_root={root}", "tracker=mlflow")
    parts, began = Parts(), resident()
    tests = ("assert cubes([1, 2]) == 9", "assert cubes([]) == 0")
    task = Task(task_id="", prompt=PROMPT, entry_point="cubes", visible_tests=tests, hidden_tests=tests)
    tasks = [replace(task, task_id=f"synthetic/{n}") for n in range(round(attempts / 2))]
    folder = begun(cfg, len(tasks))
    archive = rounds = None
    if is_shared:
        limits = Shown(wisdom=2, mistakes=2, insights=3)
        archive = Archive(opened(str(root / "memory.sqlite")), Jaccard, shown=limits, max_episodes=100_000)
        rounds = Rounds(archive, 16, "run", "synthetic")

    def loop():
        stop = FirstOf(Passed(), MaxAttempts(3))
        memory = EpisodicMemory(Window(1), shared=archive, run_id="run" if archive else "")
        return Reflexion(actor=parts, evaluator=parts, reflector=parts, memory=memory, stop=stop)

    judge = HiddenTests(parts)
    how = {"feedback_source": "visible", "workers": 8, "quiet": True}
    runner = Runner(tasks=tasks, loop=loop, judge=judge, folder=folder, rounds=rounds, **how)
    seconds = {"runner": clocked(runner.run)}
    if archive:
        archive.close()
    figures = {"rss_mb_before": began, "rss_mb_after_runner": resident(), "peak_mb_runner": peak()}
    total = sum(1 for _ in folder.each_attempt())
    seconds["summary"] = clocked(lambda: folder.write_json("summary.json", summary_of(folder)))
    figures["peak_mb_summary"] = peak()
    with Path(os.devnull).open("w") as nowhere:
        seconds["report"] = clocked(lambda: show(folder, Console(file=nowhere)))
    from reflexion_lab.runner.config.build import build

    tracker = build(cfg.tracker, "tracker")
    tracker.prepare()
    seconds["mlflow"] = clocked(lambda: tracker.track(folder.path))
    disk = sum(path.stat().st_size for path in folder.path.iterdir())
    figures |= {"attempts": total, "seconds": seconds, "peak_mb": peak(), "bytes_per_attempt": round(disk / total)}
    print(json.dumps(figures))


def begun(cfg, n_tasks):
    """A run folder with a manifest, as a run begins."""
    from reflexion_lab.agent.models.scripted import ScriptedModel
    from reflexion_lab.runner.config.build import plain
    from reflexion_lab.runner.folder.manifest import new_manifest
    from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

    folder = RunFolder(Path(cfg.run_root) / "run")
    models = {"actor": ScriptedModel(lambda messages: "")}
    manifest = new_manifest(plain(cfg), Benchmark("synthetic", ()), models, ())
    folder.write_manifest(replace(manifest, n_expected=n_tasks))
    return folder


def summary_of(folder):
    import msgspec

    return msgspec.to_builtins(summary(Log.read(folder, texts=False)))


def clocked(work):
    begin = time.perf_counter()
    work()
    return round(time.perf_counter() - begin, 2)


def resident():
    """Memory in MB."""
    return round(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def by_attempts(root, attempts, *shared):
    """(b)"""
    rows = []
    for share in (8, 2, 1):
        place = str(root / f"{''.join(shared)}{share}")
        command = [sys.executable, __file__, "--synthetic", str(attempts // share), place, *shared]
        run = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(run.splitlines()[-1]))
        print(rows[-1], flush=True)
    small, large = rows[0], rows[-1]
    more = large["attempts"] - small["attempts"]
    return {
        "rows": rows,
        "runner_kb_per_attempt_more": round(1024 * (large["peak_mb_runner"] - small["peak_mb_runner"]) / more, 2),
        "all_kb_per_attempt_more": round(1024 * (large["peak_mb"] - small["peak_mb"]) / more, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=96)
    parser.add_argument("--synthetic", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    if options.synthetic:
        synthetic(int(options.synthetic[0]), Path(options.synthetic[1]), "shared" in options.synthetic)
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        root = Path(scratch)
        figures = {
            "attempts": by_attempts(root, options.attempts),
            "shared": by_attempts(root, options.attempts, "shared"),
            "threads": by_workers(root, options.tasks),
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
