"""A part of one's own that hangs: its loop is set aside near `loop.timeout`. Parts of the lab have no wrapper."""

import time

import pytest

from reflexion_lab.errors import ConfigError, Unanswered
from reflexion_lab.loop.deadline import Deadline, DeadlineError, with_deadline
from reflexion_lab.records import Recollection, Reflection, Task, Trajectory
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
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
    began = time.monotonic()
    with pytest.raises(DeadlineError, match=r"^no reflection within 0\.05 s$"):
        with_deadline(0.05, lambda: time.sleep(5), "no reflection")
    assert time.monotonic() - began < 4


def test_results_and_exceptions_pass_through():
    assert with_deadline(None, lambda: 3) == with_deadline(5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        with_deadline(5, lambda: 1 // 0)


def test_a_part_keeps_everything_but_its_bounded_method():
    part = Deadline(Sleeper(), "act", 0.05)
    assert part.task_id == "t/1"
    with pytest.raises(Unanswered, match=r"^loop\.timeout: Sleeper\.act gave no result within 0\.05 s; give") as caught:
        part.act(TASK, Recollection())
    assert caught.value.outcome == "timeout"


def test_a_result_of_another_type_is_refused_by_name():
    part = Deadline(Sleeper("t/2"), "act", 5, (Reflection, type(None)))
    with pytest.raises(ConfigError, match=r"^Sleeper\.act\(…\): got a Trajectory as its result, expected Refl"):
        part.act(TASK, Recollection())
    assert Deadline(Sleeper("t/2"), "act", 5, (Trajectory,)).act(TASK, Recollection()).strategy == "sleeper"


def test_a_hanging_actor_is_set_aside_by_name_and_the_others_end(tmp_path):
    own = (f"run_root={tmp_path}", "loop.timeout=0.3", "loop.max_attempts=1")
    cfg = compose(*CHEAP, *own, "experiment=simple", "actor=single_shot")
    ids = [task.task_id for task in tasks_of(cfg)]
    cfg.actor = {"_target_": f"{__name__}.Sleeper", "_partial_": True, "task_id": ids[1]}
    with pytest.raises(Unanswered, match=r"1 task had no answer twice \(timeout 1\).*Sleeper\.act gave no result"):
        finish(assemble(cfg), cfg)
    folder = RunFolder.existing(next(tmp_path.glob("*-basics-*")))
    assert sorted(folder.results) == sorted(ids[:1] + ids[2:])
    assert [aside.task_id for aside in folder.set_aside] == [ids[1]] * 2


def test_parts_of_the_lab_are_bounded_by_their_model_alone(tmp_path):
    lab = assemble(compose(*CHEAP, f"run_root={tmp_path}", "actor=single_shot"))
    loop = lab.runner.loop()
    lab.close()
    assert not isinstance(loop.actor, Deadline)
    assert not isinstance(loop.evaluator, Deadline)


def tasks_of(cfg):
    from reflexion_lab.runner.config.parts import load_benchmark

    return load_benchmark(cfg).tasks
