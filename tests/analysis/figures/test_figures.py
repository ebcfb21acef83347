import csv
import random
from functools import cache

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.budgets import accuracy_by_spending
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures import budgets as budget_plots
from reflexion_lab.analysis.figures import curves, drawing, heat_map
from reflexion_lab.analysis.figures.budgets import budget
from reflexion_lab.analysis.figures.curves import Curve
from reflexion_lab.analysis.figures.differences import differences
from reflexion_lab.analysis.figures.drawing import save_figures
from reflexion_lab.analysis.figures.memory import along_the_stream, orders, windows
from reflexion_lab.analysis.figures.memory import drawing as memory_drawing
from reflexion_lab.analysis.figures.outcome_map import outcome_map
from reflexion_lab.analysis.figures.style import share_axis, spread
from reflexion_lab.analysis.figures.transitions import transition_bars
from reflexion_lab.analysis.learning.transitions import transitions
from reflexion_lab.records import Update, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from tests.analysis.figures.artists import axes, by_gid

TASKS = [f"t{number:02}" for number in range(24)]


def verdicts(name, seed, source, attempts):
    """Attempt 1 is the same in all arms; what follows is drawn for each."""
    verdicts = {}
    for task in TASKS:
        first, own = random.Random(f"{seed}:{task}"), random.Random(f"{name}:{seed}:{task}")
        history = []
        for number in range(1, attempts + 1):
            right = (first if number == 1 else own).random() < 0.4
            visible = (
                right if source == "oracle" else (first if number == 1 else own).random() < (0.9 if right else 0.1)
            )
            history.append((1.0 if visible else 0.5, right))
            if visible:
                break
        verdicts[task] = history
    return verdicts


@pytest.fixture(scope="module")
def make_arms(runs_written_in, tmp_path_factory):
    """Arms with two seeds each, of one attempt where the name is `simple`."""

    def make(*names, seeds=(1, 2), configs=None):
        folders, folder = [], tmp_path_factory.mktemp("runs")
        write_run = runs_written_in(folder)
        for place, name in enumerate(names):
            source = "oracle" if name == "oracle" else "visible"
            for seed in seeds:
                result = verdicts(f"{name}{place}", seed, source, 1 if name == "simple" else 3)
                run = write_run(result, seed=seed, feedback_source=source)
                path = run.path.rename(folder / f"{name}-{place}-{seed}")
                moved, config = RunFolder(path), (configs or [{}] * len(names))[place]
                moved.write_manifest(
                    replace(moved.manifest, run_id=path.name, config={"arm": name, "seed": seed, **config})
                )
                folders.append(path)
        return arms(folders)

    return make


@pytest.fixture(scope="module")
def saved(make_arms, tmp_path_factory):
    """Draws the figures of arms, once for all tests: it takes seconds."""

    @cache
    def drawn(*names):
        return save(make_arms(*names))

    def save(arms):
        folder = tmp_path_factory.mktemp("figures")
        return {figure.drawing.name: figure for figure in save_figures(folder, compare(arms), arms)}

    return lambda *names, **options: save(make_arms(*names, **options)) if options else drawn(*names)


def rows(figure):
    with figure.table.open(newline="") as file:
        return list(csv.DictReader(file))


def words(ax):
    return " ".join(text.get_text() for text in ax.texts)


def test_every_figure_is_on_disk_with_its_numbers_and_its_facts(saved):
    figures = saved("retry", "reflexion")
    assert list(figures) == ["curves", "budget", "differences", "transitions", "outcomes"]
    assert set(saved("simple")) == {"curves", "budget", "outcomes"}  # the others would be empty
    for figure in figures.values():
        assert figure.path.read_bytes().startswith(b"\x89PNG")
        assert rows(figure)
        for fact in ("24 tasks x 2 seeds (1, 2)", "Feedback: visible"):
            assert fact in figure.drawing.caption
        assert ("95 %" in figure.drawing.caption) == (figure.drawing.name != "outcomes")


