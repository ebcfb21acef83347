"""Any damaged file of a run folder: what resumes says so, and after `reflexion-lab repair` it ends as before."""

import json
import shutil

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Resumption, SetAside
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder, seal
from reflexion_lab.runner.folder.repair import DROPPED, drops, repair
from reflexion_lab.studies.run import carry_out
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.studies.sweeps.sweep import Sweep
from tests.builders import scripted

RULES = [
    {"when": "(?m)^(assert|# Different|I need tests)", "scope": "conversation", "reply": "(3) == 7\nassert 1"},
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
]
CONFIG = [
    "benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true", "feedback_source=self_tests",
    "store=sqlite", "memory.shared.round_size=1", "workers=1",
]  # fmt: skip
KEYS = {
    "attempts.jsonl": ("task_id", "number"),
    "results.jsonl": ("task_id",),
    "grades.jsonl": ("task_id", "number"),
    "written_tests.jsonl": ("task_id",),
    "suite_verdicts.jsonl": ("task_id",),
}
FIRST = ("attempts.jsonl", "results.jsonl")
"""Files whose damages the fast tests go through."""


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    """Overrides of the run below a folder."""
    model = scripted(tmp_path_factory.mktemp("model"), *RULES, reply="\n    return None\n")
    return lambda root: [*model, *CONFIG, f"run_root={root / 'runs'}"]


def run_in(root):
    (path,) = (root / "runs").glob("*/manifest.json")
    return path.parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory, overrides):
    """The place of a finished run."""
    root = tmp_path_factory.mktemp("whole")
    carry_out(compose(*overrides(root)))
    folder = RunFolder(run_in(root))
    folder.append("set_aside.jsonl", SetAside(task_id="t", outcome="timeout", problem="late", at="then"))
    environment = {"code_digest": "", "python": "", "platform": "", "isolation": (), "package_versions": {}}
    folder.append("resumptions.jsonl", Resumption(at="then", **environment))
    (folder.path / "digests.json").unlink()
    seal(folder)
    folder.close()
    return root


@pytest.fixture
def damaged(whole, tmp_path):
    """Makes a copy of the finished run, with a file changed by a function from lines to lines."""

    def change(name, how):
        root = tmp_path / "copy"
        shutil.copytree(whole, root)
        file = run_in(root) / name
        file.write_bytes(b"".join(how(file.read_bytes().splitlines(keepends=True))))
        return root

    return change


def outcome(path):
    log = Log.read(RunFolder.existing(path))
    assert log.torn == 0
    return canonical_form(log), log.written, log.suite_verdicts


@pytest.fixture
def resumed(overrides):
    def resume(root):
        carry_out(compose(*overrides(root), f"resume={run_in(root)}"))
        return outcome(run_in(root))

    return resume


def in_line(place, change):
    """Change the line at `place` alone."""

    def how(lines):
        n = place % len(lines)
        return [*lines[:n], *change(lines[n]), *lines[n + 1 :]]

    return how


