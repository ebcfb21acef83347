"""`python -m experiments._tools.failures`: do rules find the class of a real failure?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.cli.main import Arguments, guarded
from reflexion_lab.cli.place import out_folder, positive
from reflexion_lab.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    return guarded(lambda: failures(options))


def parser() -> argparse.ArgumentParser:
    text = "classify real failures by our rules, and by the keywords of earlier systems"
    top = Arguments(prog="python -m experiments._tools.failures", description=text)
    top.add_argument("files", metavar="FILE", nargs="+", help="transcripts (.jsonl, .jsonl.gz)")
    top.add_argument("--labels", metavar="FILE", help="cases that were read by hand (.csv)")
    top.add_argument("--draw", metavar="FILE", help="draw cases to read by hand: a .csv, and beside it a .txt")
    top.add_argument("--cases", type=positive, default=100, metavar="N", help="to draw (default: %(default)s)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="of the draw and of intervals (default: 0)")
    top.add_argument("--limit", type=positive, metavar="N", help="only the first N failing attempts of each file")
    top.add_argument("--out", metavar="DIR", help="write table.csv and figure.svg there")
    top.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return top


def failures(options: argparse.Namespace) -> int:
    import json
    import time

    from rich.console import Console

    from experiments._tools.failing_attempts import execute, read_failures
    from experiments._tools.failure_cases import compare
    from experiments._tools.failure_labels import draw, read_labels, write_cases
    from experiments._tools.failures_plot import save
    from experiments._tools.failures_report import as_rows, problems, show

    start = time.monotonic()
    # What is wrong with the arguments shows before minutes are spent on them.
    _check(options.files, options.out, options.draw)
    labels = read_labels(Path(options.labels)) if options.labels else {}
    read = read_failures(options.files, options.limit)
    if labels and not any(failure.id in labels for failure in read):
        raise ConfigError(options.labels, f"{len(labels)} labels of other failures", "some of failures of these files")
    executed = execute(read)
    compared = compare(executed, labels, options.seed)
    show(executed, compared, Console())
    written = save(compared, executed, Path(options.out)) if options.out else []
    if options.draw:
        known = {failure.sample.task_id for failure in executed if failure.id in labels}
        draws = draw(executed, options.seed, options.cases, known=known)
        written += write_cases(draws, Path(options.draw), fresh=bool(labels))
    if written:
        print("\n".join(f"written: {path}" for path in written))
    if options.json:
        counts = {
            "failing": len(executed),
            "problems": problems(executed),
            "pass_here": sum(not failure.raised for failure in executed),
        }
        counts |= {"assertions": sum(failure.recorded == "AssertionError" for failure in executed)}
        seconds = round(time.monotonic() - start, 3)
        print(json.dumps({**counts, "rows": list(as_rows(compared)), "seconds": seconds}))
    return 0


def _check(files: Sequence[str], out: str | None, drawn: str | None) -> None:
    """Raises ConfigError where a file is none, `out` cannot be a folder, or `drawn` no new table in a folder."""
    for file in files:
        if not Path(file).is_file():
            raise ConfigError(file, "no file", "transcripts (.jsonl, .jsonl.gz)")
    if drawn and (Path(drawn).suffix != ".csv" or not Path(drawn).parent.is_dir()):
        raise ConfigError("--draw", repr(drawn), "a file (.csv) in a folder that exists")
    for taken in (Path(drawn), Path(drawn).with_suffix(".txt")) if drawn else ():
        if taken.exists():
            raise ConfigError(f"--draw: {taken} exists, and may hold labels; name another file")
    if out:
        out_folder(out)


if __name__ == "__main__":
    sys.exit(main())
