"""Every policy: shared first attempts, paths in prompts, the same tree after a kill and with any number of workers."""

import functools
import json

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.errors import CapReached, ConfigError
from reflexion_lab.loop.policy import is_tree, path_to
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.run import carry_out
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from tests.builders import canonical_bytes

POLICIES = ("chain", "independent", "repair_tree", "best_first", "tree_search")
SMALL = (
    "model=simulated", "model.first=0.3", "actor=single_shot", "benchmark.load.n=6", "tracker=none", "quiet=true",
    "sandbox.servers=1", "temperature=0.8", "loop.max_attempts=7", "loop.stuck_after=null", "recall.omega=all",
)  # fmt: skip


def overrides(root, policy, *more):
    chosen = () if policy == "chain" else (f"policy={policy}",)
    return [*SMALL, *chosen, f"run_root={root / 'runs'}", f"storage.scratch={root}", f"cache.path={root}/calls", *more]


def run_in(root, policy, *more):
    carry_out(compose(*overrides(root, policy, *more)))
    return Log.read(RunFolder(max((root / "runs").glob("[!.]*/manifest.json")).parent))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run of a policy that nobody disturbs, by one worker."""
    return functools.cache(lambda policy: run_in(tmp_path_factory.mktemp(policy), policy, "workers=1"))


@pytest.mark.parametrize("policy", POLICIES)
def test_first_attempts_are_those_of_the_chain(whole, policy):
    def firsts(log):
        return {task_id: attempts[0].trajectory.messages for task_id, attempts in log.attempts.items()} | {
            f"{task_id} program": attempts[0].trajectory.solution for task_id, attempts in log.attempts.items()
        }

    assert firsts(whole(policy)) == firsts(whole("chain"))


@pytest.mark.parametrize("policy", POLICIES)
def test_an_attempt_reads_the_path_to_its_parent_and_nothing_else(whole, policy):
    log = whole(policy)
    for task_id, attempts in log.attempts.items():
        for attempt in attempts:
            assert 0 <= attempt.parent < attempt.number
            path = path_to(attempt.parent, attempts)
            assert attempt.recalled == tuple(f"ep-{task_id}-{each.number}" for each in path)
            before = path[-1].evaluation.reward if path else attempt.evaluation.reward
            assert attempt.delta.reward_change == attempt.evaluation.reward - before
    assert any(map(is_tree, log.attempts.values())) == (policy != "chain")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_loop_reflects_only_on_attempts_that_may_be_continued(whole, policy):
    attempts = [attempt for of_task in whole(policy).attempts.values() for attempt in of_task]
    reflected = [attempt for attempt in attempts if attempt.reflection]
    assert bool(reflected) == (policy != "independent")
    if policy == "repair_tree":
        failed = [each for each in attempts if not each.parent and not each.evaluation.passed and not each.stop_reason]
        assert reflected == failed


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("workers", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_any_number_of_workers_makes_the_same_trees(whole, tmp_path, policy, workers):
    assert canonical_bytes(run_in(tmp_path, policy, f"workers={workers}")) == canonical_bytes(whole(policy))


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_a_tree_that_was_cut_off_is_finished_as_the_whole(whole, tmp_path, policy):
    calls = len(run_in(tmp_path, policy).every)
    path = next((tmp_path / "runs").glob("2*"))
    lines = (path / "attempts.jsonl").read_text().splitlines(keepends=True)
    for file in path.iterdir():
        if file.is_file() and file.name not in ("manifest.json", "attempts.jsonl", ".lock"):
            file.unlink()
    (path / "attempts.jsonl").write_text("".join(lines[: calls // 2]) + lines[calls // 2][:200])
    with pytest.warns(RuntimeWarning, match="torn lines"):
        again = run_in(tmp_path, policy, f"resume={path}", "cache.mode=replay-only")
    assert canonical_form(again) == canonical_form(whole(policy))


def test_a_whole_tree_ignores_passes_and_max_attempts(whole):
    log = whole("repair_tree")
    for attempts in log.attempts.values():
        draws = [attempt for attempt in attempts if not attempt.parent]
        assert len(draws) == 5
        assert len(attempts) == 5 + 3 * sum(not attempt.evaluation.passed for attempt in draws)
        assert attempts[-1].stop_reason == "tree_complete"
    assert any(any(a.evaluation.passed for a in attempts[:-1]) for attempts in log.attempts.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_no_hidden_test_runs_before_the_loop_of_its_task_has_ended(tmp_path, monkeypatch, policy):
    grade, graded = HiddenTests.grade, []

    def graded_at_end(self, task, number, program):
        (results,) = (tmp_path / "runs").glob("2*/results.jsonl")
        assert f'"task_id":"{task.loop_id}"' in results.read_text()
        graded.append((task.loop_id, number))
        return grade(self, task, number, program)

    monkeypatch.setattr(HiddenTests, "grade", graded_at_end)
    log = run_in(tmp_path, policy, "benchmark.load.n=3", "cache.executions=null")
    assert sorted(graded) == sorted((attempt.task_id, attempt.number) for attempt in log.every)


def test_the_size_of_a_whole_tree_is_the_number_of_attempts_that_a_loop_may_have(whole, tmp_path):
    log = whole("repair_tree")
    assert log.max_attempts == log.manifest.config["loop"]["max_attempts"] == 5 * (1 + 3)
    with pytest.raises(ConfigError, match="policy: got a tree of 2,600 attempts, expected 1,000 at most"):
        assemble(compose(*overrides(tmp_path, "repair_tree", "policy.programs=100", "policy.repairs=25")))


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_disagrees_in_a_run_of_any_policy(tmp_path, policy):
    run_in(tmp_path, policy, "benchmark.load.n=3")
    (path,) = (tmp_path / "runs").glob("2*")
    assert verify(path).disagreements == []
    lines = (path / "attempts.jsonl").read_text()
    (path / "attempts.jsonl").write_text(lines.replace('"parent":0', '"parent":7', 1))
    assert verify(path).disagreements


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_caps_hold_to_the_call(tmp_path, policy):
    lab = assemble(compose(*overrides(tmp_path, policy, "caps.calls=9", "workers=1")))
    try:
        with pytest.raises(CapReached, match=r"caps\.calls"):
            lab.runner.run()
        assert lab.models.spent.calls == 9
    finally:
        lab.close()


@pytest.mark.parametrize("memory", [
    "curator=wisdom", "memory.show_session=true", "memory.shared.shown.wisdom=1", "store=sqlite",
    "memory.reflection_files=reflections",
])  # fmt: skip
def test_memory_that_reads_chains_is_refused(tmp_path, memory):
    with pytest.raises(ConfigError, match=r"policy: got RepairTree with memory by .*expected policy=chain"):
        assemble(compose(*overrides(tmp_path, "repair_tree", memory)))


@pytest.mark.parametrize(("more", "message"), [
    ("actor=warming", "policy: got RepairTree with actor Warming, expected policy=chain"),
    ("memory.max_episodes=19", r"memory\.max_episodes: got 19, expected loop\.max_attempts=20 or more"),
])  # fmt: skip
def test_what_a_tree_cannot_have_is_refused(tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        assemble(compose(*overrides(tmp_path, "repair_tree", more)))


def test_a_policy_of_fresh_draws_at_temperature_0_is_warned_of(tmp_path):
    with pytest.warns(RuntimeWarning, match="temperature: got 0 with a policy of fresh draws"):
        run_in(tmp_path, "independent", "temperature=0", "benchmark.load.n=1")


def test_show_draws_the_tree(tmp_path, capsys):
    from reflexion_lab.cli.main import main

    log = run_in(
        tmp_path, "repair_tree", "policy.programs=2", "policy.repairs=2", "benchmark.load.n=3", "model.first=0"
    )
    task_id = next(iter(log.attempts))
    path = next((tmp_path / "runs").glob("2*"))
    assert main(["show", str(path), task_id]) == 0
    head = capsys.readouterr().out.splitlines()[1:7]
    assert [line.split(" ·")[0] for line in head] == [
        f"{margin}─ {number} {'✓' if log.attempts[task_id][number - 1].evaluation.passed else '✗'} "
        f"{'{} of {}'.format(*tally(log.attempts[task_id][number - 1]))}"
        for margin, number in (("├", 1), ("│  ├", 3), ("│  └", 4), ("└", 2), ("   ├", 5), ("   └", 6))
    ]
    assert json.loads((path / "attempts.jsonl").read_text().splitlines()[-1])["parent"] in (1, 2)


def tally(attempt):
    outcomes = [check.outcome for check in attempt.evaluation.checks]
    return outcomes.count("pass"), len(outcomes)