DAMAGES = {
    "torn": in_line(-1, lambda line: [line[: len(line) // 2]]),
    "truncated": in_line(0, lambda line: [line[: len(line) // 2] + b"\n"]),
    "flipped": in_line(0, lambda line: [bytes([line[0] ^ 1]) + line[1:]]),
    "not UTF-8": in_line(0, lambda line: [line.replace(b'":"', b'":"\xff', 1)]),
    "zeros": in_line(0, lambda line: [b"\0" * len(line) + b"\n"]),
    "another shape": in_line(0, lambda line: [b'{"hello": 1}\n']),
    "another value": in_line(0, lambda line: [line.replace(b'"task_id":"', b'"task_id":"x', 1)]),
    "twice": in_line(0, lambda line: [line, line]),
    "twice, far apart": lambda lines: [*lines, lines[0]],
    "first line gone": in_line(0, lambda line: []),
    "last line gone": in_line(-1, lambda line: []),
    "empty": lambda lines: [],
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in KEYS])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_repaired_and_resumes_to_the_same_records(whole, damaged, name, damage, resumed):
    root = damaged(name, DAMAGES[damage])
    repair(RunFolder(run_in(root)))
    assert resumed(root) == outcome(run_in(whole))
    assert drops(RunFolder(run_in(root))) == []
    for file, keys in KEYS.items():
        rows = [json.loads(line) for line in (run_in(root) / file).read_bytes().splitlines()]
        names = [tuple(row[key] for key in keys) for row in rows]
        assert len(set(names)) == len(names)
    assert main(["verify", str(run_in(root))]) == 0


@pytest.mark.parametrize("name", ["set_aside.jsonl", "resumptions.jsonl"])
@pytest.mark.parametrize("damage", ["torn", "flipped", "another shape"])
def test_notes_of_a_run_are_repaired_alone(damaged, name, damage):
    path = run_in(damaged(name, DAMAGES[damage]))
    assert [drop.file for drop in drops(RunFolder(path))] == [name, "digests.json", "summary.json"]
    repair(RunFolder(path))
    assert (path / name).read_bytes() == b""


@pytest.mark.parametrize("name", ["digests.json", "summary.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "another shape", "empty"])
def test_views_of_the_records_are_written_anew(whole, damaged, name, damage, resumed):
    root = damaged(name, DAMAGES[damage])
    repair(RunFolder(run_in(root)))
    resumed(root)
    assert main(["verify", str(run_in(root))]) == 0


@pytest.mark.parametrize("name", ["manifest.json", "memory.json"])
def test_what_no_line_can_replace_is_named_with_what_to_do(damaged, name):
    path = run_in(damaged(name, lambda lines: [b"{\n"]))
    with pytest.raises(FolderError, match=rf"{name}: .*restore it from a copy, or begin again"):
        repair(RunFolder(path))


def test_a_run_without_the_memory_that_it_began_with_is_not_resumed(damaged, resumed):
    root = damaged("attempts.jsonl", list)
    (run_in(root) / "memory.json").unlink()
    with pytest.raises(FolderError, match=r"memory\.json: .*restore it from a copy"):
        resumed(root)


@pytest.mark.parametrize("name", ["attempts.jsonl", "results.jsonl", "grades.jsonl"])
def test_the_error_of_a_damaged_line_names_the_command(damaged, name, resumed):
    root = damaged(name, DAMAGES["another shape"])
    with pytest.raises(FolderError, match=rf"{name}, line 1: .*`reflexion-lab repair .*` shows"):
        Log.read(RunFolder(run_in(root)))
    with pytest.raises(FolderError, match=rf"{name}, line 1: .*`reflexion-lab repair .*` shows"):
        resumed(root)


def test_a_result_that_does_not_fit_its_attempts_names_the_command(damaged, resumed):
    root = damaged("attempts.jsonl", DAMAGES["last line gone"])
    (run_in(root) / "digests.json").unlink()
    with pytest.raises(FolderError, match=r"results\.jsonl, line 3: .* does not fit its 1 attempts; `reflexion-lab"):
        resumed(root)


def test_a_line_deleted_by_hand_is_a_loop_that_runs_again(whole, damaged, resumed):
    root = damaged("results.jsonl", DAMAGES["last line gone"])
    assert resumed(root) == outcome(run_in(whole))
    assert drops(RunFolder(run_in(root))) == []


def test_a_loop_that_a_whole_run_restarted_is_no_damage(damaged):
    def restarted(lines):
        earlier = json.loads(lines[0])
        earlier["trajectory"]["cached"] = not earlier["trajectory"]["cached"]
        return [json.dumps(earlier).encode() + b"\n", *lines]

    assert drops(RunFolder(run_in(damaged("attempts.jsonl", restarted)))) == []


def test_repair_shows_first_and_keeps_what_it_drops(damaged, capsys):
    root = damaged("results.jsonl", DAMAGES["truncated"])
    path = run_in(root)
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}
    assert main(["repair", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "results.jsonl, line 1: no valid JSON\n" in shown
    assert "attempts.jsonl, lines 1-2: of a loop without a result, which starts again\n" in shown
    assert shown.endswith(f"nothing is changed yet; give --yes to move this to {path / DROPPED}\n")
    assert {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()} == before
    assert main(["repair", str(path), "--yes", "--json"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-2].endswith(f"with resume={path}")
    answer = json.loads(out[-1])
    assert (answer["run"], answer["is_repaired"]) == (str(path), True)
    assert {"file": "results.jsonl", "lines": [1], "reason": "no valid JSON"} in answer["dropped"]
    for name in ("attempts.jsonl", "results.jsonl", "grades.jsonl"):
        kept, dropped = ((folder / name).read_bytes().splitlines() for folder in (path, path / DROPPED))
        assert sorted(kept + dropped) == sorted(before[name].splitlines())
    assert (path / DROPPED / "digests.json").read_bytes() == before["digests.json"]
    assert main(["repair", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: nothing to repair\n"


def test_a_folder_that_a_process_writes_into_is_not_repaired(damaged):
    path = run_in(damaged("results.jsonl", DAMAGES["truncated"]))
    with RunFolder(path).held(), pytest.raises(FolderError, match="another process writes"):
        repair(RunFolder(path))


def test_a_sweep_runs_a_repaired_cell_again(tmp_path, overrides):
    words = [*overrides(tmp_path), "recall.omega=0,1", "store=none"]
    first = sweep(words, quiet=True)
    path = first.runs[1]
    lines = (path / "attempts.jsonl").read_bytes().splitlines(keepends=True)
    (path / "attempts.jsonl").write_bytes(b"".join(lines[1:]))
    repair(RunFolder(path))
    again = sweep(words, quiet=True)
    assert [state.status for state in Sweep.of(words).states.values()] == ["kept", "done"]
    assert again.runs == first.runs
    assert len(Log.read(RunFolder(path)).results) == 3
