"""What version 0.1 wrote and named is still read: imports, configs, bundles and run folders."""

import importlib
import re
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest

import reflexion_lab
import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.moved import MOVED, current, former, outdated, updated
from reflexion_lab.records import Manifest
from reflexion_lab.runner.config.compose import CONF
from reflexion_lab.runner.folder.manifest import config_digest, differences
from reflexion_lab.runner.folder.registration import REPLAY_EMBEDDER
from reflexion_lab.studies.replay.replay import replay

BUNDLE = Path(__file__).parent / "studies" / "replay" / "earlier_version.bundle.zip"


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_import_gives_the_present_module(old, new):
    sys.modules.pop(f"reflexion_lab.{old}", None)
    with pytest.warns(FutureWarning, match=f"reflexion_lab.{old} is now reflexion_lab.{new}"):
        importlib.import_module(f"reflexion_lab.{old}")
    assert importlib.import_module(f"reflexion_lab.{old}") is importlib.import_module(f"reflexion_lab.{new}")


def test_names_within_a_moved_folder_follow_it_and_others_stay():
    assert current("reflexion_lab.actors.react.ReAct") == "reflexion_lab.agent.actors.react.ReAct"
    assert current("reflexion_lab.reflectors.shuffled.Shuffled") == "reflexion_lab.runner.pool.Shuffled"
    assert current("reflexion_lab.memory.recall.Window") == "reflexion_lab.memory.recall.Window"
    assert current("actors.mine.Mine") == "actors.mine.Mine"
    assert updated({"a": [{"_target_": "reflexion_lab.models.openai.OpenAIModel", "path": "x/y"}]}) == {
        "a": [{"_target_": "reflexion_lab.agent.models.openai.OpenAIModel", "path": "x/y"}]
    }


def test_a_config_that_names_an_old_path_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("reflexion_lab.retrievers", None)
    monkeypatch.delattr(reflexion_lab, "retrievers", raising=False)
    with pytest.warns(FutureWarning, match="reflexion_lab.retrievers"):
        run = rl.run(
            "model=simulated", "actor=single_shot", "benchmark.limit=1", "tracker=none", "quiet=true",
            "retriever._target_=reflexion_lab.retrievers.jaccard.Jaccard", "memory.shared.shown.wisdom=1",
        )  # fmt: skip
    assert run.path.is_dir()


def test_an_old_bundle_replays_but_for_prompts_and_intervals(tmp_path):
    findings = {finding.name: finding for finding in replay(BUNDLE, tmp_path / "kept").verification.findings}
    different = [name for name, finding in findings.items() if finding.disagreements]
    assert different == ["prompts", "attempts", "headline figures"]
    assert "prompt continue_memory" in [disagreement.where for disagreement in findings["prompts"].disagreements]
    figures = [*map(str, findings["headline figures"].disagreements)]  # of four tasks, which say little
    assert figures[0] == "headline figures.against_single.high: got 1.0, expected 0.47137741565836877"
    assert all(figure.startswith("headline figures.against_single.") for figure in figures)


def test_an_old_run_folder_is_shown_and_verified(tmp_path, monkeypatch, capsys):
    with zipfile.ZipFile(BUNDLE) as bundle:
        bundle.extractall(tmp_path)
    folder = next(path.parent for path in tmp_path.rglob("manifest.json"))
    assert main(["verify", str(folder), "--execute"]) == 1
    disagreements = re.findall("DISAGREES: (.*)", capsys.readouterr().out)
    assert disagreements and all(line.startswith("prompt ") for line in disagreements), "made with other prompts"
    assert main(["show", str(folder)]) == 0
    assert "pass@1" in capsys.readouterr().out


def test_every_name_of_a_config_file_has_one_former_name():
    texts = [path.read_text() for path in CONF.rglob("*.yaml")]
    names = {name for text in texts for name in re.findall(r"(?:_target_|path): (reflexion_lab\.[\w.]+)", text)}
    assert len(names) > 60
    names.add(REPLAY_EMBEDDER)  # which no config file names, and every replay's manifest does
    assert {
        current(f"reflexion_lab.{old}.ReplayEmbedder") for old in ("embedders.replay", "memory.embedders.replay")
    } == {REPLAY_EMBEDDER}
    assert [name for name in names if current(former(name)) != name] == []
    assert former("reflexion_lab.agent.critique.llm_reviser.LLMReviser") == "reflexion_lab.revisers.llm.LLMReviser"
    assert former("reflexion_lab.tasks.evaluators.self_tests.SelfTests") == (
        "reflexion_lab.suite_writers.self_tests.SelfTests"
    )


def test_a_run_of_then_and_one_of_now_have_one_digest():
    """So cells that version 0.1 finished are kept, cut runs go on, and arms of both are one."""
    with zipfile.ZipFile(BUNDLE) as bundle:
        manifest = msgspec.json.decode(bundle.read("manifest.json"), type=Manifest)
    now = updated(manifest.config)
    assert now != manifest.config
    assert outdated(now) == manifest.config
    assert config_digest(now) == config_digest(manifest.config) == manifest.config_digest
    assert differences(manifest, msgspec.structs.replace(manifest, config=now)) == []
