"""A run that nobody touched verifies; whatever is changed in its folder is found, and named with its place."""

import json
import re
import shutil

import pytest

from reflexion_lab.analysis.summary import Log
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay.bundle import read as read_bundle
from reflexion_lab.studies.replay.bundle import unpack
from reflexion_lab.studies.replay.packing import pack
from reflexion_lab.studies.replay.replay import replay
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.run import finish

REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
SCRIPT = [
    {"when": "ROOT_CAUSE", "reply": REFLECTION},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return None\n"},
]
SMALL = ("model=scripted", "benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true")
RECORDS = ("attempts.jsonl", "results.jsonl", "grades.jsonl", "manifest.json")


def composed(folder, *overrides):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return compose(
        *SMALL, "workers=1", f"model.path={folder / 'script.json'}", f"run_root={folder / 'runs'}", *overrides
    )


def carried_out(folder, *overrides):
    cfg = composed(folder, *overrides)
    lab = assemble(cfg)
    finish(lab, cfg)
    return lab.folder.path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return carried_out(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made, tmp_path):
    return shutil.copytree(made, tmp_path / made.name)


def unsealed(run):
    (run / "digests.json").unlink()
    return run


def edited(path, change, line=0):
    lines = path.read_text().splitlines()
    record = json.loads(lines[line])
    change(record)
    lines[line] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")


def places(found):
    return " | ".join(map(str, found.disagreements))


def test_a_run_that_nobody_touched_verifies_and_every_part_of_it_was_checked(run, capsys):
    found = verify(run, execute=True)
    assert found.holds, places(found)
    assert [finding.name for finding in found.findings if finding.unchecked] == []
    assert main(["verify", str(run), "--execute", "2", "--json"]) == 0
    out = capsys.readouterr().out
    told = json.loads(out.splitlines()[-1])
    assert told["agrees"] is True
    assert {finding["verdict"] for finding in told["runs"][0]["findings"]} == {"agrees"}
    assert "2 of 6 programs" in out


