"""Explorer of a run: filter its tasks by result, outcome, category or text, and step through their attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

from reflexion_lab.analysis.report.cells import NONE, listed
from reflexion_lab.analysis.report.history import Sources, cards, history
from reflexion_lab.analysis.report.page import RESULTS, TaskLine, task_lines, unfinished
from reflexion_lab.analysis.report.pieces import WORDS, macro, visible
from reflexion_lab.analysis.report.sheets import Sheet, paragraphs
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.folder.folder import folders
from reflexion_lab.text.shorten import number_of

MISSING = "Filters and stepping need ipywidgets: pip install 'reflexion_lab[notebooks]'. This is the run without them."
PAGE = 20
"""Number of tasks shown without widgets."""
ANY = "any"
"""Option of a filter that matches all tasks."""


def fits(
    task: TaskLine, result: str = ANY, outcome: str = ANY, category: str = ANY, attempts: int = 0, text: str = ""
) -> bool:
    """Whether a task has this result, outcome, failure category and number of attempts (0 for any), and contains
    `text`, in any case, in its name, programs, replies, failing checks or reflections.
    """
    return (
        result in (ANY, task.result)
        and (outcome == ANY or outcome in task.outcomes)
        and (category == ANY or category in task.categories)
        and attempts in (0, len(task.attempts))
        and (not text.strip() or text.strip().casefold() in "\n".join(_texts(task)).casefold())
    )


def overview(title: str, tasks: Sequence[TaskLine], feedback_source: str) -> Sheet:
    """One row per task."""
    columns: dict[str, Callable[[TaskLine], str]] = {
        "task": lambda task: visible(task.task_id),
        "result": lambda task: task.result,
        "hidden verdicts": lambda task: task.strip,
        "submitted": lambda task: str(task.submitted),
        "categories": lambda task: listed(sorted(task.categories)) or NONE,
    }
    caption = f"Feedback source: {feedback_source}. ✓ ✗: the hidden tests on each attempt, ? no verdict."
    return Sheet.of(title, tasks, columns, caption, names=5)


def _texts(task: TaskLine) -> Iterator[str]:
    yield task.task_id
    for attempt in task.attempts:
        yield from (attempt.trajectory.solution, attempt.trajectory.reply, attempt.trajectory.rationale)
        for check in attempt.evaluation.failures:
            yield from (check.name, check.error_type, check.message)
        if words := attempt.reflection:
            yield from (words.root_cause, words.what_went_wrong, words.what_to_change, words.text)


class Explorer:
    """A run with widgets, or as a table without ipywidgets. Only the selected attempt is rendered."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.histories = task_lines(log)
        self.selected = self.histories
        """Tasks that pass the filters."""
        self.sources = Sources.of(log)
        self._widgets: Widgets | None = None

    @property
    def task_ids(self) -> list[str]:
        """Ids of the tasks that pass the filters, in the order of the list."""
        return [task.task_id for task in self.selected]

    @property
    def sheet(self) -> Sheet:
        """The tasks that pass the filters, one per row."""
        return overview(self.heading, self.selected, self.log.manifest.feedback_source)

    @property
    def heading(self) -> str:
        """The run in a line, with the results of its tasks."""
        manifest, results = self.log.manifest, Counter(task.result for task in self.histories)
        counts = ", ".join(f"{results[result]} {result}" for result in RESULTS if results[result]) or "no results yet"
        bound = "UPPER BOUND, not pass@1; " if manifest.is_upper_bound else ""
        arm = manifest.config.get("arm", "run")
        run = f"{arm}, seed {manifest.seed}, {manifest.benchmark}, feedback source {manifest.feedback_source}"
        return visible(f"{unfinished(self.log)}{run}: {bound}{number_of(len(self.histories), 'task')}, {counts}")

    @property
    def widgets(self) -> Widgets:
        """The widgets, built on first use. Raises ImportError: ipywidgets is missing."""
        if self._widgets is None:
            self._widgets = Widgets(self)
        return self._widgets

    def __repr__(self) -> str:
        return repr(self.sheet)

    def _repr_html_(self) -> str:
        some = overview(self.heading, self.selected[:PAGE], self.log.manifest.feedback_source)
        more = len(self.selected) - PAGE
        return some._repr_html_() + paragraphs([f"{more} more tasks in .sheet"] if more > 0 else [])

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        try:
            bundle: dict[str, Any] = self.widgets.box._repr_mimebundle_()
        except ImportError:
            return {
                "text/plain": f"{MISSING}\n{self!r}",
                "text/html": paragraphs([MISSING], loud=True) + self._repr_html_(),
            }
        return {**bundle, "text/plain": repr(self)}


