"""`reflexion-lab retrieval`: is retrieval any good, on recorded loops?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from reflexion_lab.commands import place
from reflexion_lab.commands.place import out_folder


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "compare retrievers on recorded loops: whose reflections do they find?"
    sub = commands.add_parser("retrieval", help=text, description=text)
    sub.add_argument("files", metavar="FILE", nargs="+", help="transcripts with reflections (.jsonl, .jsonl.gz)")
    sub.add_argument("--retriever", metavar="NAME", nargs="+", help="only these, such as bm25 (default: all)")
    sub.add_argument("--match", metavar="TEXT", nargs="+", help="only these texts, such as task_error (default: all)")
    sub.add_argument("--k", type=place.positive, default=5, metavar="N", help="hits that count (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, metavar="N", help="of random and of intervals (default: 0)")
    sub.add_argument("--limit", type=place.positive, metavar="N", help="only the first N rows of each file")
    keeps = "file that keeps embeddings from one comparison to the next (default: %(default)s)"
    sub.add_argument("--embeddings", metavar="FILE", default="runs/embeddings.sqlite", help=keeps)
    sub.add_argument("--out", metavar="DIR", help="write table.csv and figure.svg there")
    sub.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    sub.set_defaults(command=retrieval)


def retrieval(options: argparse.Namespace) -> int:
    import json
    import time

    from rich.console import Console

    from reflexion_lab.audits.contestants import NAMES, contestants
    from reflexion_lab.audits.probes import VIEWS, known
    from reflexion_lab.audits.recollected import recollect
    from reflexion_lab.audits.retrieval import compare
    from reflexion_lab.audits.retrieval_plot import save
    from reflexion_lab.audits.retrieval_report import as_rows, show

    start = time.monotonic()
    # What is wrong with the arguments shows before minutes are spent on them.
    views = known(options.match or VIEWS)
    _check(options.files, options.out)
    made = contestants(options.retriever or NAMES, seed=options.seed, embeddings=options.embeddings)
    found = recollect(options.files, limit=options.limit)
    compared = compare(found.episodes, made.making, views, unseen=made.unseen, k=options.k, seed=options.seed)
    show(found, compared, Console())
    if options.out:
        print("\n".join(f"written: {path}" for path in save(compared, found.sources, Path(options.out))))
    if options.json:
        told = {"documents": compared.documents, "tasks": compared.tasks, "unshown": found.unshown}
        seconds = round(time.monotonic() - start, 3)
        print(json.dumps({**told, "cells": list(as_rows(compared)), "seconds": seconds}))
    return 0


def _check(files: Sequence[str], out: str | None) -> None:
    """Raises ValueError where a file is none, or `out` cannot be a folder."""
    for file in files:
        if Path(file).is_dir() or not Path(file).exists():
            raise ValueError(f"{file}: no file found; expected transcripts with reflections (.jsonl, .jsonl.gz)")
    if out:
        out_folder(out)
