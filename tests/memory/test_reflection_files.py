import functools
import json
from datetime import UTC, datetime

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import CLASSES
from reflexion_lab.errors import StoreError
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.memory.reflection_layout import Changes, MemoryMetadata, ReflectionFile, changes, file_of
from reflexion_lab.records import Category, Check, MemoryState, Step, Task
from tests import builders
from tests.builders import TABLES

REFLECTION = builders.reflection(category="type", lessons=("π", "line\nbreak"))
SCHEMA = jsonschema.Draft202012Validator(msgspec.json.schema(ReflectionFile))
TASK = Task(task_id="HumanEval/0", prompt="def f(x):", entry_point="f")
FAILED = Check(name="assert f(1) == 2", outcome="fail", error_type="AssertionError", message="got 1", line=2)


def reflection_file(number, loop_id="my-loop", reward=0.5, passed=False, reflection=REFLECTION, **fields):
    memory = MemoryState(capacity=3, size=min(number, 3), in_context=min(number - 1, 3), total=number, omega=3)
    attempt = builders.attempt(
        number=number, judged={"passed": passed, "reward": reward}, reflection=reflection, memory=memory
    )
    own = [builders.episode(earlier) for earlier in range(1, number)]
    return replace(file_of(TASK, attempt, loop_id, "ralph", own), **{"timestamp": None, "loop_id": loop_id} | fields)


@pytest.fixture
def files(tmp_path):
    return ReflectionFiles(tmp_path / "reflections")


def changed(path, values):
    """The file with values at dotted places replaced, or removed."""
    content = json.loads(path.read_text())
    for place, value in values.items():
        *parents, name = place.split(".")
        target = functools.reduce(dict.__getitem__, parents, content)
        target.pop(name) if value == "REMOVED" else target.update({name: value})
    path.write_text(json.dumps(content))


def test_a_loop_comes_back_as_it_was_written_in_json_that_a_person_can_read(files):
    written = [reflection_file(number) for number in range(1, 6)]
    paths = [files.write(file) for file in written]
    assert [path.name for path in paths] == ["001.json", "002.json", "003.json", "004.json", "005.json"]
    assert ReflectionFiles(files.folder).read("my-loop") == written
    assert written[-1].memory_metadata == MemoryMetadata(3, 3, (2, 3, 4), 5)
    assert reflection_file(6, passed=True, reflection=None).memory_metadata == MemoryMetadata(3, 3, (2, 3, 4), 5)
    text = files.write(reflection_file(1)).read_text(encoding="utf-8")
    assert '\n    "reward_signal": 0.5,\n' in text
    assert SCHEMA.is_valid(json.loads(text))
    assert "π" in text
    assert msgspec.json.decode(text, type=ReflectionFile) == reflection_file(1)


def test_attempts_are_in_numeric_order_without_those_of_a_longer_earlier_start(files):
    for number in (2, 1001, 1, 9, 10, 100, 999, 1000):
        files.write(reflection_file(number))
    assert [file.number for file in files.read("my-loop")] == [1, 9, 10, 100, 999, 1000]
    assert (files.folder / "my-loop" / "1000.json").is_file()


def test_a_file_is_never_overwritten(files):
    """A restarted loop leaves equal files as they are, and moves those that differ, and the later ones, away."""
    paths = [files.write(reflection_file(number)) for number in (1, 2, 3)]
    first, second, third = (path.read_bytes() for path in paths)
    for number, reward in ((1, 0.5), (2, 0.7), (2, 0.9), (3, 0.9)):
        files.note(reflection_file(number, reward=reward, timestamp=datetime.now(UTC)))
    assert paths[0].read_bytes() == first
    loop = paths[0].parent
    assert [(loop / "earlier-1" / path.name).read_bytes() for path in paths[1:]] == [second, third]
    assert [path.name for path in (loop / "earlier-2").iterdir()] == ["002.json"]
    assert [file.evaluator_output.reward_signal for file in files.read("my-loop")] == [0.5, 0.9, 0.9]
    assert files.loops() == ["my-loop"]


@pytest.mark.parametrize("case", TABLES["failing_actions"])
def test_credit_goes_to_the_actions_that_failed(case):
    """To those that ended in an error, and to the one that wrote the failing program."""
    turns = [Step(action=a, program=p.replace("ADD", builders.ADD), error=e) for a, p, e in case["steps"]]
    attempt = builders.attempt(judged={"passed": case["passed"]}, acted={"steps": tuple(turns)}, reflection=REFLECTION)
    file = file_of(TASK, attempt, "loop", "ralph", [])
    assert list(file.self_reflection.credit_assignment.failing_action_indices) == case["failing"]


def test_the_fields_of_a_file_are_those_of_the_attempt():
    steps = (Step(thought="try", action="run_tests", program="a\nb\nc"), Step(action="finish", program="a\nB\nc\nd"))
    attempt = builders.attempt(
        FAILED, Check(name="mypy", outcome="pass", kind="type"), number=2, recalled=("ep-1",), reflection=REFLECTION,
        acted={"steps": steps, "solution": "a\nB\nc\nd", "strategy": "react", "rationale": "try"},
    )  # fmt: skip
    file = file_of(TASK, attempt, "run/HumanEval/0", "arm", [builders.episode(code="a\nx")])
    assert msgspec.convert(TABLES["reflection_file"], ReflectionFile) == replace(file, timestamp=None)
    numbers = [str(number) for number in range(999)]
    assert changes("\n".join(numbers), "\n".join([*numbers[::-1], "x"])) == Changes(1, 0)  # long: moved lines are not