def explore(run: object) -> Explorer:
    """Explore one run: filter its tasks by result, outcome, failure category, number of attempts and text, and step
    through the attempts of a task, each with its difference to the one before.

    Raises FolderError: the folder is no run, or a file in it cannot be read; ConfigError: several runs. `run`: a run
    folder, or a run as `run` returns it.

    Examples
    --------
    >>> rl.explore(run).heading
    'reflexion, seed 0, basics, feedback source visible: 8 tasks, 3 repaired, 5 solved at once'
    """
    run_folders = folders(run)
    if len(run_folders) != 1:
        raise ConfigError("explore", f"{len(run_folders)} runs", "one, such as `sweep.runs[0]`")
    return Explorer(Log.read(run_folders[0]))


WHOLE = "whole history"


class Widgets:
    """Filters above, tasks to the left, the attempt to the right; only standard widgets, for JupyterLab and VS Code."""

    def __init__(self, explorer: Explorer) -> None:
        import ipywidgets as w

        self.explorer, histories = explorer, explorer.histories
        choices = {
            "result": _counted(list(RESULTS), [{task.result} for task in histories]),
            "outcome": _counted(WORDS, [task.outcomes for task in histories]),
            "category": _counted(
                sorted({c for t in histories for c in t.categories}), [t.categories for t in histories]
            ),
        }
        lengths = [(f"{n} ({count})", n) for n, count in sorted(Counter(len(t.attempts) for t in histories).items())]
        self.filters: dict[str, Any] = {
            name: w.Dropdown(options=[(ANY, ANY), *options], description=name) for name, options in choices.items()
        }
        self.filters["attempts"] = w.Dropdown(options=[(ANY, 0), *lengths], description="attempts")
        self.filters["text"] = w.Text(description="search", placeholder="in words or code")
        self.count, self.page = w.HTML(), w.HTML()
        self.tasks, self.attempt = w.Select(rows=32), w.Dropdown()
        head = w.HTML(f"<b>{escape(explorer.heading)}</b>")
        pane = w.VBox([self.attempt, self.page], layout=w.Layout(flex="1 1 480px", min_width="0", max_height="720px"))
        rows = w.Layout(flex_flow="row wrap")
        body = w.HBox([w.VBox([self.count, self.tasks]), pane], layout=rows)
        self.box = w.VBox([head, w.HBox(list(self.filters.values()), layout=rows), body])
        for choice in self.filters.values():
            choice.observe(lambda _: self._filter(), "value")
        self.tasks.observe(lambda _: self._turn(), "value")
        self.attempt.observe(lambda _: self._show(), "value")
        self._filter()

    def _filter(self) -> None:
        explorer, before = self.explorer, self.tasks.value
        values = {name: choice.value for name, choice in self.filters.items()}
        explorer.selected = [task for task in explorer.histories if fits(task, **values)]
        self.count.value = f"{len(explorer.selected)} of {len(explorer.histories)} tasks; ✓ ✗: hidden verdicts"
        self.tasks.options = [(f"{task.strip}  {visible(task.task_id)}", task) for task in explorer.selected]
        self.tasks.value = before if before in explorer.selected else next(iter(explorer.selected), None)
        self._turn()

    def _turn(self) -> None:
        """The first attempt of the selected task."""
        attempts = self.tasks.value.attempts if self.tasks.value else ()
        self.attempt.options = [*((f"attempt {each.number}", n) for n, each in enumerate(attempts)), (WHOLE, -1)]
        self.attempt.value = 0 if attempts else -1
        self._show()

    def _show(self) -> None:
        task, place, explorer = self.tasks.value, self.attempt.value, self.explorer
        if task is None or place is None:
            self.page.value = "No task fits these filters."
        elif place == -1:
            self.page.value = history(task.attempts, explorer.log.grades, explorer.sources)
        else:
            pages = list(cards(task.attempts, explorer.log.grades, explorer.sources))
            strip = macro("records", "strip")(pages, task.task_id)
            self.page.value = strip + macro("records", "attempt")(pages[place])


def _counted(names: Any, sets: list[Any]) -> Iterator[tuple[str, str]]:
    counts = Counter(name for group in sets for name in group)
    words = names if isinstance(names, dict) else {name: name for name in names}
    yield from ((f"{visible(word)} ({counts[name]})", name) for name, word in words.items() if counts[name])
