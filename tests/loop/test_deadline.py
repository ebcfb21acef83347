"""A part of one's own that hangs: its loop is set aside near `loop.timeout`. Parts of the lab have no wrapper."""

import threading
import time

import pytest

from reflexion_lab.errors import ConfigError, Unanswered
from reflexion_lab.loop.deadline import Budgeted, DeadlineError, with_deadline
from reflexion_lab.records import Recollection, Reflection, Task, Trajectory, Usage
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import load_benchmark
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import finish

TASK = Task(task_id="t/1", prompt="def f():\n", entry_point="f")
CHEAP = ("model=simulated", "benchmark=basics", "benchmark.load.n=3", "tracker=none", "quiet=true", "cache.mode=off")


class Sleeper:
    """An actor that hangs on the task of this name, and writes nothing for others."""

    seconds = 30

    def __init__(self, task_id: str = "t/1") -> None:
        self.task_id = task_id

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        if task.task_id == self.task_id:
            time.sleep(self.seconds)
        return Trajectory(solution=task.prompt + "    return None\n", strategy="sleeper")


def test_a_call_that_takes_too_long_is_left_alone():
    over = threading.Event()
    with pytest.raises(DeadlineError, match=r"^no reflection within 0\.05 s$"):
        with_deadline(0.05, lambda: over.wait(60), "no reflection")
    over.set()


def test_a_part_keeps_everything_but_its_bounded_method_whose_result_has_a_type():
    part = Budgeted(Sleeper(), "act", 0.05)
    assert part.task_id == "t/1"
    with pytest.raises(Unanswered, match=r"^loop\.timeout: Sleeper\.act gave no result within 0\.05 s; give") as caught:
        part.act(TASK, Recollection())
    assert caught.value.outcome == "timeout"
    part = Budgeted(Sleeper("t/2"), "act", 5, (Reflection, type(None)))
    with pytest.raises(ConfigError, match=r"^Sleeper\.act\(…\): got a Trajectory as its result, expected Refl"):
        part.act(TASK, Recollection())
    assert Budgeted(Sleeper("t/2"), "act", 5, (Trajectory,)).act(TASK, Recollection()).strategy == "sleeper"


def test_a_hanging_actor_is_set_aside_by_name_and_the_others_end(tmp_path):
    own = (f"run_root={tmp_path}", "loop.timeout=0.3", "loop.max_attempts=1")
    cfg = compose(*CHEAP, *own, "experiment=simple", "actor=single_shot")
    ids = [task.task_id for task in load_benchmark(RunConfig.of(cfg)).tasks]
    cfg.actor = {"_target_": f"{__name__}.Sleeper", "_partial_": True, "task_id": ids[1]}
    with pytest.raises(Unanswered, match=r"1 task got no answer in two tries \(timeout 1\).*Sleeper\.act gave no"):
        finish(assemble(cfg))
    folder = RunFolder.existing(next(tmp_path.glob("*-basics-*")))
    assert sorted(folder.results) == sorted(ids[:1] + ids[2:])
    assert [aside.task_id for aside in folder.set_aside] == [ids[1]] * 2


class Timed:
    """An actor that takes 0.1 s or more and states `usage`."""

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        time.sleep(0.1)
        return Trajectory(solution="", strategy="timed", usage=self.usage)


@pytest.mark.parametrize(("stated", "least", "most"), [(0.0, 0.1, 60), (700.0, 700, 700)])
def test_wall_time_counts_where_a_part_states_none(stated, least, most):
    part = Timed()
    part.usage = Usage(calls=1, seconds=stated)
    assert least <= Budgeted(part, "act", 60).act(TASK, Recollection()).usage.seconds <= most


def test_parts_of_the_lab_are_bounded_by_their_model_alone(tmp_path):
    lab = assemble(compose(*CHEAP, f"run_root={tmp_path}", "actor=single_shot"))
    loop = lab.runner.loop()
    lab.close()
    assert not isinstance(loop.actor, Budgeted) and not isinstance(loop.evaluator, Budgeted)
