"""`python -m experiments._tools.retrieval`: is retrieval any good, on recorded loops?"""

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
    return guarded(lambda: retrieval(options))


def parser() -> argparse.ArgumentParser:
    text = "compare retrievers on recorded loops: whose reflections do they find?"
    top = Arguments(prog="python -m experiments._tools.retrieval", description=text)
    top.add_argument("files", metavar="FILE", nargs="+", help="transcripts with reflections (.jsonl, .jsonl.gz)")
    top.add_argument("--retriever", metavar="NAME", nargs="+", help="only these, such as bm25 (default: all)")
    top.add_argument("--match", metavar="TEXT", nargs="+", help="only these texts, such as task_error (default: all)")
    top.add_argument("--k", type=positive, default=5, metavar="N", help="hits that count (default: %(default)s)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="of random and of intervals (default: 0)")
    top.add_argument("--limit", type=positive, metavar="N", help="only the first N rows of each file")
    keeps = "file that keeps embeddings from one comparison to the next (default: %(default)s)"
    top.add_argument("--embeddings", metavar="FILE", default="runs/embeddings.sqlite", help=keeps)
    top.add_argument("--out", metavar="DIR", help="write table.csv and figure.svg there")
    top.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return top


def retrieval(options: argparse.Namespace) -> int:
    import json
    import time

    from rich.console import Console

    from experiments._tools.contestants import NAMES, contestants
    from experiments._tools.probes import VIEWS, known
    from experiments._tools.recollected import recollect
    from experiments._tools.retrieval_plot import save
    from experiments._tools.retrieval_report import as_rows, show
    from experiments._tools.retrievers_compared import compare

    start = time.monotonic()
    # What is wrong with the arguments shows before minutes are spent on them.
    views = known(options.match or VIEWS)
    _check(options.files, options.out)
    entrants = contestants(options.retriever or NAMES, seed=options.seed, embeddings=options.embeddings)
    recollected = recollect(options.files, limit=options.limit)
    compared = compare(
        recollected.episodes, entrants.making, views, unseen=entrants.unseen, k=options.k, seed=options.seed
    )
    show(recollected, compared, Console())
    if options.out:
        print("\n".join(f"written: {path}" for path in save(compared, recollected.sources, Path(options.out))))
    if options.json:
        counts = {"documents": compared.documents, "tasks": compared.tasks, "unshown": recollected.unshown}
        seconds = round(time.monotonic() - start, 3)
        print(json.dumps({**counts, "cells": list(as_rows(compared)), "seconds": seconds}))
    return 0


def _check(files: Sequence[str], out: str | None) -> None:
    """Raises ConfigError where a file is none, or `out` cannot be a folder."""
    for file in files:
        if Path(file).is_dir() or not Path(file).exists():
            raise ConfigError(file, "no file", "transcripts with reflections (.jsonl, .jsonl.gz)")
    if out:
        out_folder(out)


if __name__ == "__main__":
    sys.exit(main())
