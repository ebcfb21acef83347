"""What looks like a mistake and is none, and mistakes that are bugs of somebody's own part."""

import json

import pytest

from tests.platform.bad_input.cases import TASK, line


def test_own_keys_that_a_value_or_an_own_part_reads_are_taken(work, gone_well, monkeypatch):
    files = {
        "mine/level/low.yaml": "mean: 0.25\n",
        "mine/experiment/mine.yaml": "# @package _global_\ndefaults:\n  - /level: low\ntemperature: ${level.mean}\n",
        "stopping.py": "from reflexion_lab.agent.actors.continuation import Continuation\n"
        "class Tokened(Continuation):\n"
        "    def __init__(self, model, sampling, prompts, stop_token):\n"
        "        super().__init__(model, sampling, prompts)\n"
        "        assert stop_token == 'END'\n",
    }
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    own = (f"hydra.searchpath=[file://{work}/mine]", "experiment=mine", "+half=0.5", "loop.reflect_below=${half}")
    part = ("actor._target_=stopping.Tokened", "+actor.stop_token=END")
    monkeypatch.syspath_prepend(str(work))
    gone_well(*own, *part, "run_root=own")
    (manifest,) = (json.loads(path.read_text()) for path in work.glob("own/*/manifest.json"))
    assert (manifest["config"]["temperature"], manifest["config"]["loop"]["reflect_below"]) == (0.25, 0.5)


@pytest.mark.parametrize("key", ["actor", "benchmark.load", "model", "tracker"])
def test_part_that_raises_is_a_bug_and_not_a_mistake(gone_well, key):
    with pytest.raises((KeyError, ZeroDivisionError)) as bug:
        gone_well(f"{key}._target_=own_parts.{'Divides' if key == 'tracker' else 'Raises'}")
    assert bug.traceback[-1].path.name == "own_parts.py"
    assert bug.value.__notes__ == [f"while making {key} of its config"]


def test_ids_that_are_paths_write_nowhere_else(work, gone_well):
    odd = ("../../escape", "/etc/passwd", "a/../../b", "~", ".", "..", "con\u202e", "x" * 150, "a\nb", "\x1b[31m")
    rows = [line(TASK, {"task_id": task_id, "visible_tests": ["assert f(1) == 5"]}) for task_id in odd]
    (work / "odd.jsonl").write_bytes(b"".join(rows))

    def around():
        return {path.name for place in (work, work.parent) for path in place.iterdir()}

    before = around()
    gone_well("benchmark.load.path=odd.jsonl", "memory.reflection_files=words", "reflector=rules")
    assert around() - before == {"runs", "words"}
    assert len([*(work / "words").iterdir()]) == len(odd)
