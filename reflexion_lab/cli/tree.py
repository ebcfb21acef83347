"""`reflexion-lab tree`: is repair worth its tokens? From runs whose loops are trees of draws and repairs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reflexion_lab.analysis.report.cells import estimate, listed
from reflexion_lab.cli import place
from reflexion_lab.cli.sheets import say_json
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal import columns
from reflexion_lab.text.shorten import number_of

if TYPE_CHECKING:
    from reflexion_lab.analysis.learning.repair import Repair


def add(commands: place.Commands) -> None:
    text = "say whether repair is worth its tokens, from runs with policy=repair_tree; pass@t beside independent draws"
    sub = place.add_command(commands, "tree", tree, text)
    place.add_runs(sub, "; all of one arm")
    sub.add_argument("--out", metavar="FOLDER", help="also write tree.png, and tree.csv with its numbers, to FOLDER")
    place.add_json(sub)


def tree(options: argparse.Namespace) -> None:
    """Raises ConfigError: runs of several arms; DataError: as of `repair`."""
    from reflexion_lab.analysis.comparison.grouping import arms
    from reflexion_lab.analysis.figures.drawing import save
    from reflexion_lab.analysis.figures.trees import drawing
    from reflexion_lab.analysis.learning.repair import repair
    from reflexion_lab.analysis.report.screen import folded

    every = arms(place.chosen(options))
    if len(every) > 1:
        raise ConfigError("RUN", f"{len(every)} arms: {listed([arm.label for arm in every], 3)}", "runs of one arm")
    answer = repair(every[0])
    out = options.out and save(place.out_folder(options.out), drawing(answer, every[0])).path
    if options.json:
        say_json(answer)
        return
    for line in (*lines(answer), f"figure: {out or '--out FOLDER'}"):
        print(*folded(line, min(80, columns())), sep="\n")


def lines(answer: Repair) -> Iterator[str]:
    """Repair beside draws at the largest common budget, then what else the trees say."""
    curves, at, n = answer.curves, answer.curves.headline, f"n = {answer.n}"
    yield f"{answer.arm} · {n} trees of {len(curves.draws)} programs, {answer.repairs} repairs of each that failed"
    yield "pass@t: any program passes its hidden tests, an upper bound of what is submitted"
    budget = "the largest common budget" if at.difference else "the smallest tree"
    yield f"at {at.tokens:,.0f} tokens a task, {budget}, with 95 % intervals:"
    yield f"  {number_of(at.programs, 'program')}, {number_of(at.repairs, 'repair')}  {estimate(at.pass_at_t)} %"
    if at.drawn and at.difference:
        ahead = {at.difference.low > 0: "repair is ahead", at.difference.high < 0: "draws are ahead"}
        yield f"  {at.draws:.1f} independent draws  {estimate(at.drawn)} %"
        yield f"  difference  {estimate(at.difference, signed=True)} points: {ahead.get(True, 'not decided')}"
    else:
        yield f"  as many tokens as {at.draws:.1f} draws, more than a tree has: run with more policy.programs"
    even = f"all {len(curves.draws)} draws of a tree pass less often"
    if at.break_even and math.isfinite(at.break_even.value):
        even = f"it would tie at {estimate(at.break_even, 2, 1)}"
    yield f"break-even: a repair costs {at.price:.2f} draws; {even}".replace("inf]", "more]")
    sides = [(n_r, place, "ahead" if is_ahead else "behind") for n_r, (place, is_ahead) in curves.crossings.items()]
    crossings = [
        f"{number_of(n_r, 'repair')} {side} beyond {estimate(place, 0, 1)}" for n_r, place, side in sides if place
    ]
    yield f"crossing, in tokens: {'; '.join(crossings) or 'none within the tree'}".replace("inf]", "more]")
    worth = [f"{spot.programs} x {spot.repairs}" for spot in curves.spots if spot.is_worth_it]
    yield f"worth it (programs x repairs, 95 % for all together): {listed(worth, 6) or 'none'}"
    left_out = f"; {number_of(answer.left_out, 'case')} without a verdict left out" * bool(answer.left_out)
    yield f"submitted by feedback: pass@1 {estimate(answer.submitted)} %{left_out}"
    yield f"upper bound (stops on hidden tests): {estimate(answer.stopped)} %, {answer.stopped_tokens:,.0f} tokens"