def test_curves_are_those_of_the_arms_with_the_intervals_of_the_table(saved, make_arms):
    figure = saved("retry", "reflexion")["curves"]
    table = rows(figure)
    assert [(row["arm"], row["attempt"], row["n"]) for row in table] == [
        (arm, str(t), "48") for arm in ("retry", "reflexion") for t in (1, 2, 3)
    ]
    assert all(float(row["low"]) <= float(row["share"]) <= float(row["high"]) for row in table)
    assert "adjusted t over tasks" in figure.drawing.caption
    assert table[0]["share"] == table[3]["share"]


def test_a_curve_over_seeds_counts_cases_and_pools_runs(make_arms):
    (arm,) = make_arms("reflexion")
    curve, single = Curve.over(arm), [Curve.over(Arm("reflexion", [log])) for log in arm.logs]
    for t, point in enumerate(curve.points):
        parts = [seed_curve.points[t] for seed_curve in single]
        assert point.n == 48
        assert point.solved == sum(part.solved for part in parts)
        assert point.tokens_cum == sum(part.tokens_cum for part in parts)
        assert point.any_solved == pytest.approx(sum(part.any_solved for part in parts) / 2)
    assert curve.arm.seeds == (1, 2)


def test_curves_are_drawn_to_one_end_and_other_first_attempts_not_called_shared(make_arms, tmp_path):
    table = rows(drawing.save(tmp_path, curves.drawing(make_arms("simple", "reflexion"))))
    assert [row["attempt"] for row in table if row["arm"] == "simple"] == ["1", "2", "3"]
    assert len({row["share"] for row in table if row["arm"] == "simple"}) == 1
    first, second = make_arms("retry", "reflexion")
    case = next(iter(second.attempts))
    attempt = second.attempts[case][0]
    second.attempts[case][0] = replace(attempt, trajectory=replace(attempt.trajectory, solution="other"))
    assert "first attempts of reflexion are not those of retry" in curves.drawing([first, second]).caption


def test_every_figure_with_an_oracle_is_watermarked(make_arms):
    result = make_arms("retry", "oracle")
    (retry, oracle), compared = result, compare(result)
    drawn = [
        curves.curves([Curve.over(arm) for arm in result], axes()),
        budget({arm: accuracy_by_spending(arm, "tokens") for arm in result}, "tokens", axes()),
        differences(compared, axes()),
        transition_bars(transitions(oracle), axes()),
        outcome_map(oracle, TASKS, axes()),
    ]
    for ax in drawn:
        (mark,) = by_gid(ax.texts, "watermark")
        assert "UPPER BOUND" in mark.get_text()
    assert not by_gid(transition_bars(transitions(retry), axes()).texts, "watermark")
    assert not by_gid(curves.curves([Curve.over(retry)], axes()).texts, "watermark")


@pytest.mark.slow
def test_an_oracle_is_no_pass_at_1_in_words_nor_on_the_hull(saved, make_arms):
    figures = saved("retry", "oracle")
    for figure in figures.values():
        if "oracle" in {row.get("arm") for row in rows(figure)}:
            assert "UPPER BOUND, not pass@1 (oracle)" in figure.drawing.caption
    assert "pass@1" not in curves.drawing(make_arms("oracle")).title
    table = rows(figures["budget"])
    assert {row["on_hull"] for row in table if row["arm"] == "oracle"} == {"False"}
    assert "True" in {row["on_hull"] for row in table if row["arm"] == "retry"}


def test_spending_has_a_log_axis_and_is_drawn_only_where_known(saved, make_arms):
    units = {row["unit"] for row in rows(saved("retry", "reflexion")["budget"])}
    assert units == {"completion_tokens", "tokens", "calls"}  # nothing costs
    (arm,) = make_arms("other")
    assert budget({arm: accuracy_by_spending(arm, "calls")}, "calls", axes()).get_xscale() == "log"


