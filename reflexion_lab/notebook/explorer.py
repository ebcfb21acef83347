"""A run to look around in: choose tasks by what became of them, and step through their attempts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from reflexion_lab.analysis.report.history import Sources
from reflexion_lab.analysis.report.page import RESULTS, unfinished
from reflexion_lab.analysis.report.sheets import Sheet, said
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.terminal_text import visible
from reflexion_lab.notebook import stories
from reflexion_lab.notebook.widgets import Widgets
from reflexion_lab.runner.folder.folder import folders

MISSING = "Filters and stepping need ipywidgets: pip install 'reflexion_lab[notebooks]'. This is the run without them."
PAGE = 20
"""Number of tasks shown without widgets."""


class Explorer:
    """Shows itself with widgets; as tables where there are none. Only the attempt that is looked at is rendered."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.stories = stories.stories(log)
        self.chosen = self.stories
        """Those that the filters leave."""
        self.sources = Sources.of(log)
        self._widgets: Widgets | None = None

    @property
    def task_ids(self) -> list[str]:
        """The tasks that the filters leave, in the order of the list."""
        return [story.task_id for story in self.chosen]

    @property
    def sheet(self) -> Sheet:
        """The tasks that the filters leave, a row each."""
        return stories.overview(self.heading, self.chosen, self.log.manifest.feedback_source)

    @property
    def heading(self) -> str:
        """The run in a line, with how its tasks came out."""
        manifest, results = self.log.manifest, Counter(story.result for story in self.stories)
        counts = (
            ", ".join(f"{results[result]} {result}" for result in RESULTS if results[result])
            or "how they came out is not known yet"
        )
        bound = "UPPER BOUND, not pass@1; " if manifest.feedback_source == "oracle" else ""
        arm = manifest.config.get("arm", "run")
        run = f"{arm}, seed {manifest.seed}, {manifest.benchmark}, feedback source {manifest.feedback_source}"
        return visible(f"{unfinished(self.log)}{run}: {bound}{len(self.stories)} tasks, {counts}")

    @property
    def widgets(self) -> Widgets:
        """Made when they are first asked for. Raises ImportError: ipywidgets is missing."""
        if self._widgets is None:
            self._widgets = Widgets(self)
        return self._widgets

    def __repr__(self) -> str:
        return repr(self.sheet)

    def _repr_html_(self) -> str:
        some = stories.overview(self.heading, self.chosen[:PAGE], self.log.manifest.feedback_source)
        more = len(self.chosen) - PAGE
        return some._repr_html_() + said([f"{more} more tasks in .sheet"] if more > 0 else [])

    def _repr_mimebundle_(self, **_options: object) -> dict[str, Any]:
        try:
            bundle: dict[str, Any] = self.widgets.box._repr_mimebundle_()
        except ImportError:
            return {"text/plain": f"{MISSING}\n{self!r}", "text/html": said([MISSING], loud=True) + self._repr_html_()}
        return {**bundle, "text/plain": repr(self)}


def explore(run: object) -> Explorer:
    """Look around in one run: filter its tasks by how they came out, by outcome, failure category, number of attempts
    and words; step through the attempts of one, each with its difference to the one before.

    Parameters
    ----------
    run : object
        A run folder, or what `run` returned.

    Raises
    ------
    FolderError
        The folder is none, or a file in it cannot be read.
    ConfigError
        Several runs.
    """
    run_folders = folders(run)
    if len(run_folders) != 1:
        raise ConfigError("explore", f"{len(run_folders)} runs", "one, such as `sweep.runs[0]`")
    return Explorer(Log.read(run_folders[0]))
