"""Bring the committed bundles and cases to the present form; run from the project's folder.

    python migrate.py            # writes; prints what changed of each config
    python migrate.py --dry-run

A bundle's config is composed anew from the overrides that its study registered, so keys and names of parts are those of
today. Records keep their values and are written again by today's types; digests of config, prompts and study, and the
headline figures, are computed again. That a prompt is the same is shown by `replay`, which finds each call by its text.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reflexion_lab.analysis.comparison.cases import COLUMNS
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import figures
from reflexion_lab.records import Attempt, Grade, Manifest, TaskResult
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import flat
from reflexion_lab.studies import registered
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.packing import KEPT, portable
from reflexion_lab.text.prompts.render import digests

RECORDS = {"attempts.jsonl": Attempt, "results.jsonl": TaskResult, "grades.jsonl": Grade}
EXPERIMENTS = Path("experiments")
DRY = "--dry-run" in sys.argv


def rewritten(name: str, text: bytes) -> bytes:
    if name not in RECORDS:
        return text
    records = (msgspec.json.decode(line, type=RECORDS[name]) for line in text.splitlines())
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def composed(study: registration.Registration, arm: str, seed: int) -> Manifest:
    cell = dict(registered._cells(study, arm))[seed]
    return registered._manifest(study, arm, seed, cell)


def migrate(path: Path) -> None:
    about, members = bundle.read(path)
    manifest = msgspec.json.decode(members["manifest.json"], type=Manifest)
    text = (path.parent / registration.FILE).read_bytes()
    study = registration.read(path.parent / registration.FILE)
    now = composed(study, str(manifest.config["arm"]), manifest.seed)
    assert (now.benchmark_digest, now.model_fingerprint) == (manifest.benchmark_digest, manifest.model_fingerprint)
    new = portable(
        replace(
            manifest,
            config=now.config | {key: manifest.config[key] for key in KEPT if key in manifest.config},
            config_digest=now.config_digest,
            prompt_digests=digests(),
            study=study.name,
            study_digest=study.digest,
        )
    )
    show(path, manifest.config, new.config)
    members = {name: rewritten(name, content) for name, content in members.items()}
    members |= {"manifest.json": bundle.as_json(new), registration.FILE: text}
    with tempfile.TemporaryDirectory() as scratch:
        bundle.unpack(members, Path(scratch))
        about = replace(about, figures=figures(Log.read(RunFolder.existing(scratch))), members={})
    if not DRY:
        bundle.write(path, about, members)


def show(path: Path, before: Any, after: Any) -> None:
    was, now = dict(flat(before)), dict(flat(after))
    print(path)
    for key in sorted(was.keys() | now.keys()):
        if was.get(key, "none") != now.get(key, "none"):
            print(f"  {key}: {was.get(key, 'none')!r} -> {now.get(key, 'none')!r}"[:200])


def migrate_cases(path: Path) -> None:
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    if not {"arm", "feedback_source", "upper_bound"} <= rows[0].keys():  # an experiment's own cases
        return
    others = [column for column in rows[0] if column not in COLUMNS]
    study = path.parent / registration.FILE
    digest = registration.read(study).digest if study.is_file() else ""
    sizes: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        sizes.setdefault((row["arm"], row["seed"]), set()).add(row["task"])
    for row in rows:
        row.setdefault("n_tasks", str(len(sizes[row["arm"], row["seed"]])))
        row.setdefault("same_task", "0")
        if row.get("study_digest"):
            row["study_digest"] = digest
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, [*COLUMNS, *others], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if out.getvalue() != text:
        print(path, [column for column in COLUMNS if column not in next(csv.reader(io.StringIO(text)))])
        packed = gzip.compress(out.getvalue().encode(), 9, mtime=0)
        if not DRY:
            path.write_bytes(packed if path.suffix == ".gz" else out.getvalue().encode())


for place in sorted(EXPERIMENTS.glob("*/*.bundle.zip")):
    migrate(place)
for place in sorted(EXPERIMENTS.glob("*/cases.csv*")):
    migrate_cases(place)
