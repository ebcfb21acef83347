"""`python -m experiments._tools.failures`: classify real failures by rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments._tools import output
from reflexion_lab.cli.place import positive
from reflexion_lab.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), failures, argv)


def parser() -> argparse.ArgumentParser:
    text = "classify real failures by our rules, and by the keywords of earlier systems"
    top = output.transcripts_parser("failures", text, "only the first N failing attempts of each file")
    top.add_argument("--labels", metavar="FILE", help="human labels of failures (.csv)")
    top.add_argument("--draw", metavar="FILE", help="sample failures to label: a .csv, and beside it a .txt to read")
    top.add_argument("--cases", type=positive, default=100, metavar="N", help="sample size (default: %(default)s)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample and of intervals (default: 0)")
    return top


def failures(options: argparse.Namespace) -> int:
    import time

    from rich.console import Console

    from experiments._tools.failing_attempts import execute, read_failures
    from experiments._tools.failure_cases import compare
    from experiments._tools.failure_evidence import classified, save_cases
    from experiments._tools.failure_labels import draw, read_labels, write_cases
    from experiments._tools.failures_report import as_rows, problems, show
    from reflexion_lab.cli.sheets import say_json

    start = time.monotonic()
    # Invalid arguments are reported before minutes of execution.
    output.check_places(options.files, options.out)
    _check_draw(options.draw)
    labels = read_labels(Path(options.labels)) if options.labels else {}
    read = read_failures(options.files, options.limit)
    if labels and not any(failure.id in labels for failure in read):
        raise ConfigError(options.labels, f"{len(labels)} labels of other failures", "some of failures of these files")
    executed = execute(read)
    cases = classified(executed)
    compared = compare(cases, labels, options.seed)
    show(cases, compared, Console())
    written = [save_cases(cases, Path(options.out))] if options.out else []
    if options.draw:
        known = {failure.sample.task_id for failure in executed if failure.id in labels}
        sample = draw(executed, options.seed, options.cases, known=known)
        written += write_cases(sample, Path(options.draw), fresh=bool(labels))
    output.print_written(written)
    if options.json:
        counts = {
            "failing": len(executed),
            "problems": problems(cases),
            "pass_here": sum(not failure.raised for failure in executed),
            "assertions": sum(failure.recorded == "AssertionError" for failure in executed),
        }
        say_json({**counts, "rows": list(as_rows(compared)), "seconds": round(time.monotonic() - start, 3)})
    return 0


def _check_draw(table: str | None) -> None:
    """Raises ConfigError: `table` is not a new .csv in an existing folder."""
    if table and (Path(table).suffix != ".csv" or not Path(table).parent.is_dir()):
        raise ConfigError("--draw", repr(table), "a file (.csv) in a folder that exists")
    for path in (Path(table), Path(table).with_suffix(".txt")) if table else ():
        if path.exists():
            raise ConfigError(f"--draw: {path} exists, and may hold labels; name another file")


if __name__ == "__main__":
    sys.exit(main())
