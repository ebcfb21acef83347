"""What the manifest and the seal say of config, prompts, study and files, against what is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import DIGESTS, digests, sealed
from reflexion_lab.runner.folder.manifest import config_digest, former_digest
from reflexion_lab.studies.replay.bundle import ABOUT, About, sha256
from reflexion_lab.studies.replay.verify.finding import Disagreement, Finding, equal, unlike
from reflexion_lab.text.prompts.render import digests as installed


def of_files(folder: Path) -> Finding:
    """The files of records against the run's own seal, or against the bundle that they came in.

    Raises
    ------
    FolderError
        The seal cannot be read.
    """
    name, then = "files (SHA-256)", sealed(folder)
    if then is None:
        return _bundled(name, folder)
    now = digests(folder)
    wrong = []
    for file in sorted(then.keys() | now.keys()):
        here, before = now.get(file), then.get(file)
        if here != before:
            sides = [
                f"{entry.sha256[:16]}…, {entry.lines} lines" if entry else "no such file" for entry in (here, before)
            ]
            wrong.append(unlike(file, *sides))
    return Finding(name=name, told=f"{len(then)} files", disagreements=tuple(wrong))


def _bundled(name: str, folder: Path) -> Finding:
    path = folder / ABOUT
    if not path.is_file():
        return Finding(name=name, unchecked=f"no {DIGESTS}: the run is not finished, or of an earlier version")
    members = msgspec.json.decode(path.read_bytes(), type=About).members
    now = {name: sha256((folder / name).read_bytes()) for name in members if (folder / name).is_file()}
    wrong = [
        unlike(file, f"{now.get(file, 'no such file')[:16]}", f"{digest[:16]}…")
        for file, digest in members.items()
        if now.get(file) != digest
    ]
    return Finding(name=name, told=f"{len(members)} members of the bundle", disagreements=tuple(wrong))


def of_config(manifest: Manifest) -> list[Finding]:
    """The digest of the config, and what stands both in it and beside it."""
    config = manifest.config
    digests_of = config_digest(config), former_digest(config)  # of this version, and of earlier ones
    digest = manifest.config_digest if manifest.config_digest in digests_of else digests_of[0]
    beside = [
        unlike(f"manifest.json, {key}", getattr(manifest, key), f"{config[key]}, as its config says")
        for key in ("seed", "feedback_source")
        if key in config and config[key] != getattr(manifest, key)
    ]
    if digest != manifest.config_digest and "run_root" not in config and "recorded" not in config:
        # Of a bundle's config an absolute path has lost its folders: the digest is still that of the run.
        return [Finding(name="config", disagreements=tuple(beside), unchecked="places were taken out of a bundle's")]
    finding = equal("config", digest, manifest.config_digest, "manifest.json, config_digest")
    return [msgspec.structs.replace(finding, disagreements=(*finding.disagreements, *beside))]


def of_prompts(manifest: Manifest) -> Finding:
    """The run's prompts against those that are installed here."""
    then, now = manifest.prompt_digests, installed()
    if not then:
        return Finding(name="prompts", unchecked="the manifest names none")
    wrong = [unlike(f"prompt {name}", now.get(name, "none here"), digest) for name, digest in then.items()
             if now.get(name) != digest]  # fmt: skip
    return Finding(name="prompts", told=f"{len(then)} templates", disagreements=tuple(wrong))


def of_study(folder: Path, manifest: Manifest) -> Finding:
    """The registered study's copy against the digest that the run began with."""
    return Finding(
        name="study", told=manifest.study or "none", disagreements=tuple(_study(folder / registration.FILE, manifest))
    )


def _study(path: Path, manifest: Manifest) -> Iterator[Disagreement]:
    if path.exists() is not bool(manifest.study_digest):
        yield unlike(registration.FILE, "a file" if path.exists() else "no file", manifest.study or "no study")
        return
    if not manifest.study_digest:
        return
    try:
        study = registration.read(path)
    except ValueError as problem:
        yield unlike(registration.FILE, str(problem), f"the study {manifest.study}")
        return
    for field, expected in (("digest", manifest.study_digest), ("name", manifest.study)):
        if getattr(study, field) != expected:
            yield unlike(f"{registration.FILE}, {field}", getattr(study, field), expected)
