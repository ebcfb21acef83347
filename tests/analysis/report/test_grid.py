"""A sweep over three keys, as its user reads it: names of cells, the baseline, the best cell, heat maps."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot

import reflexion_lab as rl
from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison import grid as grid_of
from reflexion_lab.analysis.comparison.grouping import shared_words, short_names
from reflexion_lab.analysis.stats.bootstrap import difference
from reflexion_lab.cli.main import main

SMALL = ("model=simulated", "model.first=0.45", "actor=single_shot", "temperature=0.8", "tracker=none",
         "benchmark.limit=8", "run_root=runs", "seed=0,1")  # fmt: skip
KEYS = ("loop.confidence_threshold", "loop.max_attempts", "recall.omega")


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """A folder with a sweep of 12 cells over two seeds in `runs/`; the threshold changes no call."""
    path = tmp_path_factory.mktemp("grid")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        pyplot.switch_backend("agg")
        rl.sweep([f"{KEYS[0]}=0.99,1", f"{KEYS[1]}=2,3", f"{KEYS[2]}=0,1,2", *SMALL], quiet=True)
    yield path
    pyplot.close("all")


@pytest.fixture
def screen_of(grid, monkeypatch, capsys):
    def run(*options, columns=80):
        monkeypatch.chdir(grid)
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["compare", "runs", *options]) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.mark.parametrize("columns", [80, 60])
def test_every_cell_of_three_keys_is_on_the_screen_or_counted(screen_of, columns):
    lines = screen_of(columns=columns)
    assert len(lines) <= 15 and max(map(len, lines)) <= columns
    text = " ".join(" ".join(lines).split())
    assert "difference to t1 a3 Ω1 (the lab's default); exploratory" in text
    assert "t: loop.confidence_threshold, a: loop.max_attempts, Ω: recall.omega." in text
    names = [" ".join(line.split()[:3]) for line in lines if line[0] == "t" and " a" in line[:9]]
    left = next(int(line.split()[0]) for line in lines if " not shown, none higher" in line)
    assert "t1 a3 Ω1" in names and len(names) + left == 12


@pytest.mark.parametrize(
    ("words", "titles"),
    [((), ["t0.99", "t1"]), ((KEYS[2], KEYS[1]), ["t0.99", "t1"]), ((KEYS[0], KEYS[1]), ["Ω0", "Ω1", "Ω2"]),
     ((KEYS[2],), ["t0.99 a2", "t0.99 a3", "t1 a2", "t1 a3"])],
)  # fmt: skip
def test_a_heat_map_for_each_value_of_the_other_keys(grid, monkeypatch, words, titles):
    monkeypatch.chdir(grid)
    assert titles_of(rl.plot.heat_map("runs", *words)) == titles
    assert titles_of(rl.plot.heat_map("runs", keys=words)) == titles


def titles_of(axes):
    return [ax.get_title(loc="left") for ax in axes.figure.axes if ax.get_visible()]


@pytest.mark.parametrize(
    ("draw", "way"),
    [(lambda ax: rl.plot.heat_map("runs", ax=ax), "without ax= they are drawn on a new figure"),
     (lambda ax: rl.plot.heat_map("runs", "recall.omga", ax=ax), "such as recall.omega, loop.max_attempts, "),
     (lambda ax: rl.plot.outcome_map("runs"), "name it with arm=: t0.99 a2 Ω0, t0.99 a2 Ω1, ")],
)  # fmt: skip
def test_what_cannot_be_drawn_names_a_way_that_works(grid, monkeypatch, draw, way):
    monkeypatch.chdir(grid)
    with pytest.raises(ValueError) as problem:
        draw(pyplot.subplots()[1])
    assert way in str(problem.value)
    assert titles_of(rl.plot.outcome_map("runs", arm="t0.99 a2 Ω0")) == ["t0.99 a2 Ω0"]


def test_the_best_cell_stands_with_its_correction_for_having_been_chosen(screen_of):
    text = " ".join(" ".join(screen_of()).split())
    assert "best cell: the baseline, 62.5 %; no cell differs from the baseline (simultaneous over 12 cells)" in text
    text = " ".join(" ".join(screen_of("--baseline", "t1 a2 Ω0")).split())
    assert "best cell t1 a3 Ω1: 62.5 %, as run +31.2 [-18.8, +76.6] to the baseline, simultaneous" in text
    assert "12 cells; no cell differs from the baseline" in text
    assert "best cell" in " ".join(screen_of(columns=60))


def cell(label, verdicts):
    return SimpleNamespace(label=label, is_upper_bound=False, clusters={}, verdicts=lambda: verdicts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks", "seeds", "share", "redrawn", "shared", "without"),
    [(30, 1, 0.5, 0.3, 0.5, 0.9), (80, 2, 0.5, 0.3, 0.5, 0.8), (80, 2, 0.9, 0.1, 0.8, 1), (160, 1, 0.8, 0.2, 0.8, 0.9)],
)
def test_intervals_hold_for_the_best_of_twelve_equal_cells(tasks, seeds, share, redrawn, shared, without):
    """Every cell draws a part of the baseline's cases again, and a part of these in common: no true difference."""
    rng, studies, size = np.random.default_rng(0), 200, (12, tasks, seeds)
    covered = alone = 0
    for _ in range(studies):
        draws = np.where(rng.random(size) < shared, rng.random((2, 1, tasks, seeds)), rng.random((2, *size)))
        solved = np.where(draws[0] < redrawn, draws[1] < share, rng.random((tasks, seeds)) < share)
        cases = [Case(seed, str(task)) for task in range(tasks) for seed in range(seeds)]
        arms = [
            cell(f"r k={n}", dict(zip(cases, map(bool, each.ravel()), strict=True))) for n, each in enumerate(solved)
        ]
        covered += not grid_of.best_cell(arms, arms[0]).differing
        each = [difference(solved[0].astype(float), other.astype(float)) for other in solved[1:]]
        alone += all(interval.low <= 0 <= interval.high for interval in each)
    assert covered / studies >= 0.93
    assert alone <= covered
    assert alone / studies <= without


