"""What the analysis costs: a bootstrap of 164 tasks x 5 attempts x 3 seeds with 10,000 resamples; 10,000 attempts of
about 7 kB as data frames; a report, with all of its figures, on 10 runs of 164 tasks.

    python bench/analysis.py [--tasks 2000] [--smallest]

The verdicts are drawn: what is measured does not depend on what they say, but on how many tasks differ. Frames and
report stand beside a bare msgspec decode of the same files within the same minute.
"""

import random
import statistics
import tempfile
import time
from pathlib import Path as Folder

import msgspec
import numpy as np
from table import Row, options_of, print_rows

from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.report.documents import save_report
from reflexion_lab.analysis.stats.bootstrap import DRAWS, difference, interval
from reflexion_lab.analysis.stats.matching import Path, equal
from reflexion_lab.analysis.stats.permutation import sign_flip
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import (
    Attempt,
    Check,
    Evaluation,
    Grade,
    Manifest,
    MemoryState,
    Message,
    Reflection,
    TaskResult,
    Trajectory,
    Usage,
)
from reflexion_lab.runner.folder.folder import RunFolder

ATTEMPTS, TASKS, SEEDS, ROUNDS = 5, 164, 3, 5


def verdicts(rng):
    """Curves that rise and, now and then, fall; shape (attempts, tasks, seeds)."""
    chances = rng.beta(1.5, 0.7, (TASKS, 1))
    return (rng.random((ATTEMPTS, TASKS, SEEDS)) < chances).astype(float)


def paths(curves, rng):
    spent = rng.integers(200, 900, curves.shape).cumsum(axis=0)
    cases = ((task, seed) for task in range(TASKS) for seed in range(SEEDS))
    return [Path(task, spent[:, task, seed].tolist(), curves[:, task, seed].tolist()) for task, seed in cases]


def median_cpu_seconds(work, *arguments, rounds=ROUNDS):
    """Processor time, all threads: what others do on the machine hardly shows in it."""
    took = []
    for _ in range(rounds):
        start = time.process_time()
        work(*arguments)
        took.append(time.process_time() - start)
    return statistics.median(took)


def bootstrap_rows():
    """Medians of `ROUNDS`; the first call of any pays for its imports, and is left out."""
    rng = np.random.default_rng(0)
    first, second = verdicts(rng), verdicts(rng)
    arms = paths(first, rng), paths(second, rng)
    for work, *arguments in ((interval, first[-1]), (sign_flip, first[-1], second[-1])):
        work(*arguments)
    of = f"{TASKS} tasks, {SEEDS} seeds"
    yield Row(f"interval, {of}, {DRAWS:,} draws", "CPU s", median_cpu_seconds(interval, first[-1]))
    for work in (difference, sign_flip):
        yield Row(f"{work.__name__}, {of}", "CPU s", median_cpu_seconds(work, first[-1], second[-1]))
    yield Row(f"equal tokens, {of}", "CPU s", median_cpu_seconds(equal, *arms))


def made_up(task_id, number, right, is_last):
    """An attempt of about 7 kB: a program, a prompt of memories, four checks, a reflection where it failed."""
    program = "def f(xs):\n" + "    total = sum(x * x for x in xs if x % 2)\n" * 30 + "    return total\n"
    outcome, words = "pass" if right else "fail", "It divides by the length without asking for an empty list. " * 5
    usage = Usage(calls=1, prompt_tokens=400 + 90 * number, completion_tokens=120, seconds=1.5, cost=0.002)
    checks = [Check(name=f"assert f([{i}, 2]) == {i}", outcome=outcome, seconds=1e-4) for i in range(4)]
    reflection = Reflection(
        reflection_id=f"{task_id}#{number}",
        about_attempt=number,
        root_cause=words,
        what_went_wrong=words,
        what_to_change=words,
        confidence=0.7,
        source="llm",
        text=words * 2,
        usage=usage,
    )
    return Attempt(
        task_id=task_id,
        number=number,
        recalled=tuple(f"ep-{task_id}-{i}" for i in range(max(1, number - 3), number)),
        trajectory=Trajectory(
            solution=program,
            strategy="single_shot",
            messages=(Message(role="user", content=words * 6),),
            reply=program,
            usage=usage,
        ),
        evaluation=Evaluation(
            passed=right, outcome=outcome, reward=float(right), checks=tuple(checks), feedback=words, seconds=0.01
        ),
        reflection=None if right else reflection,
        memory=MemoryState(capacity=3, size=number - 1, in_context=number - 1, total=number - 1),
        stop_reason="max_attempts" if is_last else "",
    )


