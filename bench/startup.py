"""What it costs to begin, beside a bare interpreter: the import, the help texts, a run until its first attempt.

python bench/startup.py [--runs 9] [--smallest]

Seconds and CPU seconds are medians of whole processes, after one that warms the file cache.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import Row, options_of, print_rows

RULES = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a slip\nWHAT_WENT_WRONG: x\nWHAT_TO_CHANGE: y\nCONFIDENCE: 0.5\n"},
    {"when": "", "reply": "    return None\n"},
]
FIRST = """
import os
import reflexion_lab as rl
from reflexion_lab.io.terminal import Progress
Progress.attempt = lambda self: os._exit(STATUS)
rl.run({"model": "scripted", "model.path": "rules.json", "tracker": "none"}, "benchmark.limit=1", "cache.mode=off")
"""
ATTEMPTED = 3
FIRST = FIRST.replace("STATUS", str(ATTEMPTED))
WORKS = {
    "import": ["-c", "import reflexion_lab"],
    "--help": ["-m", "reflexion_lab", "--help"],
    "run --help": ["-m", "reflexion_lab", "run", "--help"],
    "to the first attempt": ["-c", FIRST],
}


def children():
    """CPU seconds of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(command, runs, folder):
    """Median wall and CPU seconds of whole processes."""
    times = []
    for _ in range(runs + 1):
        start, before = time.perf_counter(), children()
        status = subprocess.run([sys.executable, *command], check=False, capture_output=True, cwd=folder).returncode
        times.append((time.perf_counter() - start, children() - before))
        assert status == (ATTEMPTED if command[1] == FIRST else 0), f"{command} ended with {status}"
    return [statistics.median(each) for each in zip(*times[1:], strict=True)]


def rows(runs):
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.json").write_text(json.dumps(RULES))
        bare = seconds(["-c", "pass"], runs, folder)
        for work, command in WORKS.items():
            for unit, ours, theirs in zip(("s", "CPU s"), seconds(command, runs, folder), bare, strict=True):
                limit = 0.6 + theirs if work.startswith("to the") and unit == "s" else None
                yield Row(work, unit, ours, "bare interpreter", theirs, limit, limits_ours=True)


def main():
    options = options_of(__doc__, runs=9)
    print_rows(rows(1 if options.smallest else options.runs))


if __name__ == "__main__":
    main()
