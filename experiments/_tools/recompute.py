"""Published figures from committed evidence: an experiment's `analysis.py` writes its table and README, or checks them.

    python -m experiments.NAME.analysis            # write them
    python -m experiments.NAME.analysis --check    # exit code 1 and each line that differs

The README is the template `README.md.jinja` with the figures of `cases.csv`; edit the template, never the README.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from experiments._tools.output import print_written, run, value_of
from reflexion_lab.analysis.comparison.lines import Difference
from reflexion_lab.analysis.report.cells import interval
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.cli.main import Arguments

README, TEMPLATE, TABLE = "README.md", "README.md.jinja", "table.csv"
PIECE = re.compile(r"[+−-]?\d[\d,.]*|\w+|\S")
"""A number, a word or a sign."""
SHOWN = 3
"""Differing pieces of a line that are shown alone."""


def main(
    script: str,
    compute: Callable[[Path], Mapping[str, str]],
    argv: Sequence[str] | None = None,
    draw: Callable[[Path], Sequence[Path]] | None = None,
    folder: Path | None = None,
) -> int:
    """Write or check the files of an experiment.

    Parameters
    ----------
    script : str
        Path of the experiment's `analysis.py`.
    compute : callable
        Texts of the files by name, from the folder's evidence alone.
    argv : Sequence[str] | None, optional
        Arguments; by default those of the command line.
    draw : callable, optional
        Writes the figures and returns their paths; `--check` does not compare them.
    folder : Path, optional
        The folder of the files; by default that of `script`.

    Returns
    -------
    int
        1 if `--check` found a difference, else 0.
    """
    path = Path(script).resolve()
    folder = folder or path.parent
    parser = Arguments(
        prog=f"python -m experiments.{path.parent.name}.{path.stem}", description=f"figures of {folder.name}"
    )
    parser.add_argument("--check", action="store_true", help="compare the committed files; exit code 1 if any differs")

    def study(options: argparse.Namespace) -> int:
        if options.check:
            return _check(folder, compute)
        _write(folder, compute)
        print_written(draw(folder) if draw else [])
        return 0

    return run(parser, study, argv)


def _write(folder: Path, compute: Callable[[Path], Mapping[str, str]]) -> None:
    for name, text in compute(folder).items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
        print(f"written: {folder.name}/{name}")


def _check(folder: Path, compute: Callable[[Path], Mapping[str, str]]) -> int:
    texts = compute(folder)
    lines = [line for name, text in texts.items() for line in differences(folder / name, text)]
    print("\n".join(lines) or f"{folder.name}: {', '.join(texts)} agree with the evidence")
    return int(bool(lines))


def differences(path: Path, computed: str) -> Iterator[str]:
    """A line for each line of the file at `path` that differs from `computed`, with the figures at fault."""
    with path.open(encoding="utf-8", newline="") as file:
        published, expected = file.read().split("\n"), computed.split("\n")
    for kind, start, end, first, last in SequenceMatcher(None, published, expected, autojunk=False).get_opcodes():
        if kind != "equal":
            pairs = zip_longest(published[start:end], expected[first:last], fillvalue="")
            for number, (got, wanted) in enumerate(pairs, start=start + 1):
                yield f"{path.parent.name}/{path.name}, line {number}: {_at_fault(got, wanted)}"


def _at_fault(got: str, expected: str) -> str:
    """The first pieces of a line that differ; the whole lines if one of them is missing."""
    pieces = list(zip_longest(PIECE.findall(got), PIECE.findall(expected), fillvalue="nothing"))
    pairs = [f"got {mine}, expected {theirs}" for mine, theirs in pieces if mine != theirs]
    whole = f"got {got or 'no such line'!r}, expected {expected or 'no such line'!r}"
    return "; ".join(pairs) if got and expected and 0 < len(pairs) <= SHOWN else whole


def readme(folder: Path, **values: Any) -> str:
    """The README of an experiment: its template with `values` and the formats of this module."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, autoescape=False)
    environment.filters |= {"share": share, "points": points, "amount": amount, "percent": percent, "plain": plain}
    return environment.from_string((folder / TEMPLATE).read_text(encoding="utf-8")).render(**values)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """At least one row as CSV; the keys of the first row are the columns."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def share(estimate: Rate | Estimate) -> str:
    """In per cent with its interval, such as `34.2 % [26.3, 43.0]`."""
    return f"{100 * value_of(estimate):.1f} % {interval(estimate.low, estimate.high)}"


def points(estimate: Rate | Estimate | Difference) -> str:
    """A difference in percentage points with its interval, such as `−1.7 [−6.7, +3.9]`."""
    value, low, high = (f"{100 * number:+.1f}" for number in (value_of(estimate), estimate.low, estimate.high))
    return f"{value} [{low}, {high}]".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")


def percent(value: float, digits: int = 1) -> str:
    """A share in per cent, such as `12.3`."""
    return f"{100 * value:.{digits}f}"


def plain(value: float) -> str:
    """As `percent`, with 0 and 100 for the ends."""
    return {"0.0": "0", "100.0": "100"}.get(text := percent(value), text)


def amount(value: float) -> str:
    """A count with thousands, such as `1,671`."""
    return f"{value:,.0f}"
