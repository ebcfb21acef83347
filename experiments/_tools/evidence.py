"""Files of evidence beside an experiment: facts and numbers, no program, prompt or reply."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CASES = "cases.csv.gz"


class Row(NamedTuple):
    """Two cells of an experiment's row in `experiments/README.md`."""

    answer: str
    n: str


def write_gzip(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a compressed CSV, creating the folder; equal rows give equal bytes."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    return path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV, compressed if its name ends in `.gz`."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))