NOISY = "evaluator=noisy", "evaluator.false_negative=0.5", "evaluator.false_positive=0.5"


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(("feedback_source=oracle",), id="oracle", marks=pytest.mark.slow),
        pytest.param(
            ("store=sqlite", "recall=window_then_similar", "recall.min_score=0", "memory.shared.round_size=2"),
            id="store and rounds",
        ),
        pytest.param(("evaluator=combined", "loop.max_attempts=1"), id="combined", marks=pytest.mark.slow),
        pytest.param(NOISY, id="noisy"),
        pytest.param(
            (*NOISY, "evaluator.evaluator._target_=reflexion_lab.tasks.evaluators.combined.Combined"),
            id="noisy over combined",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_runs_of_every_kind_verify(tmp_path, overrides):
    found = verify(carried_out(tmp_path, *overrides), execute=True)
    assert found.holds, places(found)


def test_any_single_changed_byte_of_the_records_is_found(run, made):
    """Within words that no figure is made of, too: the seal knows every byte."""
    for name in RECORDS:
        content = (made / name).read_bytes()
        for place in range(1, len(content), max(1, len(content) // 7)):
            (run / name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            assert main(["verify", str(run)]) in (1, 2), f"{name}, byte {place}"
        (run / name).write_bytes(content)
    assert verify(run).holds


def test_a_reply_that_moves_no_figure_is_found_by_the_seal_and_without_it_is_not(run):
    edited(run / "attempts.jsonl", lambda one: one["trajectory"].update(rationale="another"))
    assert re.search(r"attempts\.jsonl: got \w{16}…, 6 lines, expected \w{16}…, 6 lines", places(verify(run)))
    earlier = verify(unsealed(run))
    assert earlier.holds
    assert "no digests.json" in earlier.findings[0].unchecked


CHANGES = [
    ("attempts.jsonl", lambda one: one.update(number=4), "attempt after 0: got 4, expected 1"),
    ("attempts.jsonl", lambda one: one.update(stop_reason="passed"), "stop_reason: got passed"),
    ("attempts.jsonl", lambda one: one["evaluation"].update(passed=True, outcome="pass"), "passed: got True"),
    ("attempts.jsonl", lambda one: one["evaluation"].update(reward=0.99), "reward: got 0.99"),
    ("attempts.jsonl", lambda one: one["delta"].update(reward_change=0.5), "delta"),
    ("attempts.jsonl", lambda one: one["trajectory"]["usage"].update(prompt_tokens=1), "usage.actor.prompt_tokens"),
    ("results.jsonl", lambda one: one.update(submitted=2), "submitted: got 2, expected 1"),
    ("results.jsonl", lambda one: one.update(stop_reason="plateau"), "stop_reason: got plateau"),
    ("results.jsonl", lambda one: one.update(attempts=3), "expected 1 to 3, as its result says"),
    ("grades.jsonl", lambda one: one.update(passed=True), "passed=True"),
    ("grades.jsonl", lambda one: one.update(sealed=True), "sealed: got True, expected False"),
    ("grades.jsonl", lambda one: one.update(number=7), "grade of attempt 7: got no such attempt, expected"),
    ("grades.jsonl", lambda one: one.update(checks_total=99), "hidden tests: got 99"),
    ("grades.jsonl", lambda one: one.update(checks_total="many"), "grades.jsonl, line 1"),
]


@pytest.mark.parametrize(("file", "change", "said"), CHANGES, ids=[said for *_, said in CHANGES])
def test_records_that_contradict_each_other_are_named_even_without_a_seal(run, file, change, said):
    edited(unsealed(run) / file, change)
    assert said in places(verify(run))


def test_a_figure_that_the_records_do_not_give_is_named_to_the_last_digit(run):
    told = json.loads((run / "summary.json").read_text())
    told["pass_at_1"]["high"] += 1e-15
    (run / "summary.json").write_text(json.dumps(told))
    (one,) = verify(run).disagreements
    assert one.where == "summary.json, pass_at_1.high"


def test_a_summary_of_an_earlier_version_lacks_fields_and_that_is_said(run):
    told = json.loads((run / "summary.json").read_text())
    del told["withheld"], told["usage"]["actor"]["retries"]
    (run / "summary.json").write_text(json.dumps(told))
    found = verify(run)
    assert found.holds
    assert any("usage.actor.retries, withheld: not in summary.json" in note for note in found.notes)


def test_a_missing_grade_result_or_attempt_is_named(run, made):
    for name, said in {"grades": "grades: got 0, expected 1", "results": "tasks with a result: got 2, expected 3",
                       "attempts": "attempts: got [1]"}.items():  # fmt: skip
        path = run / f"{name}.jsonl"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
        assert said in places(verify(run)), name
        shutil.copy(made / path.name, path)


def test_another_prompt_benchmark_or_config_than_the_manifest_says_is_named(run):
    unsealed(run)
    told = json.loads((run / "manifest.json").read_text())
    told["prompt_digests"]["solve"] = "0" * 16
    told["benchmark_digest"] = "0" * 64
    told["config"]["temperature"] = 0.5
    told["seed"] = 9
    (run / "manifest.json").write_text(json.dumps(told))
    found = places(verify(run))
    for said in ("prompt solve", "benchmark_digest", "config_digest", "manifest.json, seed: got 9"):
        assert said in found


def test_a_verdict_that_the_sandbox_does_not_reach_again_is_named(run):
    """A whole forged run: records and figures agree with each other, and only executing tells."""
    grades = [json.loads(line) for line in (unsealed(run) / "grades.jsonl").read_text().splitlines()]
    forged = [one | {"passed": True, "outcome": "pass", "checks_passed": one["checks_total"]} for one in grades]
    (run / "grades.jsonl").write_text("".join(json.dumps(one) + "\n" for one in forged))
    (run / "summary.json").unlink()
    assert verify(run).holds
    found = verify(run, execute=True)
    assert "passed: got True, expected False, executed here" in places(found)


def test_a_torn_line_is_named_and_counts_for_nothing(run):
    path = unsealed(run) / "attempts.jsonl"
    path.write_bytes(path.read_bytes() + b'{"task_id": "to')
    found = verify(run)
    assert any("attempts.jsonl, line 7" in note for note in found.notes)
    assert "summary.json, torn: got 0, expected 1" in places(found)


def test_a_run_that_was_cut_off_does_not_verify_before_it_is_resumed(tmp_path):
    cfg = composed(tmp_path)
    lab = assemble(cfg)
    append, lab.folder.append = lab.folder.append, None

    def interrupted(name, record):
        if name == "grades.jsonl" and record.sealed:
            raise KeyboardInterrupt
        append(name, record)

    lab.folder.append = interrupted
    with pytest.raises(KeyboardInterrupt):
        finish(lab, cfg)
    path = lab.folder.path
    assert not (path / "digests.json").exists()
    assert "grades: got 0, expected 1" in places(verify(path))
    carried_out(tmp_path, f"resume={path}")
    assert verify(path).holds, places(verify(path))


def test_resuming_a_finished_run_does_not_bless_what_was_changed(made, run, tmp_path):
    edited(run / "attempts.jsonl", lambda one: one["trajectory"].update(rationale="another"))
    config = json.loads((run / "manifest.json").read_text())["config"]
    cfg = compose(*SMALL, f"model.path={config['model']['path']}", f"run_root={config['run_root']}", f"resume={run}")
    finish(assemble(cfg), cfg)
    assert "attempts.jsonl" in places(verify(run))


def test_a_resumed_run_with_a_store_keeps_its_seal(tmp_path):
    path = carried_out(tmp_path, "store=sqlite", "recall=window_then_similar", "recall.min_score=0")
    before = (path / "digests.json").read_bytes()
    carried_out(tmp_path, "store=sqlite", "recall=window_then_similar", "recall.min_score=0", f"resume={path}")
    assert (path / "digests.json").read_bytes() == before
    assert verify(path).holds, places(verify(path))


def cut_off(run, **changed):
    """As a kill leaves it after the first task; its manifest names another program where `changed` says so."""
    for name, kept in {"attempts.jsonl": 2, "results.jsonl": 1, "grades.jsonl": 1}.items():
        lines = (run / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(lines[:kept]))
    for name in ("digests.json", "summary.json"):
        (run / name).unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["provenance"].update(changed.pop("provenance", {}))
    manifest["package_versions"].update(changed.pop("package_versions", {}))
    (run / "manifest.json").write_text(json.dumps({**manifest, **changed}))
    config = manifest["config"]
    return ["run", *SMALL, "workers=1", f"model.path={config['model']['path']}", f"run_root={config['run_root']}"]


def test_a_run_resumed_by_another_program_says_so_and_keeps_it(run, tmp_path, capsys):
    command = cut_off(
        run, provenance={"code_digest": "0" * 16}, package_versions={"msgspec": "0.1"}, isolation=["none"]
    )
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
    for command in (["show", str(run)], ["verify", str(run)], ["verify", str(packed)]):
        assert main(command) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert all(change in out for change in changes), out


def test_a_run_resumed_by_the_same_program_is_not_warned_of(run, capsys):
    command = cut_off(run)
    assert main([*command, f"resume={run}"]) == 0
    assert "resumed" not in capsys.readouterr().err
    assert main(["verify", str(run)]) == 0
    assert "nothing changed" in capsys.readouterr().out


def test_a_bundle_verifies_packed_unpacked_and_replayed(run, tmp_path):
    packed = pack(RunFolder.existing(run), tmp_path / "a.zip").path
    found = verify(packed, execute=True)
    assert found.holds, places(found)
    assert "members of the bundle" in found.findings[0].told
    _, members = read_bundle(packed)
    unpack(members, tmp_path / "there")
    assert verify(tmp_path / "there").holds
    again = replay(packed, tmp_path / "again").folder
    assert verify(again, execute=True).holds, places(verify(again))


def test_what_is_no_run_ends_with_2_and_says_so(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    (tmp_path / "manifest.json").write_text("{}")
    assert main(["verify", str(tmp_path)]) == 2
    (tmp_path / "some.zip").write_bytes(b"PK")
    assert main(["verify", str(tmp_path / "some.zip")]) == 2
    errors = capsys.readouterr().err
    assert "got no manifest.json, expected a run folder" in errors
    assert "Traceback" not in errors


def test_disagreements_end_with_1_and_a_line_each(run, capsys):
    edited(run / "results.jsonl", lambda one: one.update(submitted=2))
    assert main(["verify", str(run), "--json"]) == 1
    out = capsys.readouterr().out
    assert len(re.findall(r"^DISAGREES: ", out, re.MULTILINE)) == len(verify(run).disagreements)
    assert json.loads(out.splitlines()[-1])["agrees"] is False


def test_nothing_is_written_into_the_run(run):
    before = {path: path.stat().st_mtime_ns for path in run.iterdir()}
    verify(run, execute=True, sample=1)
    assert {path: path.stat().st_mtime_ns for path in run.iterdir()} == before
    assert Log.read(RunFolder.existing(run)).torn == 0
