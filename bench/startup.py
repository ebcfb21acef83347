"""What it costs to begin: the import and the help text, warm, beside a bare interpreter. Last line: one JSON object.

python bench/startup.py [--runs 9]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time


def seconds(command: list[str], runs: int) -> float:
    """Median wall time of whole processes, after one that warms the file cache."""
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    python = sys.executable
    bare = seconds([python, "-c", "pass"], runs)
    imported = seconds([python, "-c", "import reflexion_lab"], runs)
    helped = seconds([python, "-m", "reflexion_lab", "--help"], runs)
    run_help = seconds([python, "-m", "reflexion_lab", "run", "--help"], runs)
    report = {
        "bare_interpreter_seconds": round(bare, 3),
        "import_seconds": round(imported, 3),
        "help_seconds": round(helped, 3),
        "run_help_seconds": round(run_help, 3),
        "ratio_import_to_bare": round(imported / bare, 2),
        "ratio_help_to_bare": round(helped / bare, 2),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
