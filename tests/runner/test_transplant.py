"""Transplanted words, and a reflector with its own model: two different simulated models in one loop."""

import msgspec
import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.pool import Transplant
from reflexion_lab.studies.run import finish
from tests import builders as make

SMALL = (
    "benchmark=basics", "benchmark.load.n=6", "loop.max_attempts=2", "actor=single_shot", "tracker=none", "quiet=true",
    "cache.mode=off",
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Runs a config; returns the run's folder."""

    def run(*overrides, base=SMALL):
        cfg = compose(*base, f"run_root={tmp_path / 'runs'}", *overrides)
        lab = assemble(cfg)
        finish(lab, cfg)
        return lab.folder

    return run


def firsts(folder):
    return {attempt.task_id: attempt for attempt in Log.read(folder).every if attempt.number == 1}


@pytest.mark.slow
def test_only_the_words_reach_the_other_model(run):
    donor = run("experiment=reflexion", "model=simulated", "model.first=0.4")
    folder = run(
        "reflector=transplant", f"reflector.pool=[{donor.path}]", "arm=transplant", "model=simulated_student",
        "model.first=0.2", "model.seed=3",
    )  # fmt: skip
    given, failed = firsts(donor), {name: each for name, each in firsts(folder).items() if not each.evaluation.passed}
    with_words = {name for name in failed if not given[name].evaluation.passed}
    assert with_words
    assert with_words < set(failed)
    for attempt in Log.read(folder).every:
        if attempt.number == 2:
            words, prompt = given[attempt.task_id].reflection, attempt.trajectory.messages[-1].content
            assert (words is not None and words.what_to_change in prompt) == (attempt.task_id in with_words)
            assert given[attempt.task_id].trajectory.solution.strip() not in prompt or not words
            assert attempt.reflection is None
    assert {failed[name].reflection.source for name in with_words} == {"control:transplant"}
    assert donor.manifest.run_id in folder.manifest.provenance.pool
    assert not folder.manifest.is_upper_bound


@pytest.mark.slow
def test_a_donor_must_be_one_run_on_the_same_tasks_without_solutions(run, tmp_path):
    donor = run("experiment=reflexion", "model=simulated", "model.first=0.2", "benchmark.load.n=3")
    transplant = ("reflector=transplant", "arm=transplant", "model=simulated", "model.first=0")
    with pytest.raises(ConfigError, match="got 0 runs of seed 0"):
        Transplant(())
    with pytest.raises(ConfigError, match="other tasks in"):
        run(*transplant, f"reflector.pool=[{donor.path}]")
    bound = run("experiment=oracle_words", "model=simulated", "model.first=0")
    with pytest.raises(ConfigError, match="shown canonical solutions"):
        run(*transplant, f"reflector.pool=[{bound.path}]")


@pytest.mark.slow
def test_a_donor_with_other_tasks_under_the_same_ids_is_refused(run, tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    test = "assert twice(2) == {}"
    row = {
        "task_id": "t/1",
        "prompt": "def twice(x):\n",
        "entry_point": "twice",
        "canonical_solution": "    return 0\n",
    }
    own = ("benchmark=jsonl", f"benchmark.load.path={tasks}", "benchmark.keep_failing=true", "model=simulated")

    def write(result):
        tests = {name: [test.format(result)] for name in ("visible_tests", "hidden_tests")}
        tasks.write_bytes(msgspec.json.encode({**row, **tests}) + b"\n")

    plain = SMALL[2:]
    write(4)
    donor = run("experiment=reflexion", *own, "model.first=0", base=plain)
    transplant = ("reflector=transplant", f"reflector.pool=[{donor.path}]", "arm=transplant", *own, "model.first=0")
    digests = [donor.manifest.benchmark_digest, run(*transplant, base=plain).manifest.benchmark_digest]
    assert digests[0] == digests[1]
    write(5)
    with pytest.raises(
        ConfigError, match=f"other tasks in .*, digest {digests[0]}, expected those of this run, "
    ) as caught:
        run(*transplant, base=plain)
    digest = str(caught.value).rpartition(" ")[2]
    assert digest == run("experiment=reflexion", *own, "model.first=0", base=plain).manifest.benchmark_digest


@pytest.mark.slow
def test_the_donor_may_be_another_models_run_in_a_folder_of_runs(run, tmp_path):
    donor = run("experiment=reflexion", "model=simulated", "model.first=0")
    own = ("arm=transplant", "model=simulated_student", "model.first=0", "reflector=transplant")
    folder = run(*own, f"reflector.pool={tmp_path / 'runs'}")
    assert list(folder.manifest.provenance.pool) == [donor.manifest.run_id]
    assert any(attempt.reflection for attempt in firsts(folder).values())
    with pytest.raises(ConfigError, match="has another model_fingerprint"):
        run("experiment=reflexion_shuffled", "model=simulated_student", "model.first=0")
    run("experiment=reflexion", "model=simulated_student", "model.first=0")
    with pytest.raises(ConfigError, match=r"with runs of .*, expected one donor"):
        run(*own, f"reflector.pool={tmp_path / 'runs'}")


def test_one_of_several_donors_is_chosen_by_the_seed(run):
    donors = [run("experiment=reflexion", "model=simulated", "model.first=0", f"seed={seed}") for seed in (0, 1)]
    chosen = [Transplant([donor.path for donor in donors], seed).donor.name for seed in (0, 1)]
    assert chosen == [donor.path.name for donor in donors]
    with pytest.raises(ConfigError, match="got 0 runs of seed 7"):
        Transplant([donor.path for donor in donors], 7)


def test_a_strong_reflector_writes_the_words_of_a_weak_actor(run):
    folder = run(
        "experiment=reflexion", "arm=strong_reflector", "model=simulated_student", "model.first=0",
        "model@roles.reflector=simulated", "roles.reflector.first=1",
    )  # fmt: skip
    manifest = folder.manifest
    assert set(manifest.role_fingerprints) == {"reflector"}
    assert manifest.role_fingerprints["reflector"] != manifest.model_fingerprint
    reflections = [attempt.reflection for attempt in Log.read(folder).every if attempt.reflection]
    assert {reflection.source for reflection in reflections} == {"llm"}
    assert all(make.reflection().usage.calls < reflection.usage.calls for reflection in reflections)
