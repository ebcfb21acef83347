import functools
import random
import warnings

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.comparison.budgets import accuracy_by_spending
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures import drawing
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.notebook import plot
from reflexion_lab.runner.folder.folder import folders

HOSTILE = ("$x_1^2$ & \\frac{a}{b} \\input{x}", "two\nlines\x1b[31m\u202e", "L" * 300, "L" * 299 + "M", "_hidden", "")
SEVERAL = ("curves", "budgets", "differences")
SINGLE = ("outcome_map", "transitions", "calibration")


@pytest.fixture(autouse=True)
def pyplot():
    """Without the figures of others. Imported here: every process that collects would import it."""
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def make_runs(runs_written_in, tmp_path_factory, attempt, reflection):
    """Folders of two seeds an arm, whose second attempts have read the reflection on the first. Nobody changes them."""

    @functools.cache
    def make(*names, tasks=12):
        folder = tmp_path_factory.mktemp("runs")
        write_run = runs_written_in(folder)
        for place, name in enumerate(names):
            for seed in (1, 2):
                rng, histories = random.Random(f"{place}:{seed}"), {}
                for task in range(tasks):
                    first, second = rng.random() < 0.3, rng.random() < 0.5
                    histories[f"t{task}"] = [
                        attempt(f"t{task}", 1, float(first), reflection=None if first else reflection(1))
                    ]
                    if not first:
                        read = replace(attempt(f"t{task}", 2, float(second)), recalled=(f"ep-t{task}-1",))
                        histories[f"t{task}"].append(read)
                run = write_run(attempts=histories, seed=seed, name=f"run-{place}-{seed}")
                config = {"arm": name, "seed": seed, "recall": {"omega": place}}
                run.write_manifest(replace(run.manifest, run_id=run.path.name, config=config))
        return f"{folder}/run-*"

    return make


def test_listing_the_room_gives_figures_alone():
    assert {"curves", "budgets", "heat_map"} <= set(dir(plot))
    assert all(callable(getattr(plot, name)) and getattr(plot, name).__doc__ for name in dir(plot))
    with pytest.raises(AttributeError, match="no figure 'curve'; it has curves, "):
        plot.curve  # noqa: B018


def test_a_figure_of_ones_own_is_one_function(make_runs):
    @drawing.figure(95)
    def attempts_per_arm(arms):
        rows = [(arm.label, arm.longest) for arm in arms]
        return drawing.Drawing(
            "own", "Own", [lambda ax: ax.bar(*zip(*rows, strict=True)) and ax], ("arm", "n"), rows, ""
        )

    try:
        assert [bar.get_height() for bar in plot.attempts_per_arm(make_runs("retry", "reflexion")).patches] == [2, 2]
    finally:
        del drawing.REGISTRY["attempts_per_arm"]


def caption(ax):
    (caption_,) = [text for text in ax.texts if text.get_gid() == "caption"]
    return " ".join(caption_.get_text().split())


def drawn(name, pattern, **options):
    return getattr(plot, name)(pattern, **options)


@pytest.mark.parametrize("name", [*SEVERAL, *SINGLE])
def test_each_takes_and_returns_an_axes_with_its_facts(make_runs, pyplot, name):
    runs = make_runs("retry", "reflexion") if name in SEVERAL else make_runs("reflexion")
    figure, (left, right) = pyplot.subplots(1, 2, layout="constrained")
    assert drawn(name, runs, ax=left) is left
    for fact in ("12 tasks x 2 seeds (1, 2)", "Feedback: visible"):
        assert fact in caption(left)
    assert name == "outcome_map" or "95 %" in caption(left)
    assert drawn(name, runs, ax=right, caption=False) is right
    assert not [text for text in right.texts if text.get_gid() == "caption"]
    assert pyplot.get_fignums() == [figure.number]
    assert left.get_xlabel() and (left.get_ylabel() or left.get_yticklabels())


