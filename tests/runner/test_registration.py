"""A registered study: read strictly, known by its digest, kept by every run, and held against what was run."""

import json

import pytest
from msgspec.structs import replace

from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.config.parts import ConfigError
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.registration import FILE, deviations, exploratory, of_runs, read
from tests.builders import scripted

STUDY = """\
name: words of a script
hypotheses: [The script learns nothing.]
primary_metric: pass_at_1
other_metrics: [any_solved]
arms: [reflexion, reflexion recall.omega=0, retry]
baseline: retry
benchmark: basics
n_tasks: 2
seeds: [0, 1]
budget: {tokens: 1000000}
minimum_detectable_effect: 0.2
exclusions: []
stopping: after all runs
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "my-study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture
def run(tmp_path, study):
    """Carries out a small run and returns its folder; `before` gets the assembled lab."""
    base = ["benchmark.limit=2", "reflector=rules", "tracker=none", "quiet=true", "loop.max_attempts=1"]

    def carry_out(*overrides, registered=True, before=lambda lab: None):
        studies = [f"study={study}"] if registered else []
        lab = assemble(compose(*scripted(tmp_path), f"run_root={tmp_path / 'runs'}", *base, *studies, *overrides))
        before(lab)
        try:
            lab.runner.run()
        finally:
            lab.close()
        return lab.folder

    return carry_out


def test_the_digest_is_that_of_the_content_not_of_the_file(study):
    digest = read(study).digest
    lines = STUDY.splitlines()
    study.write_text("# a comment\n" + "\n".join([*lines[3:], *lines[:3]]) + "\n")
    assert read(study).digest == digest
    assert len(digest) == 16
    study.write_text(STUDY.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))
    assert read(study).digest != digest


@pytest.mark.parametrize(
    ("line", "changed", "message"),
    [
        ("primary_metric: pass_at_1\n", "", "primary_metric"),
        ("n_tasks: 2", "n_tasks: two", "n_tasks"),
        ("n_tasks: 2", "n_tasks: 0", "n_tasks: got 0"),
        ("seeds: [0, 1]", "seeds: [0, 0]", "seeds"),
        ("baseline: retry", "baseline: simple", "baseline: got simple, expected one of reflexion"),
        ("budget: {tokens: 1000000}", "budget: {}", "budget"),
        (
            "minimum_detectable_effect: 0.2",
            "minimum_detectable_effect: 20",
            "minimum_detectable_effect: got 20.0, expected a difference in (0, 1]",
        ),
        (
            "exclusions: []",
            "exclusions: []\nequivalence_margin: 10",
            "equivalence_margin: got 10.0, expected 0 for none",
        ),
        ("stopping: after all runs", "stopping: after all runs\nhypothesis: x", "hypothesis"),
        ("hypotheses: [The script learns nothing.]", "hypotheses: []", "hypotheses"),
        ("name:", "name: [", "study"),
    ],
)
def test_a_mistake_in_a_study_is_named_with_the_file(study, line, changed, message):
    study.write_text(STUDY.replace(line, changed))
    with pytest.raises(ValueError, match=r"my-study\.yaml") as caught:
        read(study)
    assert message in str(caught.value)


def test_a_study_that_is_not_there_begins_no_run(run, study, tmp_path):
    study.unlink()
    with pytest.raises(ValueError, match=r"my-study\.yaml': got no file, expected"):
        run()
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").glob("*/manifest.json"))


def test_a_run_keeps_the_digest_and_a_copy_of_its_study(run, study):
    folder, unregistered = run(), run(registered=False)
    assert folder.manifest.study == "words of a script"
    assert folder.manifest.study_digest == read(study).digest
    assert (folder.path / FILE).read_bytes() == study.read_bytes()
    assert unregistered.manifest.study_digest == ""
    assert unregistered.manifest.config_digest == folder.manifest.config_digest


def test_the_file_is_read_before_the_first_call(study, run):
    digests = []

    def watch(lab):
        complete = lab.model.complete
        lab.model.complete = lambda *call, **options: (
            digests.append(lab.folder.manifest.study_digest) or complete(*call, **options)
        )

    run(before=watch)
    assert set(digests) == {read(study).digest}


@pytest.mark.parametrize("change", ["changed", "left out"])
def test_a_resumed_run_belongs_to_the_same_study_or_is_refused(run, study, change):
    folder = run()
    if change == "changed":
        study.write_text(STUDY.replace("n_tasks: 2", "n_tasks: 3"))
    with pytest.raises(ConfigError, match="study_digest"):
        run(f"resume={folder.path}", registered=change == "changed")


def test_a_file_that_changes_between_two_cells_is_seen(run, study, capsys):
    first = run()
    study.write_text(STUDY.replace("after all runs", "whenever we like it"))
    second = run("seed=1")
    assert of_runs([first.path, second.path], [first.manifest, second.manifest]) is None
    (reason,) = deviations(read(study), first.manifest)
    assert "another study or version" in reason
    assert main(["study", "check", str(study), str(first.path), str(second.path)]) == 1
    assert "another study or version" in " ".join(capsys.readouterr().out.split())


def test_a_copy_that_was_changed_afterwards_is_refused(run):
    folder = run()
    (folder.path / FILE).write_text(STUDY.replace("n_tasks: 2", "n_tasks: 3"))
    with pytest.raises(ValueError, match="put the registered file back"):
        of_runs([folder.path], [folder.manifest])


def test_a_run_outside_of_what_was_registered_is_warned_of(run):
    with pytest.warns(RuntimeWarning, match="seed 7 was not registered; the run is exploratory"):
        run("seed=7")


def test_what_was_not_registered_is_exploratory(run, study):
    registered = read(study)
    runs = [run(f"seed={seed}").manifest for seed in (0, 1)]
    assert exploratory(registered, "reflexion", "pass_at_1", baseline="retry", runs=runs) == []
    assert exploratory(registered, "reflexion", "any_solved", baseline="retry", runs=runs) == []
    assert exploratory(None, "reflexion", "pass_at_1") == ["no study was registered"]
    for message, reasons in {
        "arm simple": exploratory(registered, "simple", "pass_at_1"),
        "arm reflexion recall.omega=5": exploratory(registered, "reflexion recall.omega=5", "pass_at_1"),
        "metric damage": exploratory(registered, "reflexion", "damage"),
        "registered was retry": exploratory(registered, "reflexion", "pass_at_1", baseline="simple"),
        "registered seed 1": exploratory(registered, "reflexion", "pass_at_1", runs=runs[:1]),
        "n_tasks is 1, registered was 2": exploratory(
            registered, "reflexion", "pass_at_1", runs=[replace(runs[0], n_expected=1), runs[1]]
        ),
        "without a registered study": exploratory(
            registered, "reflexion", "pass_at_1", runs=[replace(runs[0], study_digest=""), runs[1]]
        ),
    }.items():
        assert len(reasons) == 1
        assert message in reasons[0]


def test_a_run_belongs_to_the_arm_that_says_most_of_it(study):
    registered = read(study)
    assert registered.arm_of({"arm": "reflexion", "recall": {"omega": 0}}) == "reflexion recall.omega=0"
    assert registered.arm_of({"arm": "reflexion", "recall": {"omega": 1}}) == "reflexion"
    assert registered.arm_of({"arm": "simple"}) == ""


def test_check_says_what_is_missing(run, study, capsys):
    folder = run()
    assert main(["study", "check", str(study), str(folder.path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "arm reflexion: no run of seed 1" in out
    assert "arm retry: no run of seed 0, 1" in out
    assert "of 1,000,000" in out
    assert read(study).digest in out


def test_check_reads_a_study_alone_and_names_its_mistake(study, capsys):
    assert main(["study", "check", str(study)]) == 0
    study.write_text(STUDY.replace("n_tasks: 2", "n_tasks: 0"))
    assert main(["study", "check", str(study)]) == 2
    assert "n_tasks: got 0" in capsys.readouterr().err


def test_check_refuses_an_effect_that_the_design_cannot_detect(study, capsys):
    sized = STUDY.replace("n_tasks: 2", "n_tasks: 40") + "discordance: 0.3\n"
    study.write_text(sized)
    assert main(["study", "check", str(study)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "simulated studies, Wilson 95 %) detect that effect; REFUSED: 80 % or more expected" in printed
    study.write_text(sized.replace("n_tasks: 40", "n_tasks: 120"))
    assert main(["study", "check", str(study)]) == 0
    assert "REFUSED" not in capsys.readouterr().out


def test_fields_of_the_power_change_no_digest_of_a_study_without_them(study):
    digest = read(study).digest
    study.write_text(STUDY + "discordance: 0.0\nagreement: 0.5\n")
    assert read(study).digest == digest
    study.write_text(STUDY + "discordance: 0.3\n")
    assert read(study).digest != digest


@pytest.mark.parametrize(
    ("field", "message"),
    [("discordance: 0.1", r"discordance: got 0.1, expected 0 for unknown, or one in \[0.2, 1\]"),
     ("agreement: 2", "agreement: got 2.0, expected a share of tasks")],
)  # fmt: skip
def test_an_impossible_field_of_the_power_is_named(study, field, message):
    study.write_text(f"{STUDY}{field}\n")
    with pytest.raises(ValueError, match=message):
        read(study)


def test_a_manifest_without_a_study_reads_as_before(tmp_path, run):
    folder = run(registered=False)
    fields = json.loads((folder.path / "manifest.json").read_text())
    del fields["study"], fields["study_digest"]
    (folder.path / "manifest.json").write_text(json.dumps(fields))
    assert RunFolder.existing(folder.path).manifest.study_digest == ""
    assert registration.of_runs([folder.path], [folder.manifest]) is None


def test_an_arm_is_registered_by_a_list_or_a_number(study):
    study.write_text(
        STUDY.replace("retry]", "retry, 'retry temperature=0', 'reflexion quality.severe=[short, generic]']")
    )
    registered = read(study)
    lists = {"arm": "reflexion", "quality": {"severe": ["short", "generic"]}, "recall": {"omega": 1}}
    assert registered.arm_of(lists) == "reflexion quality.severe=[short, generic]"
    assert registered.arm_of({"arm": "retry", "temperature": 0.0}) == "retry temperature=0"
    label = "reflexion quality.severe=['short', 'generic']"  # as tables name it
    assert exploratory(registered, label, "pass_at_1") == []
