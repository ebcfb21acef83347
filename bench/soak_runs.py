"""Runs at full speed against a server that fails: does anything grow? Last line: one JSON object.

    python bench/soak_runs.py [--minutes 30] [--faults 0.1] [--workers 16]

One process carries out run after run into one root: OpenAI's protocol over HTTP to a server in a process of its own,
programs really executed, a call cache a run, run folder, figures and MLflow as a user has them. `--faults` of all
requests fail, by every fault that may be tried again. After each run the same things are counted; what is compared are
medians over the second tenth and the last tenth of the runs. Runs of one seed must end alike, whatever failed.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

TASKS = 40
SEEDS = 5


def serve(share):
    """The server's process: prints its address, and answers until its input ends."""
    tests = Path(__file__).parents[1] / "tests"
    sys.path[:0] = [str(tests.parent), str(tests / "shared")]
    import fault_server

    from reflexion_lab.agent.models.simulated import SimulatedModel
    from reflexion_lab.records import Message, Sampling
    from reflexion_lab.tasks.benchmarks.basics import basics

    known = {
        seed: SimulatedModel(basics(seed=seed, n=TASKS), first=0.4, spread=0.0, repair=0.4) for seed in range(SEEDS)
    }

    def student(body):
        messages = [Message(role=part["role"], content=part["content"]) for part in body["messages"]]
        for model in known.values():
            try:
                return model.complete(messages, sampling=Sampling(seed=body["seed"])).text
            except RuntimeError:  # a task of another seed
                continue
        return "I know no such task."

    plan = fault_server.mixed(0, share, fault_server.RETRYABLE)
    with fault_server.FaultServer(student, lambda request: forget(server, plan(request))) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def forget(server, fault):
    """The server keeps every request; a soak has millions."""
    server.requests.clear()
    return fault


def carried_out(url, root, seed, workers, calls):
    """One run, from its config to MLflow; returns what it found."""
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.studies.run import carry_out

    model = ["model=openai", "model.model=student", f"model.base_url={url}", "actor=single_shot", "model.timeout=60"]
    what = ["benchmark=basics", f"benchmark.load.n={TASKS}", f"seed={seed}", "quiet=true", f"workers={workers}"]
    where = ["model.retries=8", f"run_root={root}", f"cache.path={calls}", "cache.executions=null"]
    summary = carry_out(compose(*model, *what, *where))
    return {
        "pass_at_1": [summary.pass_at_1.k, summary.pass_at_1.n],
        "attempts": round(summary.attempts_mean * summary.n_logged),
        "stop_reasons": dict(sorted(summary.stop_reasons.items())),
        "outcomes": dict(sorted(summary.feedback_outcomes.items())),
    }, sum(usage.retries for usage in summary.usage.values())


def counted(scratch):
    """What must not grow: memory, descriptors, threads, processes, temporary files."""
    gc.collect()
    children = [
        path.parent
        for path in Path("/proc").glob("[0-9]*/environ")
        if path.parent.name != str(os.getpid()) and f"TMPDIR={scratch}".encode() in readable(path)
    ]
    return {
        "rss_mb": round(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "processes": len(children),
        "temporary_files": sum(1 for _ in scratch.rglob("*")),
    }


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def soak(options, scratch, roots):
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", str(options.faults)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            url = server.stdout.readline().strip()
            return rounds(options, url or sys.exit("the server did not start"), scratch, roots)
        finally:
            server.stdin.close()


def rounds(options, url, scratch, roots):
    end, rows, wrong, retries, expected = time.monotonic() + 60 * options.minutes, [], 0, 0, {}
    while time.monotonic() < end or len(rows) < 20:
        number = len(rows)
        seed = number % SEEDS
        calls = roots / f"calls-{number}.sqlite"  # no call is cached
        digest, again = carried_out(url, roots, seed, options.workers, calls)
        for path in roots.glob(f"{calls.name}*"):
            path.unlink()
        wrong += digest != expected.setdefault(seed, digest)
        retries += again
        rows.append(counted(scratch))
        if number % 20 == 0:
            print(f"{number:>5} runs, {again} sent again, {rows[-1]}", flush=True)
    return rows, wrong, retries


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--faults", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    warnings.simplefilter("ignore")
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "NO_PROXY": "127.0.0.1", "OPENAI_API_KEY": "none"}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        scratch = Path(place) / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
        begin = time.monotonic()
        rows, wrong, retries = soak(options, scratch, Path(place) / "runs")
        took = time.monotonic() - begin
    tenth = max(1, len(rows) // 10)
    early, late = (
        {name: statistics.median(row[name] for row in part) for name in rows[0]}
        for part in (rows[tenth : 2 * tenth], rows[-tenth:])
    )
    grown = {name: round(late[name] - early[name], 1) for name in early}
    report = {"minutes": round(took / 60, 1), "runs": len(rows), "runs_unlike_the_first": wrong, "sent_again": retries}
    print(json.dumps({**report, "late": late, "grown": grown}))


if __name__ == "__main__":
    main()
