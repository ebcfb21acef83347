"""Verification: an untouched run verifies; every change in its folder is found and located."""

import json
import re
import shutil
from functools import reduce
from operator import getitem

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay.bundle import read as read_bundle
from reflexion_lab.studies.replay.bundle import unpack
from reflexion_lab.studies.replay.packing import pack
from reflexion_lab.studies.replay.replay import replay
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.run import carry_out, finish
from reflexion_lab.tasks.evaluators import unit_tests
from tests.studies.small_runs import script

SMALL = ("model=scripted", "benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true")
RECORDS = ("attempts.jsonl", "results.jsonl", "grades.jsonl", "manifest.json")


def composed(folder, *overrides):
    return compose(*SMALL, "workers=1", f"model.path={script(folder)}", f"run_root={folder / 'runs'}", *overrides)


def run_in(folder, *overrides):
    """The folder of a whole run."""
    carry_out(composed(folder, *overrides))
    return max((folder / "runs").glob("*/manifest.json")).parent


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return run_in(tmp_path_factory.mktemp("original"))


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / original.name)


def unsealed(run):
    (run / "digests.json").unlink()
    return run


def edit(path, change, line=0):
    """Change the JSON value in one line of a file, or a file that is one value."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    value = json.loads(lines[line])
    change(value)
    lines[line] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")


def places(verification):
    return " | ".join(map(str, verification.disagreements))


def test_an_untouched_run_verifies_and_stays_untouched(run, capsys):
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    verification = verify(run, execute=True)
    assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before
    assert verification.holds, places(verification)
    assert [finding.name for finding in verification.findings if finding.unchecked] == []
    assert main(["verify", str(run), "--execute", "2", "--json"]) == 0
    out = capsys.readouterr().out
    printed = json.loads(out.splitlines()[-1])
    assert printed["agrees"] is True
    assert {finding["verdict"] for finding in printed["runs"][0]["findings"]} == {"agrees"}
    assert "2 of 6 programs" in out


WRAPPED = "evaluator.evaluator._target_=reflexion_lab.tasks.evaluators"
OF_FUNCTIONS = {path.stem for path in (CONF / "evaluator").glob("*.yaml")} - {"play", "self_consistency"}
EVALUATORS = [f"evaluator={name}" for name in sorted(OF_FUNCTIONS)]
KINDS = [
    *[(name,) for name in EVALUATORS],
    ("evaluator=combined", "evaluator.tests_weight=0.7", "feedback_source=oracle"),
    ("evaluator=with_trajectory", "evaluator.verdict_weight=0.3", "evaluator.trajectory.max_turns=3"),
    ("evaluator=with_trajectory", f"{WRAPPED}.combined.Combined"),
    ("evaluator=with_trajectory", f"{WRAPPED}.static.StaticCheck", "+evaluator.evaluator.tool=ruff"),
]


@pytest.mark.slow
@pytest.mark.parametrize("overrides", KINDS, ids=" ".join)
def test_a_run_of_every_evaluator_verifies_and_a_changed_reward_is_located(tmp_path, overrides):
    folder = run_in(tmp_path, "actor=single_shot", "benchmark.limit=1", *overrides)
    assert verify(folder).holds, places(verify(folder))
    path = unsealed(folder) / "attempts.jsonl"
    before = path.read_bytes()
    parts = json.loads(before.splitlines()[0])["evaluation"].get("components", {})
    for fields in ({"reward": 0.123}, *({"components": parts | {name: 0.123}} for name in parts)):
        edit(path, lambda attempt, fields=fields: attempt["evaluation"].update(fields))
        assert f"attempt 1, {next(iter(fields))}: got" in places(verify(folder)), fields
        path.write_bytes(before)


class UnitTests(unit_tests.UnitTests):
    """Like the lab's, by name, too, with half the reward."""

    def evaluate(self, task, trajectory):
        whole = super().evaluate(task, trajectory)
        return replace(whole, reward=whole.reward / 2)


