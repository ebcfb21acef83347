"""What runs read, and what came of it: small folders with known answers."""

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.learning.transfer import transfer
from reflexion_lab.analysis.stats.intervals import mcnemar
from reflexion_lab.cli.wisdom import transfer_lines
from reflexion_lab.errors import FolderError
from reflexion_lab.runner.folder.folder import RunFolder


@pytest.fixture
def make_run(write_run, records, tmp_path):
    """A run from verdicts by task; `reads` maps (task, number) to the wisdom that the attempt's actor read."""

    def make(name, verdicts, reads=None, **options):
        attempts, _ = records(verdicts)
        for (task_id, number), wisdom in (reads or {}).items():
            attempts[task_id][number - 1] = replace(attempts[task_id][number - 1], recalled_wisdom=wisdom)
        folder = write_run(verdicts, attempts=attempts, **options)
        folder.path.rename(tmp_path / name)
        return RunFolder.existing(tmp_path / name)

    return make


BASELINE = {
    "kept": [(0.0, False), (0.5, False), (1.0, True)], "quicker": [(0.0, False), (1.0, True)],
    "gained": [(0.0, False), (0.0, False)], "lost": [(1.0, True)], "never": [(0.0, False)],
}  # fmt: skip
WITH = {
    "kept": [(0.0, False), (1.0, True)], "quicker": [(1.0, True)], "gained": [(1.0, True)],
    "lost": [(0.0, False), (0.0, False)], "never": [(0.0, False)],
}  # fmt: skip
READS = {
    ("kept", 2): ("wis-a",), ("quicker", 1): ("wis-a", "wis-b"), ("gained", 1): ("wis-a",), ("lost", 1): ("wis-b",),
}  # fmt: skip


@pytest.fixture
def report(make_run):
    return transfer([make_run("with", WITH, READS)], [make_run("without", BASELINE)], known=["wis-a", "wis-b", "wis-c"])


def test_reuse_is_the_share_of_attempts_whose_actor_read_wisdom(report):
    assert (report.read["wisdom"].k, report.read["wisdom"].n) == (4, 7)
    assert (report.read["mistakes"].k, report.read["episodes"].k) == (0, 0)
    assert (report.attempts, report.tasks) == (7, 5)
    assert (report.used.k, report.used.n) == (2, 3)  # of the known entries


def test_what_the_window_shows_of_the_own_loop_is_no_reuse_and_a_curators_items_are_named(write_run, attempt):
    own, other, earlier, plain = "ep-run-1/a-1", "ep-run-1/b-1", "ep-run-0/a-1", "ep-a-1"
    read = [{"recalled_items": ("cause-1",)}, *({"recalled": ids} for ids in ((own, plain), (own, other), (earlier,)))]
    items = [replace(attempt("a", number, 0.0), **fields) for number, fields in enumerate(read, 1)]
    result = transfer([write_run(attempts={"a": items, "a-1": [replace(attempt("a-1", 1, 0.0), recalled=(own,))]})])
    assert (result.read["episodes"].k, result.read["items"].k, result.read["episodes"].n) == (3, 1, 5)
    assert any("read items of a curator, as of curator=wisdom: 20.0 %" in line for line in transfer_lines(result))


def test_entries_that_nobody_knows_of_make_no_rate(make_run):
    assert transfer([make_run("with", WITH, READS)]).used is None


def test_success_is_told_apart_by_what_was_read_and_by_whose_verdict(make_run):
    verdicts = {"a": [(1.0, False)], "b": [(0.0, True), (1.0, True)]}
    result = transfer([make_run("with", verdicts, {("a", 1): ("wis-a",), ("b", 2): ("wis-a",)})])
    assert (result.with_wisdom.feedback.k, result.with_wisdom.feedback.n) == (2, 2)
    assert (result.with_wisdom.hidden.k, result.with_wisdom.hidden.n) == (1, 2)
    assert (result.without_wisdom.feedback.k, result.without_wisdom.hidden.k) == (0, 1)


