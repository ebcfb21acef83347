"""A registered study: read strictly, known by its digest, kept by every run, and held against what was run."""

import functools
import hashlib
import json
import shutil
import subprocess
import sys

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.report.comparison import is_registered
from reflexion_lab.cli.main import main
from reflexion_lab.notebook.frames import load
from reflexion_lab.runner.config.assemble import manifest_of
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import ConfigError
from reflexion_lab.runner.folder import registration
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import config_digest
from reflexion_lab.runner.folder.registration import FILE, deviations, exploratory, of_runs, read, register, section
from tests.builders import scripted
from tests.studies.small_runs import run_lab

STUDY = """\
name: words of a script
hypotheses: [The script learns nothing.]
primary_metric: pass_at_1
other_metrics: [any_solved]
arms: {reflexion: arm=reflexion, reflexion recall.omega=0: arm=reflexion, retry: arm=retry}
baseline: retry
benchmark: basics
n_tasks: 2
seeds: [0, 1]
budget: {tokens: 1000000}
minimum_detectable_effect: 0.2
exclusions: []
stopping: after all runs
"""


BASE = ("benchmark.limit=2", "reflector=rules", "tracker=none", "quiet=true", "loop.max_attempts=1")
ARMS = {
    "reflexion": ["experiment=reflexion"], "reflexion recall.omega=0": ["experiment=reflexion", "recall.omega=0"],
    "retry": ["experiment=retry", "temperature=0.5"],
}  # fmt: skip


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "my-study.yaml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a script and two versions of the study: without and with the composed configs of its arms."""
    path = tmp_path_factory.mktemp("home")
    common = [*scripted(path), *BASE]
    manifests = {
        arm: [manifest_of(compose(*words, *common, f"seed={seed}")) for seed in (0, 1)] for arm, words in ARMS.items()
    }
    for name in ("named", "registered"):
        (path / name).mkdir()
        (path / name / "my-study.yaml").write_text(STUDY)
    register(path / "registered/my-study.yaml", section(manifests, at="2026-01-01T00:00:00Z", power=0.8))
    return path


@pytest.fixture
def registered(study, home):
    """The study with the composed configs of its arms."""
    study.write_text((home / "registered/my-study.yaml").read_text())
    return read(study)


def carry_out(home, runs, *overrides, study=None, before=lambda lab: None):
    """Carries out a small run and returns its folder; `before` gets the assembled lab."""
    studies = [f"study={study}"] if study else []
    script = ("model=scripted", f"model.path={home / 'script.json'}")
    return run_lab(compose(*script, f"run_root={runs}", *BASE, *studies, *overrides), before).folder


@pytest.fixture
def run(tmp_path, study, home):
    return functools.partial(carry_out, home, tmp_path / "runs", study=study)


@pytest.fixture(scope="module")
def run_of(home):
    """The run of an arm under the registered study, or the one that only names its arms. No test changes it."""

    @functools.cache
    def run(arm, seed=0, version="registered"):
        return carry_out(home, home / version, *ARMS[arm], f"seed={seed}", study=home / version / "my-study.yaml")

    return run


@pytest.fixture
def named(run_of, tmp_path):
    """A copy of the run of an arm that is only named."""
    run = run_of("reflexion", version="named")
    shutil.copytree(run.path, tmp_path / "runs" / run.path.name)
    return RunFolder(tmp_path / "runs" / run.path.name)


