"""Runs of tasks whose solutions are whole programs: what works unchanged, and what is refused before anything runs."""

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.audit.audit import audit
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.vacuous import vacuous
from reflexion_lab.tasks.sandbox.cached import measured

TASKS = [
    Task(
        task_id=name,
        prompt=f"Read a word and print it {name}.",
        entry_point="",
        kind="program",
        visible_tests=('{"input": "ab", "output": "%s"}' % ("ba" if way else "ab"),),
        hidden_tests=('{"input": "zqx", "output": "%s"}' % ("xqz" if way else "zqx"), '{"input": "q", "output": "q"}'),
        canonical_solution=f"print(input()[::{way or 1}])\n",
    )
    for name, way in (("forwards", 0), ("backwards", -1))
]
COMMON = (
    "experiment=reflexion", "model=simulated", "tracker=none", "model.first=0", "model.spread=0", "model.repair=1",
)  # fmt: skip


def run(tmp_path, *overrides, tasks=TASKS):
    return rl.run(*COMMON, *overrides, benchmark=tasks, quiet=True, workers=1, run_root=tmp_path)


@pytest.mark.parametrize(
    "actor",
    [
        ("actor=single_shot",),
        ("actor=chain_of_thought",),
        ("actor=candidates", "actor@actor.actor=single_shot"),
        ("actor=warming", "actor@actor.make_actor=single_shot"),
        ("actor=critique_revise", "actor@actor.generator=single_shot", "reviser=llm", "critic=llm"),
        ("actor=single_shot", "model.partial=0.5"),
    ],
)
def test_a_wrong_program_is_repaired_by_what_its_output_was(tmp_path, actor):
    frames = rl.load(run(tmp_path, *actor))
    assert set(frames.tasks["passed"]) == {True}
    assert False in set(frames.attempts["passed"]) or actor[0] == "actor=critique_revise"  # repairs its draft at once
    written = "".join(path.read_text() for path in tmp_path.rglob("attempts.jsonl"))
    assert "Read a word" in written and "zqx" not in written  # hidden


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (("actor=continuation",), "actor: got Continuation"),
        (("actor=react",), "actor: got ReAct"),
        (("actor=chain_of_thought_continuation",), "ChainOfThought, style continuation"),
        (("actor=candidates", "actor@actor.actor=continuation"), r"actor\.actor: got Continuation"),
        (("actor=single_shot", "feedback_source=self_tests"), "feedback_source: got self_tests"),
    ],
)
def test_a_part_that_writes_functions_alone_is_refused_before_anything_runs(tmp_path, overrides, key):
    with pytest.raises(ConfigError, match=key):
        run(tmp_path, *overrides)
    assert not list(tmp_path.iterdir())


def test_a_canonical_program_that_fails_and_tests_that_check_nothing_are_found(sandbox):
    wrong = [replace(TASKS[0], canonical_solution="print(1)")]
    timed, failing = measured([*TASKS, *wrong], sandbox, 2)
    assert [task.cpu_seconds > 0 for task in timed] == [True] * 3 and len(failing) == 1
    assert vacuous(TASKS[0], TASKS[0].hidden_tests, sandbox) == ""
    assert "prints nothing" in vacuous(TASKS[0], ('{"input": "a", "output": " \\n"}',), sandbox)


def test_an_audit_executes_programs_as_programs(tmp_path):
    done = rl.run(
        *COMMON, "actor=single_shot", "benchmark=programs", "benchmark.limit=2", quiet=True, run_root=tmp_path
    )
    audited = audit(done.path, attempts=True, quiet=True)
    assert audited.n == audited.agree > 2 and audited.harness_errors == 0
