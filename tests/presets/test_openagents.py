"""preset=openagents by the command line: reflections leave and enter in its layout."""

import json

import pytest

from reflexion_lab.cli import main as cli
from reflexion_lab.records import Episode
from reflexion_lab.storage.place import opened
from tests.builders import TABLES

ROWS, FAULTS = TABLES["lines of OpenAgents"], TABLES["faults in a line of OpenAgents"]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli.main([*words])


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return str(path)


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("store", ["kept", "kept.sqlite"])
def test_reflections_in_the_layout_of_openagents_come_back_whole(lab, tmp_path, capsys, store):
    assert lab("memory", "import", written(tmp_path / "reflections.jsonl", ROWS), "--store", store) == 0
    assert "episodes: 3 new, 0 replaced" in capsys.readouterr().out
    assert lab("memory", "export", "back.jsonl", "--as", "openagents", "--store", store) == 0
    assert read(tmp_path / "back.jsonl") == ROWS
    assert lab("memory", "validate", "back.jsonl") == 0
    capsys.readouterr()
    assert lab("memory", "search", "--task", "sub-0", "--limit", "2", "--json", "--store", store) == 0
    newest = json.loads(capsys.readouterr().out.splitlines()[-1])["episodes"]
    assert [each["episode_id"] for each in newest] == ["ref-2", "ref-0"]


def test_a_run_exports_its_reflections_with_the_eleven_fields(lab, tmp_path):
    words = ("model=simulated", "model.first=0", "model.repair=0", "benchmark.load.n=1", "tracker=none", "quiet=true")
    assert lab("run", "preset=openagents", *words) == 0
    assert lab("memory", "export", "out.jsonl", "--as", "openagents", "--store", "runs/memory") == 0
    rows = read(tmp_path / "out.jsonl")
    stored = list(opened("runs/memory").read(Episode))
    assert [list(row) for row in rows] == [list(ROWS[0])] * 3
    for row, episode in zip(rows, stored, strict=True):
        assert (row["id"], row["attemptNumber"]) == (episode.episode_id, episode.attempt_number)
        assert row["analysis"].startswith(episode.reflection.root_cause)
        assert (row["suggestion"], row["confidence"]) == (episode.improvement, episode.confidence)
    assert lab("memory", "import", "out.jsonl", "--store", "again") == 0
    assert lab("memory", "export", "again.jsonl", "--as", "openagents", "--store", "again") == 0
    assert read(tmp_path / "again.jsonl") == rows


@pytest.mark.parametrize(("fault", "named"), FAULTS)
def test_a_bad_line_is_named_and_nothing_is_imported(lab, tmp_path, capsys, fault, named):
    path = written(tmp_path / "reflections.jsonl", [ROWS[0], {**ROWS[1], **fault}])
    assert lab("memory", "validate", path) == 1
    assert f"{path}, line 2: " in (text := capsys.readouterr().out) and named in text, text
    assert lab("memory", "import", path, "--store", "kept") == 2
    assert "nothing was imported" in capsys.readouterr().err
    assert list(opened("kept").read(Episode)) == []