def test_digest_depends_on_content_not_on_the_file(study):
    digest = read(study).digest
    assert len(digest) == 16
    lines = STUDY.splitlines()
    for text, is_same in (
        ("# a comment\n" + "\n".join([*lines[3:], *lines[:3]]) + "\n", True),
        (STUDY.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"), False),
        *((f"{STUDY}{name}: {value}\n", True) for name, value in registration.EXTRA.items() if value not in ("", None)),
        (STUDY + "discordance: 0.3\n", False),
    ):
        study.write_text(text)
        assert (read(study).digest == digest) is is_same, text


def test_missing_study_begins_no_run(run, study, tmp_path):
    study.unlink()
    with pytest.raises(ValueError, match=r"my-study\.yaml': got no file, expected"):
        run()
    assert not list(tmp_path.glob("runs/*/manifest.json"))


def test_run_keeps_digest_and_copy_of_its_study_from_the_first_call(run, study, run_of):
    digests = []

    def watch(lab):
        complete = lab.model.complete
        lab.model.complete = lambda *call, **options: (
            digests.append(lab.folder.manifest.study_digest) or complete(*call, **options)
        )

    folder, unregistered = run(before=watch), run(study=None)
    assert set(digests) == {read(study).digest}
    assert folder.manifest.study == "words of a script"
    assert folder.manifest.study_digest == read(study).digest
    assert (folder.path / FILE).read_bytes() == study.read_bytes()
    assert unregistered.manifest.study_digest == ""
    assert unregistered.manifest.config_digest == folder.manifest.config_digest
    assert of_runs([unregistered.path], [unregistered.manifest]) is None


def test_a_resumed_run_belongs_to_the_same_study_or_is_refused(run, named, study):
    resume = (*ARMS["reflexion"], "seed=0", f"resume={named.path}")
    with pytest.raises(ConfigError, match="study_digest"):
        run(*resume, study=None)
    study.write_text(STUDY.replace("n_tasks: 2", "n_tasks: 3"))
    with pytest.raises(ConfigError, match="study_digest"):
        run(*resume)


def test_study_changed_between_two_cells_is_reported(run, named, study, capsys):
    study.write_text(STUDY.replace("after all runs", "whenever we like it"))
    second = run("seed=1")
    assert of_runs([named.path, second.path], [named.manifest, second.manifest]) is None
    assert any("another study or version" in reason for reason in deviations(read(study), named.manifest))
    assert main(["study", "check", str(study), str(named.path), str(second.path)]) == 1
    text = printed(capsys)
    assert "another study or version" in text
    assert "0 registered and 2 exploratory runs" in text


def test_deviating_run_gets_a_warning_and_no_study_in_tables(run, registered, run_of):
    with pytest.warns(RuntimeWarning) as warned:
        run("experiment=retry", "temperature=0.7", "loop.max_attempts=2", "seed=1")
    messages = [str(warning.message) for warning in warned]
    for key in ("temperature is 0.7, registered was 0.5", "loop.max_attempts is 2, registered was 1"):
        assert f"study words of a script: {key}; the run is exploratory" in messages
    runs = [run_of("retry"), run(*ARMS["retry"], "temperature=0.9", "arm=warmer")]
    assert [arm.study for arm in arms(runs)] == ["words of a script", ""]
    assert list(load(*(folder.path for folder in runs)).runs["study"]) == ["words of a script", ""]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seed": 7}, "seed 7 was not registered"),
        ({"n_expected": 1}, "n_tasks is 1, registered was 2"),
        ({"benchmark": "humaneval"}, "benchmark is humaneval, registered was basics"),
        ({"benchmark_digest": "f" * 64}, "digest of tasks is ffff"),
        ({"model_fingerprint": "another"}, "fingerprint of actor is another, registered was scripted:"),
        ({"role_fingerprints": {"critic": "strong"}}, "fingerprint of critic is strong, registered was no such key"),
        ({"study_digest": ""}, "it began without a registered study"),
        ({"config": {"arm": "simple"}}, "arm simple was not registered"),
        ({"prompt_digests": {"memory": "0123"}}, "prompt template memory is 0123, registered was "),
    ],
)  # fmt: skip
def test_each_deviation_of_a_run_is_named(run_of, registered, change, expected):
    manifest = run_of("retry").manifest
    if "prompt_digests" in change:
        change = {"prompt_digests": manifest.prompt_digests | change["prompt_digests"]}
    (reason,) = deviations(registered, replace(manifest, **change))
    assert expected in reason


def test_templates_and_the_policy_of_a_chain_that_came_later_are_no_deviation(run_of, registered):
    manifest = run_of("retry").manifest
    config = {key: value for key, value in manifest.config.items() if key != "policy"}
    later = replace(manifest, prompt_digests=manifest.prompt_digests | {"a_later_one": "0123"}, config=config)
    assert config != manifest.config
    assert deviations(registered, later) == []
    assert config_digest(config) == config_digest(manifest.config)
    tree = {"_target_": "reflexion_lab.loop.policy.Independent"}
    (reason,) = deviations(registered, replace(manifest, config={**config, "policy": tree}))
    assert reason == "policy._target_ is reflexion_lab.loop.policy.Independent, registered was no such key"


def test_all_settings_of_a_model_are_registered_but_the_place_of_its_file(run_of, registered):
    manifest = run_of("retry").manifest

    def with_model(**fields):
        return replace(manifest, config={**manifest.config, "model": {**manifest.config["model"], **fields}})

    assert deviations(registered, with_model(path="moved.json")) == []
    assert deviations(registered, with_model(slots=3)) == ["model.slots is 3, registered was 64"]