def write_run(path, arm, seed, tasks, attempts=5):
    """A finished run in which every loop makes all of its attempts."""
    run = RunFolder(path)
    config = {"arm": arm, "seed": seed}
    manifest = {
        **dict.fromkeys(("created_at", "config_digest", "git_commit", "benchmark_digest"), ""),
        **{name: {} for name in ("package_versions", "prompt_digests")},
        **{"run_id": path.name, "seed": seed, "config": config, "dirty": False, "benchmark": "made_up"},
        **{"n_expected": tasks, "model_fingerprint": "none", "slots": 1, "feedback_source": "visible", "isolation": ()},
    }
    run.write_manifest(Manifest(**manifest))
    for task in range(tasks):
        draws, task_id = random.Random(f"{arm}:{seed}:{task}"), f"made_up/{task}"
        for number in range(1, attempts + 1):
            right = draws.random() < 0.15
            run.append("attempts.jsonl", made_up(task_id, number, right, number == attempts))
            verdict = {"passed": right, "outcome": "pass" if right else "fail", "checks_passed": 0, "checks_total": 1}
            run.append("grades.jsonl", Grade(task_id=task_id, number=number, sealed=True, **verdict))
        ended = {"attempts": attempts, "submitted": 1, "best": 1, "last": attempts, "stop_reason": "max_attempts"}
        run.append("results.jsonl", TaskResult(task_id=task_id, feedback_source="visible", duration=1.0, **ended))
    run.close()
    return path


def decode(paths):
    """Every line into plain dictionaries and lists: the least that any reader of these files does."""
    decoder = msgspec.json.Decoder()
    for file in (file for path in paths for file in path.glob("*.jsonl")):
        for line in file.read_bytes().split(b"\n"):
            if line:
                decoder.decode(line)


def report(paths, folder):
    all_arms = arms(paths)
    save_report(folder, compare(all_arms), all_arms)


def reading_rows(tasks):
    """The first round of each pays for its imports, and is left out."""
    with tempfile.TemporaryDirectory() as scratch:
        big = write_run(Folder(scratch) / "big", "reflexion", 0, tasks)
        names = [(f"arm{number}", seed) for number in range(5) for seed in range(2)]
        ten = [write_run(Folder(scratch) / f"{arm}-{seed}", arm, seed, min(tasks, TASKS)) for arm, seed in names]
        out = Folder(scratch) / "report"
        out.mkdir()
        load(ten[0])
        report(ten, out)
        bare_cpu, ours_cpu = median_cpu_seconds(decode, [big]), median_cpu_seconds(load, big)
        bare_ten, again = median_cpu_seconds(decode, ten), median_cpu_seconds(report, ten, out, rounds=2)
    yield Row(f"{ATTEMPTS * tasks:,} attempts as frames", "CPU s", ours_cpu, "msgspec decode", bare_cpu)
    yield Row(f"report on {len(ten)} runs", "CPU s", again, "msgspec decode", bare_ten)


def rows(tasks):
    yield from bootstrap_rows()
    yield from reading_rows(tasks)


def main():
    options = options_of(__doc__, tasks=2000)
    print_rows(rows(10 if options.smallest else options.tasks))


if __name__ == "__main__":
    main()
