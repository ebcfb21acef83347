"""`python -m experiments._tools.retrieval`: compare retrievers on recorded loops."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments._tools import output
from reflexion_lab.cli.place import positive


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), retrieval, argv)


def parser() -> argparse.ArgumentParser:
    text = "compare retrievers on recorded loops: relevance of the reflections that they retrieve"
    top = output.transcripts_parser("retrieval", text, "only the first N rows of each file")
    top.add_argument("--retriever", metavar="NAME", nargs="+", help="only these, such as bm25 (default: all)")
    top.add_argument("--match", metavar="TEXT", nargs="+", help="only these texts, such as task_error (default: all)")
    top.add_argument("--k", type=positive, default=5, metavar="N", help="ranks that count (default: %(default)s)")
    top.add_argument("--seed", type=int, default=0, metavar="N", help="of random and of intervals (default: 0)")
    cache = "file that caches embeddings between comparisons (default: %(default)s)"
    top.add_argument("--embeddings", metavar="FILE", default="runs/embeddings.sqlite", help=cache)
    return top


def retrieval(options: argparse.Namespace) -> int:
    import time

    from rich.console import Console

    from experiments._tools.contestants import NAMES, contestants
    from experiments._tools.probes import VIEWS, known
    from experiments._tools.recollected import recollect
    from experiments._tools.retrieval_cases import save_cases
    from experiments._tools.retrieval_report import as_rows, show
    from experiments._tools.retrievers_compared import compare
    from reflexion_lab.cli.sheets import say_json

    start = time.monotonic()
    # Invalid arguments are reported before minutes of execution.
    views = known(options.match or VIEWS)
    output.check_places(options.files, options.out)
    entrants = contestants(options.retriever or NAMES, seed=options.seed, embeddings=options.embeddings)
    recollected = recollect(options.files, limit=options.limit)
    compared = compare(
        recollected.episodes, entrants.making, views, unseen=entrants.unseen, k=options.k, seed=options.seed
    )
    show(recollected, compared, Console())
    if options.out:
        output.print_written(save_cases(recollected, compared, Path(options.out)))
    if options.json:
        counts = {"documents": compared.documents, "tasks": compared.tasks, "unshown": recollected.unshown}
        say_json({**counts, "cells": list(as_rows(compared)), "seconds": round(time.monotonic() - start, 3)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
