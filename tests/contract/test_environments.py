"""Every environment: a play is graded by a replay of its actions, whatever its actor says, and fails alone."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.errors import ConfigError, HarnessError
from reflexion_lab.records import Observation, Task, Trajectory
from reflexion_lab.tasks.benchmarks.textworld import textworld
from reflexion_lab.tasks.environments import textworld as games
from reflexion_lab.tasks.environments.replay import Guarded, replayed
from reflexion_lab.tasks.environments.server import Connection, Server


class Corridor:
    """Rooms in a row; the goal is the last one. A session of this process."""

    max_steps = 12
    seconds = 0.5
    help = "The actions are forward, back, and wait."

    def __init__(self, trap=None) -> None:
        self.trap = trap

    def start(self, task):
        return Walk(task.data["rooms"], self.trap if task.data.get("has_trap") else None)


class Walk:
    def __init__(self, rooms: int, trap) -> None:
        self.rooms, self.trap, self.place = rooms, trap, 0

    def observe(self):
        at_end = self.place == self.rooms
        text = f"You are in room {self.place} of {self.rooms}."
        return Observation(text=text, score=self.place, is_over=at_end, is_success=at_end)

    def act(self, text):
        self.place += {"forward": 1, "back": -1 if self.place else 0}.get(text, 0)
        return self.trap(self.observe()) if self.trap else self.observe()

    def close(self):
        raise SystemExit


def walk(task_id: str, rooms: int = 3, **data) -> Task:
    goals = (*(f"score {n}" for n in range(1, rooms)), "success")
    return Task(
        task_id=task_id, prompt=f"Walk to room {rooms}, task {task_id}.", entry_point="", kind="actions",
        data={"rooms": rooms, **data}, visible_tests=goals, hidden_tests=goals,
        canonical_solution="\n".join(["forward"] * rooms),
    )  # fmt: skip


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of games of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def textworlds(cache):
    environment = games.TextWorld()
    yield environment, list(textworld(["custom-2", "coin_collector-3"], n=2))
    environment.close()


@pytest.fixture(params=["corridor", "textworld"])
def world(request):
    """An environment and its tasks."""
    if request.param == "corridor":
        return Corridor(), [walk("a"), walk("b", 5)]
    return request.getfixturevalue("textworlds")


def played(environment, task, seed: int) -> tuple[str, Observation]:
    """A random play."""
    session, draw, actions = Guarded(environment, task), random.Random(seed), []
    while not session.observation.is_over and len(actions) < 8:
        actions.append(draw.choice(session.observation.actions or ("forward", "back", "wait", "nonsense")))
        session.act(actions[-1])
    session.close()
    return "\n".join(actions), session.observation


def test_the_replay_of_any_play_gives_its_end_also_beside_others(world):
    environment, tasks = world
    plays = [(task, *played(environment, task, seed)) for task in tasks for seed in range(6)]
    expected = []
    for task, _, last in plays:
        reached = [last.is_success if goal == "success" else last.score >= int(goal[6:]) for goal in task.hidden_tests]
        expected.append(tuple("pass" if each else "fail" for each in reached))
    for workers in (1, 8):
        with ThreadPoolExecutor(workers) as pool:
            ends = pool.map(lambda play: replayed(environment, play[0], play[1], play[0].hidden_tests), plays)
            assert [tuple(check.outcome for check in end.checks) for end in ends] == expected


def test_canonical_plays_reach_every_goal_and_no_play_none(world):
    environment, tasks = world
    for task in tasks:
        for actions, outcome in ((task.canonical_solution, "pass"), ("", "fail")):
            checks = replayed(environment, task, actions, task.hidden_tests).checks
            assert {check.outcome for check in checks} == {outcome}


def test_what_comes_after_the_end_or_beyond_the_steps_is_not_taken(world):
    environment, tasks = world
    best = tasks[0].canonical_solution
    for solution, outcome in ((best + "\nback" * 50, "pass"), ("wait\n" * environment.max_steps + best, "fail")):
        assert replayed(environment, tasks[0], solution, ("success",)).checks[0].outcome == outcome


class Scripted:
    """An actor that submits the actions of its script, whatever its environment shows, and claims success."""

    def act(self, task, recollection):
        claims = "*** You have won *** success score 3"
        solution = self.scripts[task.task_id][recollection.attempt - 1]
        return Trajectory(solution=solution, strategy="play", reply=claims, rationale=claims, ended="over")


def run(tmp_path, scripts, environment):
    Scripted.scripts = scripts
    return rl.run(
        "tracker=none", "model=simulated", f"loop.max_attempts={max(map(len, scripts.values()))}", "workers=3",
        "loop.stuck_after=null", "reflector=none", quiet=True, run_root=tmp_path, actor=Scripted,
        environment=environment, benchmark=[walk("a"), walk("b", has_trap=True), walk("c")],
    )  # fmt: skip


def test_a_lying_actor_is_graded_by_what_its_actions_do(tmp_path):
    lies = ["success\nscore 3\nYou have won!", "forward\nforward", "forward\nforward\nforward"]
    result = run(tmp_path, dict.fromkeys("abc", lies), Corridor)
    for attempts in result.log.attempts.values():
        outcomes = [(each.evaluation.passed, round(each.evaluation.reward, 2)) for each in attempts]
        assert outcomes == [(False, 0.0), (False, 0.67), (True, 1.0)]
    assert {(n, grade.passed) for (_, n), grade in result.log.grades.items()} == {(1, False), (2, False), (3, True)}


def numpys(seen):
    ends = {name: np.bool_(getattr(seen, name)) for name in ("is_over", "is_success")}
    return Observation(text=np.str_(seen.text), score=np.float32(seen.score), actions=np.array(["back"]), **ends)


@pytest.mark.parametrize(("trap", "why"), [
    (numpys, ""), (lambda seen: replace(seen, actions=["forward"]), ""),
    (lambda seen: seen.floor, "has no attribute 'floor'"), (lambda seen: time.sleep(3), "within 0.5 s"),
    (lambda seen: sys.exit(3), "raised SystemExit: 3"), (lambda seen: sys.exit("\ud800"), r"SystemExit: \ud800"),
    (lambda seen: None, "returned NoneType, no Observation"), (lambda seen: seen.text, "returned str, no Observation"),
    (lambda seen: replace(seen, text={"text": 1}), "got `object` - at `$.text`"),
    (lambda seen: replace(seen, score=None), "got `null` - at `$.score`"),
    (lambda seen: replace(seen, actions=(1,)), "got `int` - at `$.actions[0]`"),
    (lambda seen: replace(seen, answer="\ud800"), "surrogates not allowed"),
])  # fmt: skip
def test_a_world_that_fails_is_an_error_of_the_harness_on_its_task_alone(tmp_path, trap, why):
    result = run(tmp_path, {name: ["forward\nforward\nforward"] for name in "abc"}, Corridor(trap))
    outcomes = {task_id: attempts[-1].evaluation.outcome for task_id, attempts in result.log.attempts.items()}
    assert outcomes == {"a": "pass", "b": "harness_error" if why else "pass", "c": "pass"}
    (failure,) = {check.message for check in result.log.attempts["b"][0].evaluation.checks}
    assert why in failure
    assert {task_id: grade.outcome for (task_id, _), grade in result.log.grades.items()} == outcomes
    summary, n = result.summary, 2 if why else 3
    assert (summary.no_verdict, summary.harness_errors) == ((("b",), 2) if why else ((), 0))  # feedback and grade
    assert (summary.pass_at_1.k, summary.pass_at_1.n) == (n, n)


@pytest.mark.parametrize("late", ["start", "observe"])
def test_a_session_without_a_first_observation_is_closed(late):
    go, closed = threading.Event(), threading.Event()
    session = SimpleNamespace(observe=lambda: late == "start" or go.wait(), close=closed.set)
    environment = SimpleNamespace(seconds=0.5, start=lambda task: (late == "observe" or go.wait()) and session)
    with pytest.raises(HarnessError, match=f"environment: {late}: it gave no result"):
        Guarded(environment, walk("a"))
    go.set()
    assert closed.wait(60)


@pytest.mark.parametrize(("name", "value"), [("seconds", None), ("max_steps", 6.0), ("help", None)])
def test_an_environment_without_an_attribute_does_not_start(tmp_path, monkeypatch, name, value):
    monkeypatch.delattr(Corridor, name) if value is None else monkeypatch.setattr(Corridor, name, value)
    with pytest.raises(ConfigError, match=f"environment.{name}: got {value}, expected "):
        run(tmp_path, {"a": ["forward"]}, Corridor)
    assert [path.name for path in tmp_path.iterdir()] == ["benchmarks"]


def dying(how):
    """The callable of a session that dies in its own way, or hangs before there is one."""
    if how.startswith("/"):
        Path(how).write_text(str(os.getpid()))
        time.sleep(60)

    def act(request):
        if request == "die":
            os.kill(os.getpid(), 9) if how == "kill" else os._exit(0) if how == "exit" else time.sleep(60)
        return [request, os.getpid(), os.environ.get("OPENAI_API_KEY")]

    return act


@pytest.fixture
def server():
    own = Server((__name__,))
    yield own
    own.close()


@pytest.mark.parametrize("how", ["kill", "exit", "hang"])
def test_a_session_apart_dies_alone_and_knows_no_key(monkeypatch, server, how):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    target, limit = f"{__name__}:dying", 1.0 if how == "hang" else 60.0
    first, other = (Connection(server, target, {"how": how}, seconds) for seconds in (limit, 60.0))
    assert first.ask("go")[0] == "go" and first.ask("go")[1] != other.ask("go")[1] != os.getpid()
    with pytest.raises(HarnessError, match="died" if how != "hang" else "no answer within 1 s"):
        first.ask("die")
    assert other.ask("on")[::2] == ["on", None]
    other.close()
    again = Connection(server, target, {"how": how}, 60.0)
    assert again.ask("on")[0] == "on"
    again.close()


def test_a_session_that_hangs_in_its_start_is_killed(server, tmp_path):
    with pytest.raises(HarnessError, match="no answer within 2 s"):
        Connection(server, f"{__name__}:dying", {"how": str(tmp_path / "id")}, 2.0)
    with pytest.raises(ProcessLookupError):
        for _ in range(1000):
            time.sleep(os.kill(int((tmp_path / "id").read_text()), 0) or 0.01)


def test_what_a_world_raises_in_its_process_is_named(textworlds, server):
    with pytest.raises(HarnessError, match=r"OSError: Unable to find game '/no/such/game.z8'"):
        Connection(server, f"{games.__name__}:Player", {"path": "/no/such/game.z8"}, 30.0)


# Games of TextWorld


def test_a_seed_makes_the_same_games_and_another_seed_others(cache, monkeypatch, tmp_path):
    first, other = (textworld(["custom-2", "cooking-1"], n=2, seed=seed) for seed in (0, 1))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert textworld(["custom-2", "cooking-1"], n=2, seed=0).tasks == first.tasks
    assert not {task.data["sha256"] for task in first} & {task.data["sha256"] for task in other}


@pytest.mark.parametrize(("seconds", "patience", "end"), [
    (2.5, 600, nullcontext()), (600, 0.5, pytest.raises(HarnessError, match=r"imports took more than 0\.5 s")),
])  # fmt: skip
def test_imports_have_a_limit_of_their_own_and_are_ended(textworlds, tmp_path, monkeypatch, seconds, patience, end):
    (tmp_path / "slow.py").write_text(f"import time\ntime.sleep({seconds})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(games, "server", lambda: Server((f"{games.__name__}:warm", "slow")))
    monkeypatch.setattr("reflexion_lab.tasks.environments.server.PATIENCE", patience)
    environment, (task, _) = games.TextWorld(seconds=2.0), textworlds[1]
    with end:
        assert Guarded(environment, task).observation.text == task.prompt
    environment.close()


def test_a_game_that_another_version_made_gives_no_verdict(textworlds):
    environment, (task, _) = textworlds
    other = replace(task, data={**task.data, "sha256": "0" * 64})
    (check,) = replayed(environment, other, task.canonical_solution, ("success",)).checks
    assert check.outcome == "harness_error" and "expected 000000000000" in check.message


def test_no_action_reaches_another_session_or_is_two(textworlds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment, (task, _) = textworlds
    *others, last = task.canonical_solution.split("\n")
    session = Guarded(environment, task)
    for action in (*others, "save", "script", "."):
        session.act(action)
    assert session.observation.text == games.UNKNOWN
    session.close()
    for solution in (f"restore\n{last}", ". ".join([*others, last])):
        assert replayed(environment, task, solution, ("success",)).checks[0].outcome == "fail"
    assert list(tmp_path.iterdir()) == []
    assert replayed(environment, task, task.canonical_solution.upper(), ("success",)).checks[0].outcome == "pass"


def test_observations_hold_no_banner_prompt_or_question_after_the_end(textworlds):
    environment, (task, _) = textworlds
    session = Guarded(environment, task)
    texts = [session.observation.text, *(session.act(each).text for each in task.canonical_solution.split("\n"))]
    session.close()
    assert texts[0] == task.prompt and "The End" in texts[-1]
    assert not any(mark in text for text in texts for mark in ("$$", ">", "RESTART"))


@pytest.mark.parametrize("name", ["custom", "custom-0", "custom-11", "chess-1", "custom-x", ""])
def test_an_unknown_family_or_level_is_named_with_those_that_there_are(name):
    with pytest.raises(ConfigError, match=r"families: got .*expected FAMILY-LEVEL: custom-1 to custom-10"):
        textworld([name])


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(games, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'reflexion-lab\[worlds\]'"):
        textworld(["custom-2"], n=1)


def test_an_actor_that_plays_needs_an_environment(tmp_path):
    with pytest.raises(ConfigError, match="environment: got none with actor Play"):
        rl.run("model=simulated", "actor=play", "tracker=none", run_root=tmp_path, quiet=True)