@pytest.mark.filterwarnings("error:study")
@pytest.mark.slow
def test_what_was_not_registered_is_exploratory(run_of, registered):
    arms = {arm: [run_of(arm, seed).manifest for seed in (0, 1)] for arm in ARMS}
    for arm, manifests in arms.items():
        for manifest in manifests:
            assert (registered.arm_of(manifest), deviations(registered, manifest)) == (arm, [])
    words, retry = arms["reflexion"], arms["retry"]
    assert exploratory(registered, "pass_at_1", words, retry) == []
    assert exploratory(registered, "any_solved", words, retry) == []
    assert exploratory(registered, "pass_at_1", words, words) == []
    assert exploratory(None, "pass_at_1", words, retry) == ["the study is not at hand: cases hold no configs"]
    unregistered = [replace(manifest, study="") for manifest in words]
    assert exploratory(None, "pass_at_1", unregistered, unregistered) == ["no study was registered"]
    for message, (metric, runs, base) in {
        "metric damage": ("damage", words, retry),
        "compared with reflexion recall.omega=0, registered was retry": (
            "pass_at_1", words, arms["reflexion recall.omega=0"]
        ),
        "registered seed 1": ("pass_at_1", words[:1], retry),
        "n_tasks is 1, registered was 2": ("pass_at_1", [replace(words[0], n_expected=1), words[1]], retry),
    }.items():  # fmt: skip
        (reason,) = exploratory(registered, metric, runs, base)
        assert message in reason


def test_an_arm_without_a_difference_is_not_registered(run_of, registered):
    both = arms([run_of("retry"), run_of("reflexion", 1)])  # without a case in common
    base, refused = compare(both, "retry", study=registered).rows
    assert refused.refused
    assert (is_registered(base), is_registered(refused)) == (True, False)


def test_a_run_of_a_study_without_registered_configs_is_exploratory_and_a_changed_copy_refused(named, study):
    assert deviations(read(study), named.manifest) == ["the study holds no registered config"]
    (named.path / FILE).write_text(STUDY.replace("n_tasks: 2", "n_tasks: 3"))
    with pytest.raises(ValueError, match="put the registered file back"):
        of_runs([named.path], [named.manifest])


def test_check_prints_missing_runs(registered, study, run_of, capsys):
    assert main(["study", "check", str(study), str(run_of("reflexion").path)]) == 0
    out = printed(capsys)
    assert "arm reflexion: no run of seed 1" in out
    assert "arm retry: no run of seed 0, 1" in out
    assert "of 1,000,000" in out
    assert read(study).digest in out


def test_the_shards_of_a_run_are_registered_together(study, registered, home, tmp_path, capsys, recwarn):
    first, second = (
        str(carry_out(home, tmp_path, *ARMS["reflexion"], f"benchmark.shard={shard}", study=study).path)
        for shard in ("0/2", "1/2")
    )
    assert not [str(warning.message) for warning in recwarn if "exploratory" in str(warning.message)]
    assert main(["study", "check", str(study), second, first]) == 0
    assert "registered: reflexion, seed 0" in printed(capsys)
    assert main(["study", "check", str(study), second]) == 1
    assert "n_tasks is 1, registered was 2" in printed(capsys)


def test_check_refuses_an_effect_that_the_design_cannot_detect(study, capsys):
    assert main(["study", "check", str(study)]) == 0  # a study alone
    sized = STUDY.replace("n_tasks: 2", "n_tasks: 40") + "discordance: 0.3\n"
    study.write_text(sized)
    assert main(["study", "check", str(study)]) == 1
    assert "simulated studies, Wilson 95 %) detect that effect; REFUSED: 80 % or more expected" in printed(capsys)
    study.write_text(sized.replace("n_tasks: 40", "n_tasks: 120"))
    assert main(["study", "check", str(study)]) == 0
    assert "REFUSED" not in capsys.readouterr().out


SMALL = """\
name: eight tasks
hypotheses: [The simulated model learns.]
primary_metric: pass_at_1
shared: model=simulated actor=single_shot benchmark.load.n=8 temperature=0.8 tracker=none quiet=true
arms:
  retry: experiment=retry
  words: experiment=reflexion recall.omega=2
baseline: retry
benchmark: basics
n_tasks: 8
seeds: [0, 1]
budget: {calls: 1000}
minimum_detectable_effect: 1.0
discordance: 1.0
exclusions: []
stopping: after all runs
"""