def test_differences_are_those_of_the_comparison(make_arms):
    comparison = compare(make_arms("retry", "reflexion"))
    (row,) = [row for row in comparison.rows if row.differences]
    ax, printed = differences(comparison, axes()), comparison.shown(row).values()
    for difference in printed:
        (dot,) = by_gid(ax.lines, difference.words)
        assert dot.get_xdata()[0] == difference.value
    bars = by_gid(ax.patches, "minimum")
    known = [difference.minimum for difference in printed if difference.minimum is not None]
    assert [bar.get_width() for bar in bars] == [2 * minimum for minimum in known]


def test_bars_of_an_attempt_are_all_of_its_programs(make_arms):
    (arm,) = make_arms("reflexion")
    moves = transitions(arm)
    ax = transition_bars(moves, axes())
    heights = {}
    for kind in ("cc", "wc", "cw", "ww"):
        for bar in by_gid(ax.patches, kind):
            place = round(bar.get_x() + bar.get_width() / 2)
            heights[place] = heights.get(place, 0) + bar.get_height()
    assert heights == {2: pytest.approx(1), 3: pytest.approx(1)}
    assert f"n = {moves.programs[0].n}" in words(ax)


def test_outcome_map_has_a_cell_per_attempt_easiest_task_first(saved, make_arms):
    table = rows(saved("retry", "reflexion")["outcomes"])
    places = {row["task_id"]: (int(row["place"]), float(row["solved_share"])) for row in table}
    shares = [share for _, share in sorted(places.values())]
    assert len(places) == 24
    assert shares == sorted(shares, reverse=True)
    (arm,) = make_arms("other")
    image = by_gid(outcome_map(arm, TASKS, axes()).images, "map")[0].get_array()
    assert image.count() == sum(len(attempts) for attempts in arm.attempts.values())


def test_one_swept_key_is_a_row_of_cells_numbers_first_and_words_behind_them(make_arms):
    result = make_arms(*["reflexion"] * 4, configs=[{"recall": {"omega": omega}} for omega in (3, "all", 0, 1)])
    assert heat_map.swept(result) == ["recall.omega"]
    drawn = heat_map.drawing(result)
    assert {row[3]: row[4] for row in drawn.rows} == dict.fromkeys((0.0, 1.0, 3.0, "all"), "reflexion")
    ax = drawn.panels[0](axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "1", "3", "all"]
    assert ax.images[0].get_array().shape == (1, 4)
    assert drawn.title == "pass@1 over Ω (recall.omega)"


def test_two_swept_keys_are_a_heat_map_with_rate_interval_and_n_in_each_cell(make_arms):
    grid = [{"recall": {"omega": omega}, "loop": {"max_attempts": a}} for omega in (1, 3) for a in (2, 3)]
    swept_arms = list(drawing.readable(make_arms(*["reflexion"] * 4, configs=grid)).values())
    drawn = heat_map.drawing(swept_arms)
    assert [(row[1], row[3], row[5]) for row in drawn.rows] == [
        (1.0, 2.0, "a2 Ω1"), (1.0, 3.0, "a3 Ω1"), (3.0, 2.0, "a2 Ω3"), (3.0, 3.0, "a3 Ω3"),
    ]  # fmt: skip
    ax = drawn.panels[0](axes())
    (image,) = ax.images
    for arm, row, place in zip(swept_arms, drawn.rows, ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True):
        share = arm.share(arm.verdicts())
        assert row[8] == image.get_array()[place] == share.value
    texts = [text.get_text() for text in by_gid(ax.texts, "cell")]
    assert all("n = 48" in text and "[" in text for text in texts)


