"""The table of `experiments/README.md`: the rows of the experiments whose `analysis.py` has an `answer`.

    python -m experiments._tools.index            # write them
    python -m experiments._tools.index --check    # exit code 1 and each line that differs

An `answer` reads the experiment's `table.csv`, which its own `--check` compares with the evidence. Question and design
are written by hand, as are the rows of the other experiments.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments._tools import recompute
from experiments._tools.evidence import Row

FOLDER = Path(__file__).parents[1]
LINE = re.compile(r"(?P<question>\| \[[^]]+\]\((?P<name>\w+)/README\.md\)) \|[^|]*\|[^|]*\|(?P<design>[^|]*)\|")


def main(argv: Sequence[str] | None = None) -> int:
    return recompute.main(__file__, compute, argv, folder=FOLDER)


def compute(folder: Path) -> Mapping[str, str]:
    """The README of `folder` with answer and n of each row computed."""
    lines = (folder / recompute.README).read_text(encoding="utf-8").split("\n")
    return {recompute.README: "\n".join(_computed(line) for line in lines)}


def _computed(line: str) -> str:
    match = LINE.fullmatch(line)
    row = answer_of(match["name"]) if match else None
    return f"{match['question']} | {row.answer} | {row.n} |{match['design']}|" if match and row else line


def answer_of(name: str) -> Row | None:
    """Answer and n of an experiment; None if it has no `analysis.py` with an `answer`."""
    if not (FOLDER / name / "analysis.py").exists():
        return None
    analysis = importlib.import_module(f"experiments.{name}.analysis")
    row: Row | None = analysis.answer(FOLDER / name) if hasattr(analysis, "answer") else None
    return row


if __name__ == "__main__":
    sys.exit(main())