def test_a_file_of_another_program_becomes_an_episode(files):
    path = files.folder / "ralph-task-1" / "001.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(TABLES["foreign_reflection_file"]))
    (episode,) = files.episodes()
    reflection = episode.reflection
    assert (episode.episode_id, episode.reward, episode.attempt_number) == ("ep-ralph-task-1-1", 0.8, 1)
    assert episode.timestamp == pytest.approx(1769335200.123)
    assert (reflection.root_cause, reflection.what_to_change) == ("no check", "check it")
    assert (reflection.action_items, reflection.lessons) == (("test it",), ("empty input",))


def test_loops_are_apart_and_known_by_name(files):
    assert files.loops() == []
    assert files.read("unknown") == []
    files.write(reflection_file(1, "b"))
    files.write(reflection_file(2, "a"))
    (files.folder / "notes.txt").write_text("x")
    (files.folder / ".hidden").mkdir()
    assert files.loops() == ["a", "b"]
    assert [file.number for file in files.read("a")] == [2]
    assert ReflectionFiles.at(files.folder / "a").loops() == ["a"]


def test_other_files_in_a_loops_folder_are_left_alone(files):
    path = files.write(reflection_file(1))
    for name in (".001.json.7.7", "notes.json", "readme.md"):
        path.with_name(name).write_text("half a wor")
    assert files.read("my-loop") == [reflection_file(1)]


def test_a_failed_attempt_needs_a_reflection_with_any_text(files):
    wordless = builders.reflection(root_cause="", what_went_wrong="", what_to_change="", text="reply", category="?")
    files.write(reflection_file(1, reflection=wordless))
    files.write(reflection_file(2, passed=True, reflection=None))
    first, second = files.read("my-loop")
    assert (first.reflection.text, first.reflection.category, second.reflection) == ("reply", "root_cause", None)
    with pytest.raises(StoreError, match=r"my-loop/003\.json: self_reflection.reflection_text: got a blank text"):
        files.write(reflection_file(3, reflection=None))


@pytest.mark.parametrize(("message", "values"), TABLES["reflection_file_faults"].items())
def test_a_fault_is_named_with_its_file_and_place(files, values, message):
    changed(files.write(reflection_file(3)), values)
    (fault,) = files.faults("my-loop")
    assert fault.startswith(f"{files.folder}/my-loop/003.json: {message}")
    with pytest.raises(StoreError) as caught:
        files.read("my-loop")
    assert fault in str(caught.value)


def test_every_fault_of_every_file_is_named_at_once(files):
    names = ("evaluator_output.reward_signal", "self_reflection.reflection_text", "memory_metadata.omega_capacity")
    changed(files.write(reflection_file(1)), dict(zip(names, (1.2, "REMOVED", "three"), strict=True)))
    changed(files.write(reflection_file(2)), {"self_reflection.confidence": "much"})
    files.write(reflection_file(3))
    text = " ".join(files.faults("my-loop"))
    assert len(files.faults("my-loop")) == 4
    parts = ("001.json: evaluator_", "001.json: self_", "001.json: memory_metadata.omega", "002.json: self_")
    assert all(part in text for part in parts)


@pytest.mark.parametrize("text", ["", "{", "no json", "[]", "null", "3", "[" * 9999])
def test_a_file_that_is_no_object_is_named(files, text):
    path = files.write(reflection_file(1))
    path.write_text(text)
    (fault,) = files.faults("my-loop")
    assert fault.startswith(f"{path}: ")
    assert files.faults("other") == []


def test_a_file_whose_name_is_written_otherwise_is_named(files):
    path = files.write(reflection_file(1))
    path.rename(path.with_name("1.json"))
    (fault,) = files.faults("my-loop")
    assert fault.endswith("my-loop/1.json: name: got '1.json', expected '001.json', as the path says")


def test_an_invalid_file_is_not_written_and_the_older_one_stays(files):
    path = files.write(reflection_file(1))
    for reward in (1.2, float("nan")):
        with pytest.raises(StoreError, match=rf"001\.json: evaluator_output\.reward_signal: got {reward}"):
            files.write(reflection_file(1, reward=reward))
    assert files.read("my-loop") == [reflection_file(1)]
    assert [file.name for file in path.parent.iterdir()] == ["001.json"]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "../up", "a\\b", "nul\0", "line\nbreak"])
def test_no_loop_is_named_by_a_path(files, name):
    with pytest.raises(StoreError, match="loop_id: "):
        files.write(reflection_file(1, name))
    with pytest.raises(StoreError, match="loop_id: "):
        files.read(name)
    assert not files.folder.exists()


@pytest.mark.parametrize("name", ["run 1, HumanEval-0", "ü", "a.b", "ralph-task-123"])
def test_any_plain_name_is_a_loop_id(files, name):
    files.write(reflection_file(1, name))
    assert files.loops() == [name]
    assert files.read(name) == [reflection_file(1, name)]


def test_every_class_of_the_rules_is_a_category():
    assert set(CLASSES) < set(Category)
    assert tuple(CLASSES) == tuple(Category)[: len(CLASSES)]


def test_a_disk_that_takes_nothing_is_an_error_that_names_the_file_or_one_warning_in_a_run(tmp_path):
    (tmp_path / "file").write_text("")
    files = ReflectionFiles(tmp_path / "file")
    with pytest.raises(StoreError, match=r"file/my-loop/001\.json: not written"):
        files.write(reflection_file(1))
    with pytest.warns(RuntimeWarning, match=r"not written .*; the run continues") as warned:
        for number in (1, 2):
            files.note(reflection_file(number))
    assert len(warned) == 1