def test_values_are_those_of_the_analysis(make_runs):
    runs = make_runs("retry", "reflexion")
    run_arms = arms(folders(runs))
    lines = [line for line in plot.curves(runs).lines if line.get_gid() == "pass_at_1"]
    assert [list(line.get_ydata()) for line in lines] == [
        [p.pass_at_1 for p in Curve.over(arm, 2).points] for arm in run_arms
    ]
    ends = [line for line in plot.budgets(runs, unit="calls").lines if line.get_gid() == "final"]
    assert [line.get_xdata()[0] for line in ends] == [accuracy_by_spending(arm, "calls")[-1].spend for arm in run_arms]


def test_a_new_figure_is_pyplots_white_and_has_room_for_all_words(make_runs, pyplot):
    with pyplot.style.context("dark_background"), warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plot.budgets(make_runs("retry", "reflexion"))
        ax.figure.canvas.draw()
    assert pyplot.get_fignums() == [ax.figure.number]
    assert ax.figure.get_facecolor() == ax.get_facecolor() == (1, 1, 1, 1)
    (words,) = ax.figure.findobj(lambda artist: artist.get_gid() == "caption")
    box, whole = words.get_window_extent(), ax.figure.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0
    assert box.y1 < ax.xaxis.label.get_window_extent().y0
    (legend,) = (legend.get_window_extent() for legend in ax.figure.legends)
    assert ax.bbox.y1 <= legend.y0 and legend.y1 <= whole.y1


@pytest.mark.parametrize("name", SEVERAL)
def test_names_of_arms_are_escaped_and_distinct(make_runs, name):
    from matplotlib.text import Text

    runs = make_runs(*HOSTILE, tasks=6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = drawn(name, runs)
        ax.figure.canvas.draw()
    items = [text.get_text() for text in ax.figure.findobj(Text)]
    assert not any(c in text for text in items for c in ("\x1b", "\u202e"))
    assert any("$x_1^2$ & \\frac{a}{b}" in text for text in items)
    assert not any(
        text.get_usetex() or text.get_parse_math() for text in ax.figure.findobj(Text) if "$" in text.get_text()
    )
    assert max(map(len, (line for text in items for line in text.split("\n")))) < 250
    if name == "budgets":
        labels = set(ax.get_legend_handles_labels()[1]) - {"convex hull"}
        assert len(labels) == len(HOSTILE) and max(map(len, labels)) < 80


def test_an_axes_has_room_for_one_arm_which_has_to_be_named(make_runs):
    runs = make_runs("retry", "reflexion")
    with pytest.raises(ValueError, match=r"2, expected one, .*arm=: retry, reflexion"):
        plot.transitions(runs)
    with pytest.raises(ValueError, match="'other', expected one of these: retry, reflexion"):
        plot.outcome_map(runs, arm="other")
    assert plot.transitions(runs, arm="reflexion").get_title(loc="left") == "reflexion"


def test_what_cannot_be_drawn_is_said(make_runs, pyplot, write_run):
    runs = make_runs("reflexion")
    with pytest.raises(ValueError, match="retrieval: got no attempt that read"):
        plot.retrieval(runs)
    with pytest.raises(ValueError, match="differences: got no difference to a baseline"):
        plot.differences(runs)
    with pytest.raises(ValueError, match="transitions: got no loop with a second attempt"):
        plot.transitions(write_run({"a": [(1.0, True)]}, name="single"))
    assert not pyplot.get_fignums()


def test_arms_of_a_sweep_have_short_names_a_heat_map_and_figures_without_words(make_runs):
    runs = make_runs("reflexion", "reflexion", "reflexion")
    names = {text.get_text() for text in plot.budgets(runs).figure.legends[0].get_texts()}
    assert {"Ω0", "Ω1", "Ω2"} <= names
    bare = plot.curves(runs, caption=False)
    assert bare.get_title(loc="left") == ""
    assert plot.transitions(runs, arm="Ω1").get_title(loc="left") == "Ω1"
    assert plot.transitions(runs, arm="reflexion recall.omega=1").get_title(loc="left") == "Ω1"
    assert [label.get_text() for label in plot.heat_map(runs, keys="recall.omega").get_xticklabels()] == ["0", "1", "2"]
    with pytest.raises(ValueError, match="heat_map: got no swept config key"):
        plot.heat_map(make_runs("reflexion"))