HOSTED = "model=openai/gpt-4o-mini"
SHARED = SMALL.partition("shared: ")[2].partition("\n")[0].split()


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def printed(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_study_is_registered_run_and_checked(small, capsys):
    small.write_text(f"{SMALL}equivalence_margin: 0.9\n")
    assert main(["study", "register", "small.yaml"]) == 0
    text = printed(capsys)
    assert "registered: eight tasks, digest" in text and "show a true difference of 0 to lie within 90 points" in text
    assert small.read_text().startswith(SMALL)
    assert main(["study", "run", "small.yaml", "workers=2"]) == 0
    runs = sorted(map(str, (small.parent / "runs").glob("2*")))
    capsys.readouterr()
    assert main(["study", "check", "small.yaml", *runs]) == 0
    assert "4 registered and 0 exploratory runs, nothing is missing" in printed(capsys)
    assert main(["compare", *runs, "--full"]) == 0
    assert "registered: eight tasks" in printed(capsys)
    base = ["--baseline", "retry recall.omega=0", "--by", "recall.omega"]
    assert main(["compare", *runs, *base, "--json"]) == 0
    comparison = json.loads(capsys.readouterr().out)
    assert comparison["baseline"] == "retry recall.omega=0"
    assert [line["exploratory"] for line in comparison["lines"] if line.get("budget") == "as_run"] == [
        False
    ]  # by config


def test_a_study_of_a_hosted_model_is_registered_without_a_key(small, capsys, monkeypatch):
    """By address and name; a run has what the server answers besides, and another model is a deviation."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    small.write_text(SMALL.replace("model=simulated", HOSTED))
    assert main(["study", "register", "small.yaml"]) == 0
    assert (
        "OPENAI_API_KEY is not set" in (warning := capsys.readouterr().err) and "without asking the server" in warning
    )
    study, name = read(small), "openai:https://api.openai.com/v1:gpt-4o-mini"
    assert study.registered.config["fingerprint of actor"] == f"{name}=unasked"
    run = manifest_of(compose(*SHARED, HOSTED, "experiment=retry", "seed=0"), is_asked=False)
    run = replace(run, study_digest=study.digest, study=study.name)
    others = (f"{name}-2024-07-18", f"{name}=other-model:response_format")  # the second answers in its place
    for fingerprint, is_same in ((name, True), (f"{name}=response_format", True), *((each, False) for each in others)):
        differs = deviations(study, replace(run, model_fingerprint=fingerprint))
        assert [*differs] == [] if is_same else "fingerprint of actor" in differs[0], fingerprint


OWN = "from reflexion_lab.agent.actors.single_shot import SingleShot\n\n\nclass Own(SingleShot):\n    pass\n"


@pytest.mark.slow
@pytest.mark.soak
def test_changed_sources_pools_and_stores_are_deviations(small, capsys, monkeypatch):
    monkeypatch.syspath_prepend(small.parent)
    part = small.parent / "registered_part.py"
    part.write_text(OWN)
    inputs = "store=sqlite actor._target_=registered_part.Own model.first=0.3"
    text = SMALL.replace("temperature=0.8", f"temperature=0.8 {inputs}")
    shuffled = "experiment=reflexion_shuffled recall.omega=2"
    small.write_text(text.replace("baseline:", f"  shuffled: {shuffled}\nbaseline:"))
    shared = text.partition("shared: ")[2].partition("\n")[0].split()
    assert main(["study", "register", "small.yaml"]) == 0
    assert main(["study", "run", "small.yaml", "workers=2"]) == 0
    runs = sorted(small.parent.glob("runs/2*"))
    capsys.readouterr()
    assert main(["study", "check", "small.yaml", *map(str, runs)]) == 0
    assert "6 registered and 0 exploratory runs, nothing is missing" in printed(capsys)
    pilot = next(run for run in runs if "-reflexion-basics-s1" in run.name)
    part.write_text(OWN + "\n\n# changed\n")
    del sys.modules["registered_part"]  # as in a new process
    pool = f"reflector.pool=[{pilot}]"
    main(["run", *shared, *shuffled.split(), pool, "run_root=again", "study=small.yaml"])
    main(["run", *shared, *shuffled.split(), pool, "run_root=again", "study=small.yaml"])
    capsys.readouterr()
    others = sorted(small.parent.glob("again/2*"))
    assert main(["study", "check", "small.yaml", *map(str, others)]) == 1
    text = printed(capsys)
    assert text.count("sources of user-defined parts is {'registered_part': '") == 2
    assert text.count("store at the start is filled, registered was empty") == 1
    main(["run", *shared, *shuffled.split(), "experiment=reflexion", "run_root=pilots"])
    (other,) = small.parent.glob("pilots/2*")
    main(["run", *shared, *shuffled.split(), f"reflector.pool=[{other}]", "run_root=last", "study=small.yaml"])
    (last,) = small.parent.glob("last/2*")
    reasons = deviations(read(small), RunFolder.existing(last).manifest)
    assert [reason for reason in reasons if reason.startswith("reflections read is {'")]


@pytest.mark.slow
def test_a_donor_that_is_there_is_registered_with_its_digest(small, capsys):
    main(["run", *SHARED, "experiment=reflexion", "model.first=0", "run_root=pilots"])
    (pilot,) = small.parent.glob("pilots/2*")
    words = f"experiment=reflexion_shuffled reflector.pool=[{pilot}]"
    small.write_text(SMALL.replace("experiment=reflexion recall.omega=2", words).replace("seeds: [0, 1]", "seeds: [0]"))
    assert main(["study", "register", "small.yaml"]) == 0
    assert main(["study", "run", "small.yaml"]) == 0
    runs = sorted(map(str, small.parent.glob("runs/2*")))
    assert main(["study", "check", "small.yaml", *runs]) == 0
    attempts = pilot / "attempts.jsonl"
    attempts.write_text(attempts.read_text() + "\n")
    donor = {pilot.name: hashlib.sha256(attempts.read_bytes()).hexdigest()[:16]}
    main(["run", *SHARED, *words.split(), "run_root=again", "study=small.yaml"])
    (again,) = small.parent.glob("again/2*")
    (reason,) = deviations(read(small), RunFolder.existing(again).manifest)
    assert reason.startswith(f"reflections read is {donor}, registered was {{'{pilot.name}': '")


@pytest.mark.slow
def test_the_run_root_by_another_name_stands_for_runs_of_the_study(small):
    main(["run", *SHARED, "experiment=reflexion", "model.first=0"])  # a run of before
    runs = small.parent / "runs"
    for pool in (runs, f"[{runs}]", "runs/../runs"):
        own = ("experiment=reflexion_shuffled", f"reflector.pool={pool}")
        origin = manifest_of(compose(*SHARED, "model.first=0", *own)).provenance
        assert (origin.pool_origin, origin.pool) == (registration.OF_STUDY, {}), pool


@pytest.mark.slow
def test_a_kept_replay_of_a_registered_run_is_registered(small, capsys):
    weak = SMALL.replace("recall.omega=2", "recall.omega=2 model.first=0.1").replace("shared:", "shared: store=sqlite")
    small.write_text(weak.replace("seeds: [0, 1]", "seeds: [0]"))
    main(["study", "register", "small.yaml"])
    assert main(["study", "run", "small.yaml", "workers=2"]) == 0
    runs = (RunFolder.existing(path) for path in sorted(small.parent.glob("runs/2*")))
    run = next(run for run in runs if run.manifest.config["model"]["first"] == 0.1)
    assert main(["bundle", str(run.path), "--out", "weak.zip"]) == 0
    assert main(["replay", "weak.zip", "--out", "again"]) == 0
    (again,) = small.parent.glob("again/2*")
    capsys.readouterr()
    main(["study", "check", "small.yaml", str(again)])
    assert "1 registered and 0 exploratory runs" in printed(capsys)
    manifest, registration = RunFolder.existing(again).manifest, read(small)
    (reason, *_) = deviations(registration, replace(manifest, config={**manifest.config, "temperature": 0.1}))
    assert reason == "temperature is 0.1, registered was 0.8"
    (reason,) = deviations(registration, replace(manifest, model_fingerprint="another"))
    assert reason.startswith("fingerprint of actor is another, registered was simulated:")


@pytest.mark.parametrize(("before", "after", "message"), [
    ("discordance: 1.0\n", "", "discordance: got 0"),
    ("effect: 1.0", "effect: 0.2", "n_tasks: got a design that detects 20 points in"),
    ("discordance", "clusters: 5\ndiscordance", "(5 clusters cannot show a difference: at least 6 are needed)"),
    ("n_tasks: 8", "n_tasks: 9", "arms.retry: n_tasks: got 8, expected 9"),
    (SMALL.partition("arms:")[2].partition("baseline")[0], " [retry, words]\n", "arms"),
    ("experiment=retry\n", "experiment=retry seed=0\n", "arms.retry: got seed=0"),
    ("recall.omega=2", "recall.omega=1,2", "recall.omega=1,2"),
    ("recall.omega=2", "recall.omga=2", "did you mean 'recall.omega'"),
])  # fmt: skip
@pytest.mark.slow
def test_a_study_that_cannot_be_registered_stays_as_it_is(small, capsys, before, after, message):
    small.write_text(SMALL.replace(before, after))
    text = small.read_text()
    assert main(["study", "register", "small.yaml"]) == 2
    assert message in capsys.readouterr().err
    assert small.read_text() == text


def test_a_study_is_registered_once(small, registered, study, capsys):
    assert main(["study", "register", str(study)]) == 2
    assert "registered at 2026-01-01T00:00:00Z" in capsys.readouterr().err
    assert main(["study", "run", str(small)]) == 2
    assert "got no registered configs" in capsys.readouterr().err


def test_the_digest_covers_the_configs_and_not_the_time(registered):
    part = registered.registered
    assert replace(registered, registered=replace(part, at="later")).digest == registered.digest
    retry = replace(part.arms["retry"], config={})
    for changed in (
        replace(part, config=part.config | {"temperature": 0.1}),
        replace(part, arms=part.arms | {"retry": retry}),
    ):
        assert replace(registered, registered=changed).digest != registered.digest


def test_a_key_that_only_later_seeds_have_is_registered(study, run_of):
    first, second = (run_of("retry", seed).manifest for seed in (0, 1))
    with_critic = {"role_fingerprints": {"critic": "strong"}}
    study.write_text(STUDY.replace("reflexion: arm=reflexion, reflexion recall.omega=0: arm=reflexion, ", ""))
    register(study, section({"retry": [first, replace(second, **with_critic)]}, at="2026-01-01T00:00:00Z", power=0.8))
    runs = [replace(manifest, study_digest=read(study).digest) for manifest in (first, second)]
    assert deviations(read(study), runs[0]) == []
    assert deviations(read(study), replace(runs[1], **with_critic)) == []
    (reason,) = deviations(read(study), runs[1])
    assert reason == "fingerprint of critic is missing, registered was strong"
    (reason,) = deviations(read(study), replace(runs[0], **with_critic))
    assert reason == "fingerprint of critic is strong, registered was no such key"


AS_JSON = json.dumps(msgspec.yaml.decode(STUDY))


@pytest.mark.parametrize("form", [f"---\n{STUDY}", STUDY.replace("\n", "\r\n"), "\ufeff" + STUDY])
def test_a_study_in_any_form_of_yaml_is_registered(study, registered, form):
    study.write_bytes(form.encode())
    before = read(study)
    assert register(study, registered.registered) == read(study)
    assert replace(read(study), registered=None) == before


@pytest.mark.parametrize("form", [AS_JSON, f"--- {AS_JSON}", "  " + STUDY.replace("\n", "\n  ")])
def test_a_file_to_which_nothing_can_be_appended_stays_as_it_is(study, registered, form):
    study.write_text(form)
    with pytest.raises(ValueError, match="a form to which nothing can be added"):
        register(study, registered.registered)
    assert study.read_text() == form


def test_a_section_of_other_arms_or_seeds_is_refused(study, registered):
    text = study.read_text()
    retry = replace(registered.registered.arms["retry"], by_seed={"benchmark.load.seed": (0, 1, 2)})
    arms = {**registered.registered.arms, "retry": retry}
    with pytest.raises(ValueError, match="registered: got values of"):
        replace(registered, registered=replace(registered.registered, arms=arms))
    study.write_text(text.replace("arms: {reflexion: arm=reflexion, ", "arms: {"))
    with pytest.raises(ValueError, match=r"registered\.arms: got"):
        read(study)


def test_check_prints_commit_tag_and_time_stamp_of_the_file(study, capsys):
    git = ["git", "-C", str(study.parent), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", study.name], ["commit", "-qm", "study"], ["tag", "registered-1"]):
        subprocess.run([*git, *words], check=True)
    main(["study", "check", str(study)])
    text = printed(capsys)
    assert "committed" in text
    assert "tag registered-1" in text
    (study.parent / f"{study.name}.tsr").write_bytes(b"DER " + hashlib.sha256(study.read_bytes()).digest())
    main(["study", "check", str(study)])
    assert "time stamp my-study.yaml.tsr: of this file" in printed(capsys)
    study.write_text(study.read_text() + "# more\n")
    main(["study", "check", str(study)])
    text = printed(capsys)
    assert "it was changed since" in text
    assert "my-study.yaml.tsr: OF ANOTHER FILE" in text
