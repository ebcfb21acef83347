"""One table of what the lab costs, beside its peers of the same run.

    python bench/table.py [--only NAME …] [--smallest] [--write]

Every script of `SCRIPTS` prints rows; this runs them one after the other and prints one table. `--write` puts it into
bench/README.md with the machine's description. `--smallest` takes the smallest form of each, whose figures mean little.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
SCRIPTS = ("startup", "evaluator", "harness", "static", "memory", "retrieval", "curators", "sweep", "analysis", "page")
HEAD = "| work | unit | ours | peer | of the peer | ratio | limit |\n|---|---|---|---|---|---|---|"
BEGIN, END = "<!-- made by bench/table.py --write -->", "<!-- end -->"


class Row(NamedTuple):
    """A figure. `limit`: of the ratio ours / theirs, or with `limits_ours` and without a peer of ours; below 0: the
    least. `theirs`: None: there is no peer, or it is not installed.
    """

    work: str
    unit: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    limit: float | None = None
    limits_ours: bool = False

    @property
    def ratio(self):
        return self.ours / self.theirs if self.theirs else None

    def __str__(self):
        ratio = "" if self.ratio is None else short(self.ratio)
        limit = "" if self.limit is None else f"{'≥' if self.limit < 0 else '≤'} {short(abs(self.limit))}"
        limit += "" if self.limit is None or self.limits_ours or not self.peer else " ×"
        theirs = (
            "not installed" if self.peer and self.theirs is None else "" if self.theirs is None else short(self.theirs)
        )
        return f"| {self.work} | {self.unit} | {short(self.ours)} | {self.peer} | {theirs} | {ratio} | {limit} |"


def short(value):
    """Three digits that count, none of them an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def options_of(about, **defaults):
    """Options of a script with these defaults, and `smallest`."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--smallest", action="store_true", help="in seconds, to see that it runs")
    return parser.parse_args()


def print_rows(rows):
    """Print the rows of a script as they come, and all of them as one JSON line."""
    done = []
    for row in rows:
        print(row, flush=True)
        done.append(row)
    print(json.dumps(done))


def rows_of(script, *options):
    """The rows that a script prints last."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, str(FOLDER / f"{script}.py"), *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return [Row(*row) for row in json.loads(done.stdout.splitlines()[-1])]


def machine():
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"model name\s*: (.*)", info)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=FOLDER, stdout=-1, text=True, check=False)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return (
        f"{model[1] if model else platform.processor()}, {cores} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}, {datetime.date.today()}, commit "
        f"{commit.stdout.strip()}. Load average of the minute before: {load:.1f}"
        f"{'; the machine was busy with other work, so wall times are too long' if load > 0.5 * cores else ''}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=SCRIPTS)
    parser.add_argument("--smallest", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.write and (options.smallest or len(options.only) < len(SCRIPTS)):
        parser.error("--write stores the whole table, not with --only or --smallest")
    about = machine()
    print(HEAD)
    lines = []
    for script in options.only:
        rows = rows_of(script, *["--smallest"] * options.smallest)
        lines += [f"| **{script}** | | | | | | |", *map(str, rows)]
        print("\n".join(map(str, rows)), flush=True)
    if options.write:
        page = FOLDER / "README.md"
        before, _, rest = page.read_text().partition(BEGIN)
        table = "\n".join((about, "", HEAD, *lines))
        page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