@pytest.mark.slow
@pytest.mark.parametrize("preset", sorted(path.stem for path in (CONF / "preset").glob("*.yaml")))
def test_a_run_of_every_preset_verifies_with_every_evaluator_and_an_own_one(tmp_path, preset):
    small = ("model=simulated", "model.first=0.3", f"preset={preset}", *SMALL[1:], f"run_root={tmp_path}")
    for evaluator in ("store=none", *EVALUATORS, UnitTests):
        own = {} if isinstance(evaluator, str) else {"evaluator": evaluator}
        run = rl.run(*small, *(() if own else [evaluator]), **own)
        assert main(["verify", str(run.path)]) == 0, places(verify(run.path))


@pytest.mark.parametrize("parts", [{"evaluator": UnitTests}, {}], ids=["class", "wrapped"])
def test_a_reward_of_ones_own_is_no_disagreement(tmp_path, parts):
    wrapped = ("evaluator=with_trajectory", f"evaluator.evaluator._target_={__name__}.UnitTests")
    small = ("model=simulated", "model.first=1", "actor=single_shot", *SMALL[1:], f"run_root={tmp_path}")
    run = rl.run(*small, *(() if parts else wrapped), **parts)
    assert all(attempt.evaluation.reward < 1 for attempt in run.log.by_task.every)
    assert verify(run.path).holds, places(verify(run.path))


