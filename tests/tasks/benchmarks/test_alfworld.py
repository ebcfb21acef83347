"""ALFWorld's data folder as tasks: which games, what a task holds, and what is said where something is missing."""

import hashlib
import json
import re
import shutil

import pytest

from reflexion_lab.errors import ConfigError, DataError, HarnessError
from reflexion_lab.records import Observation, Task
from reflexion_lab.tasks.benchmarks import alfworld as games
from reflexion_lab.tasks.environments import alfworld as environment


class Session:
    def __init__(self, path):
        self.path = path

    def observe(self):
        return Observation(text=f"You are in a room. Your task is to: {json.loads(self.path.read_text())['goal']}")

    def close(self):
        pass


class NoServer:
    ready = close = lambda self: None


@pytest.fixture
def installed(monkeypatch):
    """As if ALFWorld were installed; sessions show the goal of the file."""
    for module in (games, environment):
        monkeypatch.setattr(module, "server", NoServer)
        monkeypatch.setattr(module, "played", lambda own, path, seconds: Session(path))


def write(folder, name, kind="pick_and_place_simple", game=None, part="valid_unseen"):
    place = folder / "json_2.1.1" / part / name
    place.mkdir(parents=True)
    (place / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    if game is not None:
        (place / "game.tw-pddl").write_text(game if isinstance(game, str) else json.dumps(game))
    return place / "game.tw-pddl"


def test_solvable_games_become_tasks_as_the_own_loader_chooses_them(installed, tmp_path):
    game = {
        "solvable": True,
        "goal": "put a mug on the desk",
        "walkthrough": ["go to desk 1", "put mug 1 in/on desk 1"],
    }
    path = write(tmp_path, "pick_and_place_simple-Mug-None-Desk-308/trial_1", game=game)
    write(tmp_path, "look_at_obj_in_light-Pen-None-Lamp-3/trial_2", "look_at_obj_in_light", {**game, "goal": "look"})
    write(tmp_path, "unsolvable/trial", game={**game, "solvable": False})
    write(tmp_path, "pick_and_place_with_movable_recep-Mug/trial", game=game)
    write(tmp_path, "pick-AppleSliced/trial", game=game)
    write(tmp_path, "no_game/trial")
    write(tmp_path, "other_part/trial", game=game, part="train")
    benchmark = games.alfworld(str(tmp_path))
    assert [task.task_id for task in benchmark] == [
        "alfworld/look_at_obj_in_light-Pen-None-Lamp-3/trial_2",
        "alfworld/pick_and_place_simple-Mug-None-Desk-308/trial_1",
    ]
    task = benchmark[1]
    assert task.prompt == "You are in a room. Your task is to: put a mug on the desk"
    assert (task.kind, task.cluster, task.hidden_tests) == ("actions", "pick_and_place_simple", ("success",))
    assert task.canonical_solution == "go to desk 1\nput mug 1 in/on desk 1"
    assert task.data == {"local_path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert len(games.alfworld(str(tmp_path), n=1)) == 1
    shutil.copytree(tmp_path / "json_2.1.1", tmp_path / "copy" / "json_2.1.1")
    assert games.alfworld(str(tmp_path / "copy")).digest == benchmark.digest
    assert games.alfworld(str(tmp_path), part="train").name == "alfworld-train"


@pytest.mark.parametrize("game", ["{", "[]", '{"goal": "x"}', '"text"'])
def test_a_file_that_is_no_game_is_named(installed, tmp_path, game):
    path = write(tmp_path, "a/trial", game=game)
    with pytest.raises(DataError, match=re.escape(str(path))):
        games.alfworld(str(tmp_path))


def test_without_folder_or_game_the_command_that_fills_it_is_named(installed, tmp_path):
    with pytest.raises(ConfigError, match=r"no such folder.*alfworld-download"):
        games.alfworld(str(tmp_path))
    (tmp_path / "json_2.1.1" / "valid_unseen").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"without a solvable game.*alfworld-download"):
        games.alfworld(str(tmp_path))


def test_without_the_package_it_is_named(monkeypatch):
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"alfworld, which is not installed.*pip install alfworld"):
        environment.ALFWorld()


def test_a_game_that_is_gone_or_changed_gives_no_verdict(installed, tmp_path):
    path = write(tmp_path, "a/trial", game={"solvable": True, "goal": "g"})
    task = games.alfworld(str(tmp_path))[0]
    world = environment.ALFWorld()
    assert world.start(task).observe().text == task.prompt
    path.write_text("{}")
    with pytest.raises(HarnessError, match="another game than that of its task"):
        world.start(task)
    path.unlink()
    with pytest.raises(HarnessError, match="no such file"):
        world.start(task)
    with pytest.raises(HarnessError, match="None, no such file"):
        world.start(Task(task_id="t", prompt="", entry_point="", kind="actions"))