def test_more_arms_than_fit_have_panels_by_a_swept_key_and_differences_at_one_budget(make_arms):
    grid = [{"recall": {"omega": omega}, "loop": {"max_attempts": a}} for omega in (0, 1, 2, 3) for a in (2, 3)]
    result = make_arms(*["reflexion"] * 8, configs=grid)
    drawn = curves.drawing(result), curves.drawing(result, is_single=True), curves.drawing(make_arms(*"abcdefgh"))
    titles = ["a (loop.max_attempts): 2", "a (loop.max_attempts): 3"], [""], [""]
    for figure, own in zip(drawn, titles, strict=True):
        panels = [panel(axes()) for panel in figure.panels]
        assert [ax.get_title(loc="left") for ax in panels] == own
        assert [len(by_gid(ax.texts, "name")) for ax in panels] == [8 // len(panels)] * len(panels)
        assert len({ax.get_ylim() for ax in panels}) == 1
    compared = compare(result)
    ax = differences(compared, axes())
    points = [line.get_xdata()[0] for line in by_gid(ax.lines, "equal attempts")]
    assert points == sorted(points, reverse=True) and len(points) == len(ax.get_yticks()) == 7
    assert not by_gid(ax.lines, "equal tokens")


def test_captions_have_two_lines_and_say_once_what_all_arms_share(make_arms, tmp_path):
    grid = [{"recall": {"omega": omega}, "loop": {"max_attempts": a}} for omega in (1, 3) for a in (2, 3)]
    named = list(drawing.readable(make_arms(*["reflexion"] * 4, configs=grid)).values())
    drawn = curves.drawing(named)
    assert "All arms: reflexion; a: loop.max_attempts, Ω: recall.omega." in drawn.caption
    assert {row[0] for row in drawn.rows} == {"a2 Ω1", "a3 Ω1", "a2 Ω3", "a3 Ω3"}
    assert drawing._wrapped(drawn.caption, drawn.size[0], drawing.MOST_LINES).count("\n") == 1
    bare = drawing.save(tmp_path, drawn, "svg", is_captioned=False).path.read_text()
    assert drawn.title not in bare and "All arms" not in bare
    assert drawn.title in drawing.save(tmp_path, drawn, "svg").path.read_text()


def test_a_curve_is_marked_where_its_loops_ended(make_arms):
    simple, longer = (Curve.over(arm, 3) for arm in make_arms("simple", "reflexion"))
    ax = curves.curves([simple, longer], axes())
    (rest,) = by_gid(ax.lines, "ended")
    assert list(rest.get_xdata()) == pytest.approx([point.attempt for point in simple.points], abs=0.5)
    assert [len(line.get_xdata()) for line in by_gid(ax.lines, "pass_at_1")] == [1, 3]
    assert "Ring: the last attempt" in curves.drawing(make_arms("simple", "reflexion")).caption
    assert "Ring" not in curves.drawing(make_arms("retry", "reflexion")).caption


def test_share_axes_hold_all_intervals_and_name_their_range(make_arms):
    drawn = [Curve.over(arm) for arm in make_arms("retry", "reflexion")]
    ax = curves.curves(drawn, axes())
    low, high = ax.get_ylim()
    ends = [end for curve in drawn for point in curve.points for end in (point.low, point.high)]
    assert low <= min(ends) and max(ends) <= high
    assert f"(axis: {100 * low:.0f} to {100 * high:.0f} %)" in ax.get_ylabel()
    share_axis(ax, [0.5, 0.51], "share")
    assert ax.get_ylim()[1] - ax.get_ylim()[0] == pytest.approx(1 / 3)
    share_axis(ax, [0.0, 1.0], "share")
    assert ax.get_ylabel() == "share"


def test_seeds_and_words_alone_are_no_sweep_nor_an_unknown_key(make_arms):
    result = make_arms("retry", "reflexion")
    assert heat_map.swept(result) == []
    assert heat_map.drawing(result) is None
    assert heat_map.swept(make_arms("x", "x", configs=[{"actor": "one"}, {"actor": "two"}])) == []
    with pytest.raises(ValueError, match=r"got .recall\.size., expected a dotted config key"):
        heat_map.drawing(result, ["recall.size"])


def test_two_writings_of_one_figure_are_the_same_bytes(make_arms, tmp_path):
    (arm,) = make_arms("reflexion")
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        figure = drawing.save(tmp_path / name, curves.drawing([arm]), "svg")
        texts.append((figure.path.read_bytes(), figure.table.read_bytes()))
    assert texts[0] == texts[1]
    assert texts[0][0].startswith(b"<?xml")


def test_names_in_figures_are_escaped(saved, make_arms, tmp_path):
    figures = saved("=1+1", "a\x1b[31m\u202e\nb")
    assert {row["arm"] for row in rows(figures["curves"])} == {"'=1+1", "a\\x1b[31m\\u202e b"}
    for figure in figures.values():
        assert all(c.isprintable() for c in figure.drawing.caption), figure.drawing.name
    assert rows(drawing.save(tmp_path, curves.drawing(make_arms("a$b", "c$\\frac"))))[0]["arm"] == "a$b"


def test_an_arm_of_unknown_spending_is_named_and_not_drawn(make_arms):
    known, silent = make_arms("retry", "silent")
    for history in silent.attempts.values():
        history[:] = [
            replace(attempt, trajectory=replace(attempt.trajectory, usage=Usage(calls=1)), reflection=None)
            for attempt in history
        ]
    plot = budget_plots.drawing([known, silent])
    assert {(row[0], row[1]) for row in plot.rows} == {
        ("completion_tokens", "retry"), ("tokens", "retry"), ("calls", "retry"), ("calls", "silent"),
    }  # fmt: skip
    assert "Unknown tokens, not drawn: silent." in plot.caption


def test_labels_are_spread_in_order_and_stay_inside():
    assert spread([0.2, 0.8], 0.1, 0, 1) == [0.2, 0.8]
    assert spread([0.5, 0.5], 0.1, 0, 1) == pytest.approx([0.45, 0.55])
    assert spread([0.99, 1.0, 0.0], 0.1, 0, 1) == pytest.approx([0.9, 1.0, 0.0])
    assert spread([0.5] * 11, 0.5, 0, 1) == pytest.approx([place / 10 for place in range(11)])
    assert spread([], 0.1, 0, 1) == []


def test_arms_without_rounds_take_the_order_of_the_stream_from_one_with_rounds(make_arms):
    """Tasks of a run without rounds end in any order, which says nothing of the stream."""
    learning, single = make_arms("reflexion", "simple", seeds=(1,))
    assert memory_drawing([learning, single]) is None
    tasks = list(learning.logs[0].results)
    updates = tuple(Update(round=number, call=0, task_ids=(task,)) for number, task in enumerate(tasks))
    config = {**learning.logs[0].manifest.config, "memory": {"shared": {"round_size": 1}}}
    log = replace(learning.logs[0], updates=updates, manifest=replace(learning.logs[0].manifest, config=config))
    reversed_log = replace(single.logs[0], results=dict(reversed(single.logs[0].results.items())))
    arms = [Arm(learning.label, [log]), Arm(single.label, [reversed_log])]
    first, other = (windows(arm, orders(arms)) for arm in arms)
    assert [window.end for window in first] == [window.end for window in other] == [6, 12, 18, 24]
    verdicts = {case.task_id: verdict for case, verdict in arms[1].verdicts(1).items()}
    assert other[0].solved.value == pytest.approx(sum(verdicts[task] for task in tasks[:6]) / 6)
    other_order = replace(log, updates=updates, results=dict(reversed(log.results.items())))
    both = [*arms, Arm("another order", [other_order])]
    assert orders(both) == {}
    assert [windows(arm, orders(both)) == [] for arm in both] == [False, True, False]
    assert windows(both[0], orders(both)) == first
    result = memory_drawing(arms)
    assert [row[:4] for row in result.rows][:2] == [("reflexion", "visible", 1, 6), ("reflexion", "visible", 7, 12)]
    along_the_stream({arm: windows(arm, orders(arms)) for arm in arms}, axes())
