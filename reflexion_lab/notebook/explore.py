"""Explorer of a run: filter its tasks by result, outcome, category or text, and step through their attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

    Raises FolderError: the folder is no run, or a file in it cannot be read; ConfigError: several runs.

    Parameters
    ----------
    run : object
        A run folder, or a run as `run` returns it.

    Examples
    --------
    >>> rl.explore(run).heading
    'reflexion, seed 0, basics, feedback source visible: 8 tasks, 3 repaired, 5 solved at once'
    """
    run_folders = folders(run)
    if len(run_folders) != 1:
        raise ConfigError("explore", f"{len(run_folders)} runs", "one, such as `sweep.runs[0]`")
    return Explorer(Log.read(run_folders[0]))


TALL = "720px"
ONE, ALL = "one attempt", "whole history"


class Widgets:
    """Filters above, tasks to the left, the attempt to the right; only standard widgets, for JupyterLab and VS Code."""

    def __init__(self, explorer: Explorer) -> None:
        import ipywidgets as w

        self.explorer = explorer
        self._still = False
        histories = explorer.histories
        results = _counted(list(RESULTS), [{task.result} for task in histories])
        outcomes = _counted(WORDS, [task.outcomes for task in histories])
        categories = _counted(
            sorted({name for task in histories for name in task.categories}), [task.categories for task in histories]
        )
        lengths = [(f"{n} ({count})", n) for n, count in sorted(Counter(len(t.attempts) for t in histories).items())]
        search = {"placeholder": "in words or code", "style": {"description_width": "initial"}}
        self.filters = {
            "result": self._choice(w, "result", [(ANY, ANY), *results]),
            "outcome": self._choice(w, "an attempt", [(ANY, ANY), *outcomes]),
            "category": self._choice(w, "category", [(ANY, ANY), *categories]),
            "attempts": self._choice(w, "attempts", [(ANY, 0), *lengths]),
            "text": w.Text(description="search", layout=_wide("220px"), **search),
        }
        self.tasks = w.Select(options=[], layout=w.Layout(width="300px", height=TALL, flex="0 0 auto"))
        self.back, self.on = w.Button(icon="arrow-left"), w.Button(icon="arrow-right")
        self.attempt = w.IntSlider(
            min=1, max=1, description="attempt", layout=_wide("260px"), style={"description_width": "initial"}
        )
        self.mode = w.ToggleButtons(options=[ONE, ALL], style={"button_width": "110px"})
        self.page = w.HTML()
        self.count = w.HTML()
        self.box = self._laid_out(w)
        self._listen()
        self._filter()

    def _choice(self, w: Any, label: str, options: list[tuple[str, Any]]) -> Any:
        look = {"description_width": "initial"}
        return w.Dropdown(options=options, description=label, layout=_wide("208px"), style=look)

    def _laid_out(self, w: Any) -> Any:
        self.back.tooltip, self.on.tooltip = "previous attempt", "next attempt; after the last, the next task"
        self.back.layout = self.on.layout = _wide("44px")
        head = w.HTML(f'<div style="line-height: 1.5"><b>{escape(self.explorer.heading)}</b></div>')
        rows = w.Layout(flex_flow="row wrap", align_items="center")
        right = w.Layout(flex="1 1 480px", min_width="0", margin="0 0 0 10px")
        self.pane = w.Box([self.page], layout=w.Layout(max_height=TALL, overflow="auto", display="block"))
        steps = w.HBox([self.back, self.attempt, self.on, self.mode], layout=rows)
        left = w.VBox([self.count, self.tasks], layout=w.Layout(flex="0 0 auto", width="308px"))
        body = w.HBox([left, w.VBox([steps, self.pane], layout=right)], layout=w.Layout(flex_flow="row wrap"))
        return w.VBox([head, w.HBox(list(self.filters.values()), layout=rows), body])

    def _listen(self) -> None:
        for choice in self.filters.values():
            choice.observe(lambda _: self._filter(), "value")
        self.tasks.observe(lambda _: self._turn_to(), "value")
        self.attempt.observe(lambda _: self._show(), "value")
        self.mode.observe(lambda _: self._show(), "value")
        self.back.on_click(lambda _: self._step(-1))
        self.on.on_click(lambda _: self._step(1))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Change several widgets and render the page once at the end."""
        before, self._still = self._still, True
        try:
            yield
        finally:
            self._still = before
        self._show()

    def _filter(self) -> None:
        explorer, filters = self.explorer, {name: choice.value for name, choice in self.filters.items()}
        explorer.selected = [task for task in explorer.histories if fits(task, **filters)]
        longest = max((len(task.attempts) for task in explorer.histories), default=0)
        selected = self.tasks.value
        with self._held():
            self.tasks.options = [
                (f"{task.strip.ljust(longest, '·')}  {visible(task.task_id)}", task) for task in explorer.selected
            ]
            self.tasks.value = selected if selected in explorer.selected else next(iter(explorer.selected), None)
            summary = f"{len(explorer.selected)} of {len(explorer.histories)} tasks; ✓ ✗: hidden verdicts"
            self.count.value = f'<div style="opacity: 0.75; font-size: 12px; line-height: 1.6">{summary}</div>'
            self._turn_to()

    def _turn_to(self, at: int = 1) -> None:
        """Attempt `at` of the selected task; -1 for its last."""
        task = self.tasks.value
        last = len(task.attempts) if task else 1
        with self._held():
            self.attempt.max = last
            self.attempt.value = last if at < 0 else at

    def _step(self, by: int) -> None:
        """After the last attempt comes the first of the next task; before the first, the last of the previous task."""
        selected, task = self.explorer.selected, self.tasks.value
        if task is None:
            return
        if self.mode.value == ONE and 1 <= self.attempt.value + by <= len(task.attempts):
            self.attempt.value += by
            return
        place = selected.index(task) + by
        if 0 <= place < len(selected):
            with self._held():
                self.tasks.value = selected[place]
                self._turn_to(1 if by > 0 else -1)

    def _show(self) -> None:
        if self._still:
            return
        self.attempt.disabled = self.mode.value == ALL or self.tasks.value is None
        task: TaskLine | None = self.tasks.value
        html = "No task fits these filters." if task is None else self._page(task)
        self.page.value = f'<div style="line-height: 1.5">{html}</div>'

    def _page(self, task: TaskLine) -> str:
        log, sources = self.explorer.log, self.explorer.sources
        if self.mode.value == ALL:
            return history(task.attempts, log.grades, sources)
        pages = list(cards(task.attempts, log.grades, sources))
        return macro("records", "strip")(pages, task.task_id) + macro("records", "attempt")(
            pages[self.attempt.value - 1]
        )


def _counted(names: Any, sets: list[Any]) -> Iterator[tuple[str, str]]:
    """Options that occur, with their counts."""
    counts = Counter(name for group in sets for name in group)
    words = names if isinstance(names, dict) else {name: name for name in names}
    yield from ((f"{visible(word)} ({counts[name]})", name) for name, word in words.items() if counts[name])


def _wide(width: str) -> dict[str, str]:
    return {"width": width}
