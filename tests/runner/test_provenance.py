"""A manifest names all that a run was made with, and nothing of whose machine it was."""

import getpass
import importlib
import platform
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import file_digest
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder import manifest as source
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import code_digest, differences, own_parts, provenance
from reflexion_lab.tasks.sandbox.cached import VERSION

SMALL = ("model=simulated", "actor=single_shot", "benchmark.load.n=2", "tracker=none", "quiet=true")
OWN = "class Mine:\n    def __init__(self, model, sampling): ...\n    def act(self, task, recollection):\n"


def of_run(tmp_path):
    (path,) = tmp_path.glob("2*")
    return RunFolder.existing(path)


def test_a_run_records_its_overrides_platform_and_files(tmp_path):
    assert main(["run", *SMALL, "temperature=0.5", f"run_root={tmp_path}"]) == 0
    origin = of_run(tmp_path).manifest.provenance
    assert origin.overrides[: len(SMALL)] == SMALL
    assert "temperature=0.5" in origin.overrides
    assert origin.launcher == "basic"
    assert origin.python == f"{platform.python_implementation()} {platform.python_version()}"
    assert platform.machine() in origin.platform
    assert origin.cpus >= 1
    assert origin.lock_digest == file_digest(Path(__file__).parents[2] / "constraints.txt")
    assert origin.code_digest == code_digest()
    assert origin.sandbox_version == VERSION
    assert (origin.embedder_fingerprint, origin.benchmark_file_digest, origin.own_parts) == ("", "", {})


def test_cells_of_a_sweep_record_their_own_overrides(tmp_path):
    assert main(["run", "-m", *SMALL, f"run_root={tmp_path}", "seed=0,1"]) == 0
    overrides = [RunFolder.existing(path).manifest.provenance.overrides for path in sorted(tmp_path.glob("2*"))]
    assert sorted(word for words in overrides for word in words if word.startswith("seed=")) == ["seed=0", "seed=1"]


def test_no_machine_user_home_or_key_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "planted-home"))
    monkeypatch.setenv("SOME_API_KEY", "planted-secret-value")
    words = [
        f"run_root={tmp_path}/planted-home/runs",
        "a=planted-secret-value",
        "b=postgresql://me:planted@host/db",
        "+actor.gateway_token=planted-7f3a9c",
    ]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("{}\n")
    origin = provenance({"benchmark": {"load": {"path": str(tasks)}}}, overrides=words)
    assert origin.benchmark_file_digest == file_digest(tasks)
    assert origin.overrides[0] == "run_root=~/runs"
    text = msgspec.json.encode(origin).decode()
    for hidden in ("planted", f"/{getpass.getuser()}/", socket.gethostname(), str(Path.cwd())):
        assert hidden not in text, hidden
    monkeypatch.setenv("HOME", "/")
    assert provenance({}, overrides=["run_root=/"]).overrides == ("run_root=/",)


def test_runs_of_another_platform_can_be_resumed_with_the_same_vectors(monkeypatch, tmp_path):
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.slowness", lambda: 1.5)
    lab = assemble(compose(*SMALL, f"run_root={tmp_path}"))
    lab.close()
    here = lab.folder.manifest
    assert here.provenance.slowness == 1.5
    changed = replace(here, provenance=replace(here.provenance, embedder_fingerprint="minilm:1"))
    other = {
        "python": "PyPy 9", "platform": "other", "cpus": 1, "slowness": 9.0, "lock_digest": "0", "diff_digest": "1",
    }  # fmt: skip
    elsewhere = replace(changed.provenance, **other)
    assert differences(changed, replace(changed, provenance=elsewhere)) == []
    other = replace(changed, provenance=replace(changed.provenance, embedder_fingerprint="minilm:2"))
    assert differences(changed, other) == ["embedder_fingerprint"]


@pytest.fixture
def own_actor(tmp_path, monkeypatch):
    """A module of a reader's own with an actor, imported as theirs would be."""
    path = tmp_path / "an_own_part.py"
    path.write_text(OWN + "        raise NotImplementedError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield path
    sys.modules.pop("an_own_part", None)


def test_a_changed_part_of_ones_own_is_refused_on_resume(tmp_path, own_actor):
    words = (*SMALL, f"run_root={tmp_path}", "actor._target_=an_own_part.Mine")
    cfg = compose(*words)
    lab = assemble(cfg)
    lab.close()
    origin = lab.folder.manifest.provenance
    assert origin.own_parts == {"an_own_part": file_digest(own_actor)}
    again = compose(*words, f"resume={lab.folder.path}")
    assemble(again).close()
    own_actor.write_text(OWN + "        return None\n")
    with pytest.raises(ConfigError, match="began with another source of an_own_part"):
        assemble(again)


def test_parts_of_the_package_are_no_parts_of_ones_own():
    config = {"a": {"_target_": "reflexion_lab.agent.actors.react.ReAct"}, "b": [{"_target_": "__main__.Mine"}]}
    assert list(own_parts(config)) == ["__main__"]


def test_the_embedder_is_recorded_where_retrieval_uses_it(tmp_path):
    fingerprints = {}
    for retriever in ("jaccard", "hybrid"):
        cfg = compose(*SMALL, f"run_root={tmp_path}", f"retriever={retriever}", "recall=window_then_similar")
        lab = assemble(cfg)
        lab.close()
        fingerprints[retriever] = lab.folder.manifest.provenance.embedder_fingerprint
    assert fingerprints["jaccard"] == ""
    assert fingerprints["hybrid"].startswith("minilm-int8:")


def test_changed_code_has_another_digest_whatever_git_knows(tmp_path, monkeypatch):
    """Of a copy of the package: the digest knows content and names, and no place."""
    copies, digests = [tmp_path / name / "reflexion_lab" for name in ("one", "two")], []
    package = source.PACKAGE
    for copy in copies:
        shutil.copytree(package / "text" / "prompts", copy, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(source, "PACKAGE", copy)
        digests.append(code_digest.__wrapped__())
    assert digests[0] == digests[1]
    (copies[1] / "new.py").write_text("x = 1\n")
    assert code_digest.__wrapped__() != digests[1]


def test_a_dirty_tree_is_known_by_its_diff(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "PACKAGE", tmp_path / "reflexion_lab")
    (tmp_path / "reflexion_lab").mkdir()
    (tmp_path / "pyproject.toml").write_text("a\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    assert source.git_state() == ("", False)  # no repository
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run([*git, *words], check=True)
    assert source.git_state() == ("", False)  # no commit
    subprocess.run([*git, "commit", "-qm", "a"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert source.git_state() == (commit, False)
    assert provenance({}).diff_digest == ""
    (tmp_path / "pyproject.toml").write_text("b\n")
    assert source.git_state() == (commit, True)
    changed = provenance({}).diff_digest
    (tmp_path / "pyproject.toml").write_text("c\n")
    assert len({"", changed, provenance({}).diff_digest}) == 3
