"""The tables of several comparisons as one `table.csv`, and the differences to Reflexion as `figure.svg`.

python tabulate.py OUT_FOLDER MODEL.CUT.csv...    # as `reflexion-lab compare --csv` writes them
"""

import csv
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from reflexion_lab.analysis.figures.style import COLOURS, FAINT, INK, MARKERS

CUTS = {"two_attempts": "both cut at two attempts", "as_run": "as run"}
MODELS = ("gpt-4-turbo", "gpt-4", "gpt-3.5")
KEPT = ("pass_at_1", "as_run", "equal_calls", "repaired", "damaged", "false_", "attempts", "calls", "tokens")
"""How the names of the columns begin that are taken over."""


def rows(paths):
    for path in paths:
        model, _, cut = path.stem.rpartition(".")
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                arm, _, variant = row["arm"].partition(" recorded.variant=")
                first = {"model": model, "cut": cut, "arm": arm, "variant": variant.rpartition("/")[2]}
                counts = {key: row[key] for key in ("feedback_source", "seeds", "tasks", "n_logged")}
                yield first | counts | {key: value for key, value in row.items() if key.startswith(KEPT)}


def label(row):
    settings = {
        "5repeats-no-temp-incr": " ×5, t 0",
        "5repeats-0.5temp": " ×5, t 0.5",
        "8repeats-no-temp-incr": " ×8, t 0",
    }
    more = next((text for name, text in settings.items() if row["variant"].endswith(name)), "")
    return f"{row['arm']}{more}\n({row['feedback_source']})"


def panel(rows, model, ax):
    others = [row for row in rows if row["model"] == model and row["as_run_difference"]]
    names = list(dict.fromkeys(label(row) for row in others))
    for number, (cut, cut_name) in enumerate(CUTS.items()):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "markeredgecolor": "white", "markersize": 7}
        for row in (row for row in others if row["cut"] == cut):
            value, low, high = (100 * float(row[f"as_run_difference{end}"]) for end in ("", "_low", "_high"))
            y = names.index(label(row)) + (number - 0.5) * 0.3
            ax.hlines(y, low, high, color=COLOURS[number], linewidth=2.4, alpha=0.5)
            ax.plot(value, y, linestyle="", zorder=4, label=cut_name, **look)
    ax.axvline(0, color=INK, linewidth=1)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_title(model, color=INK, loc="left", fontweight="bold")
    ax.set_xlabel("pass@1 minus Reflexion's (self_tests), points", color=INK)
    ax.grid(axis="x", color=FAINT, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=INK)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(FAINT)


def draw(rows, path):
    figure = Figure(figsize=(14, 4.6), facecolor="white", layout="constrained")
    panels = figure.subplots(1, len(MODELS), sharex=True)
    for model, ax in zip(MODELS, panels, strict=True):
        panel(rows, model, ax)
    handles, names = panels[0].get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    figure.legend(unique.values(), unique, loc="outside upper left", ncols=2, frameon=False, labelcolor=INK)
    caption_text = (
        "HumanEval, n = 164 tasks x 2 runs, paired by task and run; 95 %: bootstrap over tasks. In brackets: feedback "
        "source. Right of 0: the arm without words submits more right programs than Reflexion."
    )
    figure.text(0.01, -0.02, caption_text, va="top", fontsize=8, color=INK)
    with matplotlib.rc_context({"svg.hashsalt": "reflexion_lab"}):
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main():
    folder, paths = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    items = list(rows(paths))
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(items[0]))
        writer.writeheader()
        writer.writerows(items)
    draw(items, folder / "figure.svg")


if __name__ == "__main__":
    main()