def labels(**values):
    words = [""]
    for key, each in values.items():
        words = [f"{word} {key.replace('__', '.')}={value}" for word in words for value in each]
    return [f"reflexion{word}" for word in words]


@pytest.mark.parametrize(
    ("cells", "first", "legend"),
    [
        (labels(loop__confidence_threshold=(0.5, 1), recall__omega=(0, 1)), "t0.5 Ω0",
         "t: loop.confidence_threshold, Ω: recall.omega."),
        (labels(loop__reflect_below=(0.5, 1)), "reflect_below=0.5", "reflect_below: loop.reflect_below."),
        (labels(loop__reflect_below=(0.5, 1), actor__sampling__top_p=(0.9, 1.0)), "rb0.5 tp0.9",
         "rb: loop.reflect_below, tp: actor.sampling.top_p."),
        (labels(loop__reflect_below=(0.5, 1), loop__reflect_on_last=(True, False)), "rb0.5 rol=True",
         "rb: loop.reflect_below, rol: loop.reflect_on_last."),
        (labels(recall__min_score=(0.25, 0.5), recall__max_share=(1, 2)), "misc0.25 mash1",
         "misc: recall.min_score, mash: recall.max_share."),
        (labels(x__width=(1, 2), loop__reflect_below=(0.5, 1), y__width=(3, 4)),
         "x.width=1 reflect_below=0.5 y.width=3",
         "reflect_below: loop.reflect_below."),
    ],
)  # fmt: skip
def test_cells_are_named_by_one_scheme_with_its_legend(cells, first, legend):
    names = list(short_names(cells).values())
    assert names[0] == first and len(set(names)) == len(cells)
    assert shared_words(cells) == f"All arms: reflexion; {legend}"
