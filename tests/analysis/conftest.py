"""Runs of named arms, and arms of runs over seeds."""

import csv

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import WrittenTests
from reflexion_lab.runner.folder.folder import RunFolder

RIGHT, WRONG = (1, True), (0, False)
BASE = {"a": [RIGHT], "b": [WRONG, RIGHT], "c": [WRONG, WRONG], "d": [WRONG, WRONG]}
WORDS = {"a": [RIGHT], "b": [WRONG, RIGHT], "c": [WRONG, RIGHT], "d": [(0.5, True), (1, False)]}
"""Verdicts on four tasks: of a baseline, and of an arm that solves one task more and damages one."""


def run_writer(write_run, place):
    """Writes one run of an arm into a folder of its own; `manifest` are fields of its manifest."""

    def write(arm, verdicts=None, seed=7, attempts=None, feedback_source="visible", clusters=None, **manifest):
        folder = write_run(verdicts, attempts=attempts, seed=seed, feedback_source=feedback_source, clusters=clusters)
        fields = {"config": {"arm": arm}, "run_id": f"{arm.split('<')[0]}-s{seed}"} | manifest
        folder.write_manifest(replace(folder.manifest, **fields))
        return RunFolder(folder.path.rename(place / f"run {len(list(place.iterdir()))}"))

    return write


@pytest.fixture
def run(write_run, tmp_path):
    return run_writer(write_run, tmp_path)


@pytest.fixture
def make_arm(run):
    """An arm of one run for each table of verdicts, (feedback reward, hidden verdict) by task; seeds from 0.

    An attempt takes 20 tokens in 1 call, a reflection 7 in 1; `change` rewrites attempts, `written` is what tests took.
    """

    def make(*tables, label="reflexion", change=lambda attempt: attempt, written=None, **options):
        logs = []
        for seed, verdicts in enumerate(tables):
            log = Log.read(run(label, verdicts, seed, **options))
            attempts = {task_id: [change(attempt) for attempt in history] for task_id, history in log.attempts.items()}
            tests = {task_id: WrittenTests(task_id=task_id, tests=(), usage=written) for task_id in attempts if written}
            logs.append(replace(log, attempts=attempts, written=tests))
        return Arm(label, logs)

    return make


@pytest.fixture
def respent(records):
    return spender(records)


def spender(records):
    """Makes the attempts of `verdicts` with this usage: of the actor, of its retries, and of reflections; else none."""

    def make(verdicts, usage, retry=None, reflected=None):
        def paid(attempt):
            words = replace(attempt.reflection, usage=reflected) if attempt.reflection and reflected else None
            of_actor = retry if retry and attempt.number > 1 else usage
            return replace(attempt, trajectory=replace(attempt.trajectory, usage=of_actor), reflection=words)

        return {task_id: [*map(paid, history)] for task_id, history in records(verdicts)[0].items()}

    return make


def lines_of(path):
    """The lines of a `table.csv` by arm, metric and budget."""
    return {(line["arm"], line["metric"], line["budget"]): line for line in csv.DictReader(path.open(newline=""))}