def test_any_changed_byte_of_the_records_is_found(run, original):
    for name in RECORDS:
        content = (original / name).read_bytes()
        for place in range(1, len(content), max(1, len(content) // 7)):
            (run / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            assert main(["verify", str(run)]) in (1, 2), f"{name}, byte {place}"
        (run / name).write_bytes(content)
    assert verify(run).holds


def test_a_second_line_of_an_attempt_is_located(run):
    path = unsealed(run) / "attempts.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert json.loads(lines[1])["number"] == 2
    path.write_text("".join([*lines[:2], *lines[1:]]))
    assert "attempt after 2: got 2, expected 3" in places(verify(run))


def reword(attempt):
    attempt["trajectory"]["rationale"] = "another"


def test_a_change_that_moves_no_figure_is_found_by_the_seal(run):
    edit(run / "attempts.jsonl", reword)
    assert re.search(r"attempts\.jsonl: got \w{16}…, 6 lines, expected \w{16}…, 6 lines", places(verify(run)))
    earlier = verify(unsealed(run))
    assert earlier.holds
    assert "no digests.json" in earlier.findings[0].unchecked


CHANGES = [
    ("attempts", (), {"number": 4}, "that does not fit its 2 attempts"),
    ("attempts", (), {"stop_reason": "passed"}, "stop_reason: got passed"),
    ("attempts", ("evaluation",), {"passed": True, "outcome": "pass"}, "passed: got True"),
    ("attempts", ("evaluation",), {"reward": 0.99}, "reward: got 0.99"),
    ("attempts", ("delta",), {"reward_change": 0.5}, "delta"),
    ("attempts", ("trajectory", "usage"), {"prompt_tokens": 1}, "usage.actor.prompt_tokens"),
    ("results", (), {"submitted": 2}, "submitted: got 2, expected 1"),
    ("results", (), {"stop_reason": "plateau"}, "stop_reason: got plateau"),
    ("results", (), {"attempts": 3}, "that does not fit its 2 attempts"),
    ("results", (), {"cluster": "other"}, ", cluster: got other, expected basics/"),
    ("grades", (), {"passed": True}, "passed: got True"),
    ("grades", (), {"sealed": True}, "sealed: got True, expected False"),
    ("grades", (), {"number": 7}, "attempt 7, grades: got 1, expected 0"),
    ("grades", (), {"checks_total": 99}, "hidden tests: got 99"),
    ("grades", (), {"checks_total": "many"}, "grades.jsonl, line 1"),
]


def test_contradicting_records_are_located_without_a_seal(run):
    unsealed(run)
    for name, keys, fields, message in CHANGES:
        path = run / f"{name}.jsonl"
        before = path.read_bytes()
        edit(path, lambda record, keys=keys, fields=fields: reduce(getitem, keys, record).update(fields))
        assert message in places(verify(run)), (name, fields)
        path.write_bytes(before)
    assert verify(run).holds


def test_a_figure_that_differs_in_the_last_digit_or_is_missing_is_located(run):
    edit(run / "summary.json", lambda summary: summary["pass_at_1"].update(high=summary["pass_at_1"]["high"] + 1e-15))
    edit(run / "summary.json", lambda summary: summary.pop("withheld"))
    places = {disagreement.where for disagreement in verify(run).disagreements}
    assert places == {"summary.json, pass_at_1.high", "summary.json, withheld"}


MISSING = {
    "grades": "grades: got 0, expected 1",
    "results": "tasks with a result: got 2, expected 3",
    "attempts": "that does not fit its 1 attempt",
}


def test_a_missing_record_is_located(run):
    for name, message in MISSING.items():
        path = run / f"{name}.jsonl"
        before = path.read_text()
        path.write_text("".join(before.splitlines(keepends=True)[:-1]))
        assert message in places(verify(run))
        path.write_text(before)


def test_a_manifest_that_differs_from_what_is_here_is_located(run):
    def differ(manifest):
        manifest["prompt_digests"]["solve"] = "0" * 16
        manifest["benchmark_digest"] = "0" * 64
        manifest["config"]["temperature"] = 0.5
        manifest["seed"] = 9

    edit(unsealed(run) / "manifest.json", differ)
    disagreements = places(verify(run))
    for message in ("prompt solve", "benchmark_digest", "config_digest", "manifest.json, seed: got 9"):
        assert message in disagreements


def test_forged_verdicts_are_found_by_executing_the_programs(run):
    """Records and figures agree with each other; only the sandbox disagrees."""
    grades = [json.loads(line) for line in (unsealed(run) / "grades.jsonl").read_text().splitlines()]
    forged = [grade | {"passed": True, "outcome": "pass", "checks_passed": grade["checks_total"]} for grade in grades]
    (run / "grades.jsonl").write_text("".join(json.dumps(grade) + "\n" for grade in forged))
    (run / "summary.json").unlink()
    assert verify(run).holds
    assert "passed: got True, expected False, executed here" in places(verify(run, execute=True))


def test_a_torn_line_is_noted_and_counts_for_nothing(run):
    path = unsealed(run) / "attempts.jsonl"
    path.write_bytes(path.read_bytes() + b'{"task_id": "to')
    verification = verify(run)
    assert "1 torn line, not counted" in verification.notes
    assert "summary.json, torn: got 0, expected 1" in places(verification)


def test_an_interrupted_run_verifies_once_it_is_resumed(tmp_path):
    cfg = composed(tmp_path)
    lab = assemble(cfg)
    append, lab.folder.append = lab.folder.append, None

    def interrupted(name, record):
        if name == "grades.jsonl" and record.sealed:
            raise KeyboardInterrupt
        append(name, record)

    lab.folder.append = interrupted
    with pytest.raises(KeyboardInterrupt):
        finish(lab)
    path = lab.folder.path
    assert not (path / "digests.json").exists()
    assert "grades: got 0, expected 1" in places(verify(path))
    run_in(tmp_path, f"resume={path}")
    assert verify(path).holds, places(verify(path))


def test_a_resumed_finished_run_keeps_its_seal(tmp_path):
    stored = ("store=sqlite", "recall=window_then_similar", "recall.min_score=0")
    path = run_in(tmp_path, *stored)
    before = (path / "digests.json").read_bytes()
    for change in (None, reword):
        if change:
            edit(path / "attempts.jsonl", change)
        run_in(tmp_path, *stored, f"resume={path}")
        assert (path / "digests.json").read_bytes() == before
        assert ("attempts.jsonl" in places(verify(path))) is bool(change)


def resume(run):
    config = json.loads((run / "manifest.json").read_text())["config"]
    return ["run", *SMALL, "workers=1", f"model.path={config['model']['path']}", f"run_root={config['run_root']}"]


def interrupt(run, provenance=(), package_versions=(), **fields):
    """Leave the run as a kill after the first task does, started by a program with these differences."""
    for name, count in {"attempts.jsonl": 2, "results.jsonl": 1, "grades.jsonl": 1}.items():
        lines = (run / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(lines[:count]))
    for name in ("digests.json", "summary.json"):
        (run / name).unlink()

    def differ(manifest):
        manifest["provenance"].update(provenance)
        manifest["package_versions"].update(package_versions)
        manifest.update(fields)

    edit(run / "manifest.json", differ)
    return resume(run)


@pytest.mark.slow
def test_a_run_resumed_by_another_program_records_that(run, tmp_path, capsys):
    changed = {"provenance": {"code_digest": "0" * 16}, "package_versions": {"msgspec": "0.1"}}
    command = interrupt(run, **changed, isolation=["none"])
    assert main([*command, f"resume={run}"]) == 0
    (warning,) = (line for line in capsys.readouterr().err.splitlines() if "is resumed with changes" in line)
    changes = [f"code digest {'0' * 16} → ", "msgspec 0.1 → ", "isolation none → "]
    assert all(change in warning for change in changes)
    assert main([*command, f"resume={run}"]) == 0  # finished: nothing is resumed
    assert "resumed" not in capsys.readouterr().err
    (resumption,) = RunFolder.existing(run).resumptions
    assert resumption.package_versions.keys() == {"msgspec"}
    assert "resumptions.jsonl" in json.loads((run / "digests.json").read_text())
    packed = pack(RunFolder.existing(run), tmp_path / "a.zip").path
    for command in (["show", str(run), "--full"], ["verify", str(run)], ["verify", str(packed)]):
        assert main(command) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert all(change in out for change in changes), out


def test_a_run_resumed_by_the_same_program_has_no_warning(run, capsys):
    command = interrupt(run)
    assert main([*command, f"resume={run}"]) == 0
    assert "resumed" not in capsys.readouterr().err
    assert main(["verify", str(run)]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_a_bundle_verifies_packed_unpacked_and_replayed(run, tmp_path):
    packed = pack(RunFolder.existing(run), tmp_path / "a.zip").path
    verification = verify(packed, execute=True)
    assert verification.holds, places(verification)
    assert "members of the bundle" in verification.findings[0].value
    _, members = read_bundle(packed)
    unpack(members, tmp_path / "there")
    assert verify(tmp_path / "there").holds
    again = replay(packed, tmp_path / "again").folder
    assert verify(again, execute=True).holds, places(verify(again))


def test_a_folder_or_file_that_is_no_run_exits_with_2(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    (tmp_path / "manifest.json").write_text("{}")
    assert main(["verify", str(tmp_path)]) == 2
    (tmp_path / "some.zip").write_bytes(b"PK")
    assert main(["verify", str(tmp_path / "some.zip")]) == 2
    errors = capsys.readouterr().err
    assert "got no manifest.json, expected a run folder" in errors
    assert "Traceback" not in errors


def test_disagreements_exit_with_1_and_a_line_each(run, capsys):
    edit(run / "results.jsonl", lambda record: record.update(submitted=2))
    assert main(["verify", str(run), "--json"]) == 1
    out = capsys.readouterr().out
    assert len(re.findall(r"^DISAGREES: ", out, re.MULTILINE)) == len(verify(run).disagreements)
    assert json.loads(out.splitlines()[-1])["agrees"] is False
