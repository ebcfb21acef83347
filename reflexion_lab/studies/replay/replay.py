"""Carries out the run of a bundle again, offline, and compares."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.errors import FolderError
from reflexion_lab.io.temp_dirs import Scratch
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import About, BundleError
from reflexion_lab.studies.replay.recorded_files import CALLS, VECTORS, as_file
from reflexion_lab.studies.replay.rerun import Supplies, rerun
from reflexion_lab.studies.replay.sameness import Sameness, compare


class Replayed(NamedTuple):
    about: About
    sameness: Sameness
    folder: Path | None
    """The replay's own run folder, where it was to be kept."""


def replay(path: Path, out: Path | None = None) -> Replayed:
    """Unpack the bundle at `path`, carry its run out again and compare; with `out`, keep the new run below that folder.

    Raises:
        BundleError: the file is no bundle, is damaged, or does not hold a run.
        ValueError: the run needs parts that this version does not have.
        HarnessError: the sandbox is broken.
    """
    about, members = bundle.read(path)
    with Scratch() as scratch:
        unpacked = scratch.path / "bundle"
        bundle.unpack(members, unpacked)
        try:
            then = Log.read(RunFolder.existing(unpacked))
        except FolderError as problem:
            raise BundleError(f"{path}: {problem}") from None
        again = rerun(then.manifest, _supplies(about, unpacked), scratch.path / "again", out)
        again.folder.write_json("summary.json", msgspec.to_builtins(summary(Log.read(again.folder))))
        sameness = compare(then, about.figures, again)
    if about.python != platform.python_version():
        note = f"python: {about.python} then, {platform.python_version()} here"
        sameness = replace(sameness, notes=(note, *sameness.notes))
    return Replayed(about, sameness, again.folder.path if out is not None else None)


def _supplies(about: About, unpacked: Path) -> Supplies:
    calls, vectors, study = (unpacked / name for name in ("calls.jsonl", "embeddings.jsonl", registration.FILE))
    if not calls.is_file():
        raise BundleError("calls.jsonl", "no such member", "the calls of the run")
    files = sorted((unpacked / "data").glob("*"))
    embeddings = unpacked / "embeddings.sqlite"
    if vectors.is_file():
        as_file(vectors.read_bytes(), VECTORS, embeddings)
    return Supplies(
        calls=as_file(calls.read_bytes(), CALLS, unpacked / "calls.sqlite"),
        contexts=about.contexts,
        embeddings=embeddings,
        embedder=about.embedder,
        memory=unpacked / "memory",
        data=str(files[0]) if files else None,
        pool=tuple(str(folder) for folder in sorted((unpacked / "pool").glob("*"), key=lambda path: int(path.name))),
        study=str(study) if study.is_file() else None,
    )
