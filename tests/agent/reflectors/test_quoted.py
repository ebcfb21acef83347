"""The positive control: the canonical solution arrives in the retry's prompt, and no figure of it is a pass@1."""

import json

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.quoted import Quoted
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Recollection, Task
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import finish
from reflexion_lab.text.prompts.render import VARIANTS, Prompts
from tests import builders as make

BODY = "    total = 0\n    for x in xs:\n        total += x\n    return total\n"
TASK = Task(
    task_id="t/1", prompt='def add(xs):\n    """The sum."""\n', entry_point="add", canonical_solution=BODY,
    hidden_tests=("assert add([1]) == 1",),
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs `experiment=quoted` with the simulated model on two tasks; returns the run."""
    root = tmp_path_factory.mktemp("runs")

    def run(*overrides):
        own = ("model=simulated", "actor=single_shot", "model.first=0", "tracker=none", f"run_root={root}")
        shared = ("benchmark=basics", "benchmark.load.n=2", "loop.max_attempts=2", "cache.mode=off", "quiet=true")
        cfg = compose("experiment=quoted", *own, *shared, *overrides)
        lab = assemble(cfg)
        finish(lab)
        return lab.folder

    return run


@pytest.fixture(scope="module")
def folder(run):
    return run()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["solve", "continue_solve"])
def test_each_line_of_the_solution_arrives_in_every_style(name, variant):
    reflection = Quoted([TASK]).reflect(TASK.public, make.attempt(), [])
    episode = make.episode(task_id="t/1", task_description=TASK.prompt, code="", reflection=reflection)
    memory = Recollection(own=(episode,), attempt=2)
    text = Prompts(variant).render(name, prompt=TASK.prompt, task_id="t/1", memory=memory)
    lines = [line.removeprefix("#").strip() for line in text.splitlines()]
    at = lines.index("total = 0")
    assert lines[at : at + 4] == [line.strip() for line in BODY.splitlines()]
    if name == "solve":
        block = text.split("```python\n")[-1 if variant != "paper_style" else -2].partition("```")[0]
        assert block == "total = 0\nfor x in xs:\n    total += x\nreturn total\n"


def test_a_task_without_a_solution_is_an_early_error():
    with pytest.raises(ConfigError, match=r"got quoted, and 1 of 2 tasks have no canonical solution: t/2, expected"):
        Quoted([TASK, Task(task_id="t/2", prompt="", entry_point="f")])


@pytest.mark.parametrize(("solution", "kind"), [(BODY, "body of the function"), (f"{TASK.prompt}{BODY}", "program")])
def test_the_words_say_whether_they_quote_a_body_or_a_program(solution, kind):
    reflection = Quoted([replace(TASK, canonical_solution=solution)]).reflect(TASK.public, make.attempt(), [])
    assert reflection.what_to_change == f"The {kind} must be exactly this:"
    assert reflection.quoted_code.splitlines()[-1].strip() == "return total"
    assert reflection.confidence == 1.0


def test_no_figure_of_such_a_run_is_a_pass_at_1_and_only_retries_read_the_solution(folder):
    log = Log.read(folder)
    assert {attempt.reflection.source for attempt in log.every if attempt.reflection} == {"control:quoted"}
    assert log.manifest.leak == "canonical solutions"
    assert log.is_upper_bound
    assert arms([folder], by=["arm"])[0].is_upper_bound
    assert json.loads((folder.path / "summary.json").read_text())["is_upper_bound"]
    tasks = {attempt.task_id: attempt for attempt in Log.read(folder).every if attempt.number == 1}
    for attempt in Log.read(folder).every:
        quoted = tasks[attempt.task_id].reflection.quoted_code
        prompt = attempt.trajectory.messages[-1].content
        assert (quoted in prompt) == (attempt.number == 2)


def test_its_words_reach_no_other_run(run, folder):
    with pytest.raises(ConfigError, match="got a store with a part that reads canonical solutions"):
        run("store=sqlite")
    other = ("reflector=shuffled", f"reflector.pool=[{folder.path}]", "arm=reflexion_shuffled")
    with pytest.raises(ConfigError, match="words of a loop that was shown canonical solutions"):
        run(*other)


@pytest.mark.parametrize("control", ["keywords", "length_matched"])
@pytest.mark.slow
def test_a_reflector_around_it_is_marked_likewise(run, control):
    quoted = "{_target_: reflexion_lab.agent.reflectors.quoted.Quoted, _partial_: true}"
    nested = (f"reflector={control}", "~reflector.first", f"+reflector.first={quoted}")
    assert Log.read(run(*nested)).is_upper_bound
    with pytest.raises(ConfigError, match="got a store with a part that reads canonical solutions"):
        run(*nested, "store=sqlite")
