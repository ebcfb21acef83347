"""Widgets of an explorer: filters, a list of tasks, and a page for the selected attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from reflexion_lab.analysis.report.history import cards, history
from reflexion_lab.analysis.report.page import RESULTS
from reflexion_lab.analysis.report.pieces import WORDS, macro, visible
from reflexion_lab.notebook.stories import ANY, Story

if TYPE_CHECKING:
    from reflexion_lab.notebook.explorer import Explorer

TALL = "720px"
ONE, ALL = "one attempt", "whole history"


class Widgets:
    """Filters above, tasks to the left, what is chosen to the right. Standard widgets alone, so that JupyterLab and VS
    Code show the same; lists and the slider obey the arrow keys.
    """

    def __init__(self, explorer: Explorer) -> None:
        import ipywidgets as w

        self.explorer = explorer
        self._still = False
        stories = explorer.stories
        self.filters = {
            "result": self._choice(
                w, "result", [(ANY, ANY), *_counted(list(RESULTS), [{story.result} for story in stories])]
            ),
            "outcome": self._choice(
                w, "an attempt", [(ANY, ANY), *_counted(WORDS, [story.outcomes for story in stories])]
            ),
            "category": self._choice(
                w, "category", [(ANY, ANY), *_counted(_names(stories), [story.categories for story in stories])]
            ),
            "attempts": self._choice(
                w, "attempts", [(ANY, 0), *((f"{n} ({count})", n) for n, count in _lengths(stories))]
            ),
            "text": w.Text(
                placeholder="in words or code",
                style={"description_width": "initial"},
                description="search",
                layout=_wide("220px"),
            ),
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
        self.back.tooltip, self.on.tooltip = "the attempt before", "the next attempt; behind the last, the next task"
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
        """Change several widgets, and render the page once at the end."""
        before, self._still = self._still, True
        try:
            yield
        finally:
            self._still = before
        self._show()

    def _filter(self) -> None:
        explorer, filters = self.explorer, {name: choice.value for name, choice in self.filters.items()}
        explorer.chosen = [story for story in explorer.stories if story.fits(**filters)]
        longest = max((len(story.attempts) for story in explorer.stories), default=0)
        selected = self.tasks.value
        with self._held():
            self.tasks.options = [
                (f"{story.strip.ljust(longest, '·')}  {visible(story.task_id)}", story) for story in explorer.chosen
            ]
            self.tasks.value = selected if selected in explorer.chosen else next(iter(explorer.chosen), None)
            summary = f"{len(explorer.chosen)} of {len(explorer.stories)} tasks; ✓ ✗: hidden verdicts"
            self.count.value = f'<div style="opacity: 0.75; font-size: 12px; line-height: 1.6">{summary}</div>'
            self._turn_to()

    def _turn_to(self, at: int = 1) -> None:
        """Attempt `at` of the chosen task; -1 for its last."""
        story = self.tasks.value
        last = len(story.attempts) if story else 1
        with self._held():
            self.attempt.max = last
            self.attempt.value = last if at < 0 else at

    def _step(self, by: int) -> None:
        """Behind the last attempt comes the next task's first, before the first the last task's last."""
        chosen, story = self.explorer.chosen, self.tasks.value
        if story is None:
            return
        if self.mode.value == ONE and 1 <= self.attempt.value + by <= len(story.attempts):
            self.attempt.value += by
            return
        place = chosen.index(story) + by
        if 0 <= place < len(chosen):
            with self._held():
                self.tasks.value = chosen[place]
                self._turn_to(1 if by > 0 else -1)

    def _show(self) -> None:
        if self._still:
            return
        self.attempt.disabled = self.mode.value == ALL or self.tasks.value is None
        story: Story | None = self.tasks.value
        html = "No task fits these filters." if story is None else self._page(story)
        self.page.value = f'<div style="line-height: 1.5">{html}</div>'

    def _page(self, story: Story) -> str:
        log, sources = self.explorer.log, self.explorer.sources
        if self.mode.value == ALL:
            return history(story.attempts, log.grades, sources)
        pages = list(cards(story.attempts, log.grades, sources))
        return macro("records", "strip")(pages, story.task_id) + macro("records", "attempt")(
            pages[self.attempt.value - 1]
        )


def _counted(names: Any, sets: list[Any]) -> Iterator[tuple[str, str]]:
    """Options that occur, with their counts."""
    counts = Counter(name for group in sets for name in group)
    words = names if isinstance(names, dict) else {name: name for name in names}
    yield from ((f"{visible(word)} ({counts[name]})", name) for name, word in words.items() if counts[name])


def _names(stories: list[Story]) -> list[str]:
    return sorted({name for story in stories for name in story.categories})


def _lengths(stories: list[Story]) -> list[tuple[int, int]]:
    return sorted(Counter(len(story.attempts) for story in stories).items())


def _wide(width: str) -> dict[str, str]:
    return {"width": width}
