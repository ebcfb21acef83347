"""The runs of a root that a sweep need not run again, and those that it can go on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from reflexion_lab import registration
from reflexion_lab.grid import digest_of
from reflexion_lab.prompts.render import digests
from reflexion_lab.run_folder import RunFolder, RunFolderError
from reflexion_lab.statistics.intervals import Rate
from reflexion_lab.study.cell_states import CellState

if TYPE_CHECKING:
    from omegaconf import DictConfig


class What(NamedTuple):
    """What two runs have in common that are one."""

    config_digest: str
    study_digest: str
    """"" where no study is asked for: then a run of any will do."""

    @classmethod
    def of(cls, cfg: DictConfig) -> What:
        """Raises ValueError: the study's file cannot be read."""
        return cls(digest_of(cfg), registration.read(cfg.study).digest if cfg.study else "")

    def is_met(self, run: Run) -> bool:
        return self.config_digest == run.what.config_digest and self.study_digest in ("", run.what.study_digest)


class Run(NamedTuple):
    folder: Path
    what: What

    @property
    def summary(self) -> Summary | None:
        """None while it is not finished, and not wholly graded."""
        try:
            found = _SUMMARY.decode((self.folder / "summary.json").read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        return found if found.n_logged == found.n_expected and found.any_solved is not None else None

    @property
    def is_free(self) -> bool:
        """Nobody is writing into it."""
        try:
            with RunFolder(self.folder).held():
                return True
        except (RunFolderError, OSError):  # or it may not be written by this user
            return False


class Summary(msgspec.Struct):
    """What a run's `summary.json` says of it."""

    n_expected: int
    n_logged: int
    feedback_source: str
    pass_at_1: Rate
    any_solved: Rate | None
    """None until every attempt is graded."""


class _Manifest(msgspec.Struct):
    config_digest: str
    prompt_digests: dict[str, str]
    study_digest: str = ""


_SUMMARY, _MANIFEST = msgspec.json.Decoder(Summary), msgspec.json.Decoder(_Manifest)


class Runs:
    """The runs in `root` that were begun with today's prompts, the oldest first."""

    def __init__(self, root: Path) -> None:
        self.runs = list(_read(root))

    def finished(self, what: What) -> Run | None:
        """The first of those that need not be run again."""
        return next((run for run in self.runs if what.is_met(run) and run.summary), None)

    def unfinished(self, what: What) -> Run | None:
        """The newest of those that were cut off, and that nobody is at."""
        cut = (run for run in reversed(self.runs) if what.is_met(run) and not run.summary)
        return next((run for run in cut if run.is_free), None)


def kept(number: int, run: Run, former: CellState | None = None) -> CellState:
    """The state of a cell whose run is finished; what its calls cost is known if this sweep made them, `former`."""
    if former and former.folder == str(run.folder) and former.status in ("done", "kept"):
        return msgspec.structs.replace(former, status="kept")
    found = run.summary
    source, rate = (found.feedback_source, found.pass_at_1) if found else ("", None)
    return CellState(number=number, status="kept", folder=str(run.folder), feedback_source=source, pass_at_1=rate)


def _read(root: Path) -> Iterator[Run]:
    today = digests()
    for path in sorted(root.glob("[!.]*/manifest.json")):
        try:
            manifest = _MANIFEST.decode(path.read_bytes())
        except (OSError, msgspec.MsgspecError):
            continue  # of another version, or no run at all: nothing to keep
        if manifest.prompt_digests == today:
            yield Run(path.parent, What(manifest.config_digest, manifest.study_digest))