def test_an_attempt_without_a_grade_counts_for_the_feedback_alone(make_run):
    result = transfer([make_run("with", {"a": [(0.5, False), (1.0, True)]}, {("a", 1): ("wis-a",)}, sealed=False)])
    assert (result.with_wisdom.feedback.n, result.with_wisdom.hidden.n) == (1, 0)
    assert result.with_wisdom.hidden.high == 1.0  # nothing is known


def test_tasks_are_compared_pair_by_pair(report):
    against = report.against
    solved, change = against.solved, against.attempts_to_success
    assert (solved.both, solved.damaged, solved.repaired, solved.neither) == (2, 1, 1, 1)
    assert solved.p == mcnemar(1, 1) == 1.0
    assert solved.difference == 0.0
    assert -1 < solved.low < 0 < solved.high < 1
    assert (against.lost, against.gained) == (("lost",), ("gained",))
    assert (change.n, change.mean, change.low, change.high) == (2, -1.0, -1.0, -1.0)  # 3 to 2, 2 to 1
    assert against.attempts.mean == pytest.approx((-1 - 1 - 1 + 1 + 0) / 5)
    assert against.attempts.low < -0.4 < against.attempts.high
    assert msgspec.json.decode(msgspec.json.encode(report), type=type(report)) == report


def test_the_bootstrap_agrees_with_scipys(make_run):
    from scipy.stats import bootstrap

    lengths = [1, 2, 2, 3, 3, 3, 1, 2, 3, 1, 2, 2]
    baseline = {f"t{i}": [(0.0, False)] * (n - 1) + [(1.0, True)] for i, n in enumerate(lengths)}
    result = transfer([make_run("a", {task: [(1.0, True)] for task in baseline})], [make_run("b", baseline)])
    change = result.against.attempts_to_success
    values = [1 - n for n in lengths]
    expected = bootstrap((values,), lambda x, axis: x.mean(axis=axis), method="percentile", rng=1).confidence_interval
    assert change.mean == pytest.approx(sum(values) / len(values))
    assert (change.low, change.high) == pytest.approx((expected.low, expected.high), abs=0.09)


def test_transfer_pairs_runs_by_seed_and_averages_per_task(make_run):
    runs = [make_run(f"with{seed}", {"a": [(1.0, True)]}, seed=seed) for seed in (2, 1)]
    baseline = [
        make_run("without1", {"a": [(0.0, False), (1.0, True)]}, seed=1),
        make_run("without2", {"a": [(0.0, False), (0.0, False)]}, seed=2),
    ]
    against = transfer(runs, baseline).against
    assert (against.solved.n, against.solved.both, against.solved.repaired) == (2, 1, 1)
    assert (against.attempts.n, against.attempts.mean, against.attempts.low) == (1, -1.0, None)
    assert against.attempts_to_success.n == 1
    assert against.differs_in == ()


def test_tasks_of_one_side_alone_are_counted_and_left_out(make_run):
    against = transfer(
        [make_run("with", {"a": [(1.0, True)], "b": [(1.0, True)]})], [make_run("w", BASELINE | {"a": [(1.0, True)]})]
    ).against
    assert against.solved.n == 1
    assert against.left_out == 6


def test_what_else_tells_the_runs_apart_is_named(make_run):
    first, other = make_run("with", WITH), make_run("without", BASELINE)
    other.write_manifest(replace(other.manifest, config={"arm": "plain"}, model_fingerprint="another"))
    assert transfer([first], [other]).against.differs_in == ("arm", "model_fingerprint")


@pytest.mark.parametrize(
    ("verdicts", "seed", "message"),
    [
        ({"other": [(1.0, True)]}, 0, "got no graded task in both run-1 and run-1"),
        (WITH, 7, "transfer: got runs of seed 0 and a baseline of seed 7"),
    ],
    ids=["tasks", "seeds"],
)
def test_runs_with_nothing_in_common_are_an_error(make_run, verdicts, seed, message):
    with pytest.raises(FolderError, match=message):
        transfer([make_run("with", WITH, seed=0)], [make_run("without", verdicts, seed=seed)])
