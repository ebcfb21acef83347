"""Transcripts, file by file, into run folders."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from reflexion_lab.audit.import_attempts import Prompts
from reflexion_lab.audit.import_manifest import Terms
from reflexion_lab.audit.import_runs import Imported, Importer
from reflexion_lab.audit.importing import Recording, read_recordings
from reflexion_lab.audit.stored_programs import StoredPrograms
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import UNREADABLE, content, gunzipped
from reflexion_lab.records import Message
from reflexion_lab.runner.progress import Progress
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.recorded import recorded

HIDDEN = ("own", "humaneval")


def import_files(
    paths: Sequence[Path | str],
    out: Path,
    *,
    hidden: str = "",
    lenient: bool = True,
    cut: int | None = None,
    prompts: Path | None = None,
    feedback_source: str = "",
    only: Sequence[str] = (),
    workers: int | None = None,
    executions: Path | None = None,
    quiet: bool = False,
) -> list[Imported]:
    """A run folder in `out` for each run of these transcripts.

    Parameters
    ----------
    hidden : str, default ""
        `own`, the rows' tests, or `humaneval`, the original ones; "" takes the rows' where they have them.
    lenient : bool, default True
        The judge puts the usual imports and the prompt in front of programs, and loops run as theirs did.
    cut : int, optional
        Keep the first so many attempts of each loop.
    prompts : Path, optional
        JSON of what models read, by the `prompt_key` of attempts.
    feedback_source : str, default ""
        What drove loops of strategies that are not known.
    only : sequence of str, default ()
        Keep runs whose strategy, model and name, put together, hold one of these texts.
    executions : Path, optional
        The execution cache; None keeps nothing.

    Raises
    ------
    OSError, ValueError
        A file cannot be read as transcripts; no run is left; a folder in `out` holds another run.
    HarnessError
        The sandbox is broken.
    """
    if hidden not in ("", *HIDDEN):
        raise ConfigError("hidden", repr(hidden), f"one of {', '.join(HIDDEN)}, or nothing")
    read, out = _prompts(prompts), Path(out)
    chosen = _chosen(paths, feedback_source, only)
    load = functools.cache(_loaded)
    whose = ((path, recording, _whose(path, recording, hidden)) for path, recording in chosen)
    runs = [
        (recording.cut(cut), Terms(*load(path, tests), tests, lenient, read, cut)) for path, recording, tests in whose
    ]
    longest = _longest(recording for recording, _ in runs)
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress(sum(len(recording.loops) for recording, _ in runs), quiet=quiet)
    with StoredPrograms(workers, cache=executions) as programs:
        importer = Importer(out, programs)
        try:
            return [importer.take(run, terms, longest[_variant(run)], progress) for run, terms in runs]
        finally:
            progress.close()


def _chosen(paths: Sequence[Path | str], feedback_source: str, only: Sequence[str]) -> list[tuple[Path, Recording]]:
    """Raises ConfigError: no run is left."""
    recordings = [(Path(path), recording) for path in paths for recording in read_recordings([path], feedback_source)]
    chosen = [pair for pair in recordings if not only or any(text in _said(pair[1]) for text in only)]
    if not chosen:
        names = "; ".join(_said(recording) for _, recording in recordings[:3])
        raise ConfigError("--only", f"no run of {', '.join(only)}", f"a part of a name, such as {names}")
    return chosen


def _said(recording: Recording) -> str:
    return f"{recording.strategy} {recording.model} {recording.run}"


def _longest(recordings: Iterable[Recording]) -> dict[tuple[str, ...], int]:
    """By variant, attempts of its longest loop."""
    longest: dict[tuple[str, ...], int] = {}
    for recording in recordings:
        key = _variant(recording)
        longest[key] = max(longest.get(key, 0), recording.longest)
    return longest


def _variant(recording: Recording) -> tuple[str, ...]:
    return recording.file, recording.source, recording.strategy, recording.variant


def _whose(path: Path, recording: Recording, hidden: str) -> str:
    """Raises ConfigError: rows without tests of their own."""
    if hidden == "own" and not recording.has_tests:
        raise ConfigError(path, "rows without `prompt` and `test`", "both, or --hidden humaneval")
    return hidden or ("own" if recording.has_tests else "humaneval")


def _loaded(path: Path, hidden: str) -> tuple[Benchmark, dict[str, object]]:
    """The tasks, and the config that loads them. Raises ConfigError: the file is no benchmark."""
    if hidden == "humaneval":
        return humaneval(), {"_target_": "reflexion_lab.tasks.benchmarks.humaneval.humaneval"}
    # Not `disjoint`: the loops saw what they saw, and how many saw a hidden test is said.
    load = {"_target_": "reflexion_lab.tasks.benchmarks.recorded.recorded", "path": str(path), "disjoint": False}
    return recorded(str(path), disjoint=False), load


def _prompts(path: Path | None) -> Prompts:
    """Raises OSError, ConfigError: the file cannot be read as prompts."""
    if path is None:
        return {}
    data = content(path, "prompts (.json, .json.gz)")
    try:
        text = gunzipped(data) if path.suffix == ".gz" else data
        texts = msgspec.json.decode(text, type=dict[str, str | tuple[Message, ...]])
    except (ValueError, *UNREADABLE) as problem:
        raise ConfigError(f"{path}: {problem}", expected="JSON, by prompt_key a list of messages or a text") from None
    return {
        key: (Message(role="user", content=prompt),) if isinstance(prompt, str) else prompt
        for key, prompt in texts.items()
    }
