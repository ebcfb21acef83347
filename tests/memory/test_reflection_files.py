import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.agent.reflectors.evidence import CLASSES
from reflexion_lab.errors import StoreError
from reflexion_lab.memory.reflection_files import WORDS, ReflectionFile, ReflectionFiles
from reflexion_lab.records import Category, MemoryState
from tests import builders

REFLECTION = builders.reflection(category="type", lessons=("π", "line\nbreak"))


def reflection_file(number, loop_id="my-loop", omega=3, reward=0.5, passed=False, reflection=REFLECTION):
    return ReflectionFile(
        loop_id=loop_id, attempt_number=number, task_id="HumanEval/0", passed=passed, reward=reward,
        reflection=reflection,
        memory=MemoryState(capacity=3, size=min(number, 3), in_context=min(number - 1, 3), total=number, omega=omega),
        in_context=tuple(range(max(1, number - 3), number)),
    )  # fmt: skip


@pytest.fixture
def files(tmp_path):
    return ReflectionFiles(tmp_path / "reflections")


def changed(path, **values):
    """The file with values at dotted paths replaced, or removed where the value is ...; keys join with __."""
    content = json.loads(path.read_text())
    for place, value in values.items():
        *parents, name = place.split("__")
        target = content
        for parent in parents:
            target = target[parent]
        if value is ...:
            del target[name]
        else:
            target[name] = value
    path.write_text(json.dumps(content))


def test_a_loop_comes_back_as_it_was_written(files):
    written = [reflection_file(number) for number in range(1, 6)]
    paths = [files.write(file) for file in written]
    assert [path.name for path in paths] == ["001.json", "002.json", "003.json", "004.json", "005.json"]
    assert ReflectionFiles(files.folder).read("my-loop") == written
    last = written[-1]
    assert (last.in_context, last.memory.size, last.memory.total) == ((2, 3, 4), 3, 5)


def test_attempts_are_in_numeric_order_and_replaced_when_rewritten(files):
    for number in (1000, 10, 999, 9, 100, 1, 1):
        files.write(reflection_file(number, reward=number / 1000))
    files.write(reflection_file(1, reward=0.2))
    assert [(file.attempt_number, file.reward) for file in files.read("my-loop")] == [
        (1, 0.2), (9, 0.009), (10, 0.01), (100, 0.1), (999, 0.999), (1000, 1.0),
    ]  # fmt: skip
    assert (files.folder / "my-loop" / "1000.json").is_file()


def test_a_restarted_loop_removes_the_later_files_of_the_first(files):
    for number in (1, 2, 3, 1, 2):
        files.note(reflection_file(number))
    assert [file.attempt_number for file in files.read("my-loop")] == [1, 2]


def test_loops_are_apart_and_known_by_name(files):
    assert files.loops() == []
    assert files.read("unknown") == []
    files.write(reflection_file(1, "b"))
    files.write(reflection_file(2, "a"))
    (files.folder / "notes.txt").write_text("x")
    (files.folder / ".hidden").mkdir()
    assert files.loops() == ["a", "b"]
    assert [file.attempt_number for file in files.read("a")] == [2]


def test_other_files_in_a_loops_folder_are_left_alone(files):
    path = files.write(reflection_file(1))
    for name in (".001.json.7.7", "notes.json", "readme.md"):
        path.with_name(name).write_text("half a wor")
    assert files.read("my-loop") == [reflection_file(1)]


def test_a_failed_attempt_needs_a_reflection_with_any_text(files):
    changed(files.write(reflection_file(1)), reflection__root_cause="", reflection__what_to_change="")
    assert files.faults("my-loop") == []
    files.write(reflection_file(1, passed=True, reflection=None))
    assert files.read("my-loop")[0].reflection is None
    with pytest.raises(StoreError, match=r"my-loop/002\.json: reflection: got None"):
        files.write(reflection_file(2, reflection=None))


WRONG = [
    ({"reward": 1.2}, "reward: got 1.2, expected 0..1"),
    ({"reward": -0.1}, "reward: got -0.1, expected 0..1"),
    ({"reward": "high"}, "reward: got 'high', expected float"),
    ({"reward": ...}, "reward: got nothing, expected a value"),
    ({"reflection__confidence": 3}, "reflection.confidence: got 3, expected 0..1"),
    ({"reflection__category": "boredom"}, "reflection.category: got 'boredom', expected one of no_program, "),
    (
        {f"reflection__{field}": " " for field in WORDS},
        "reflection: got blank texts, expected at least one of root_cause, what_went_wrong, what_to_change",
    ),
    ({"reflection__what_to_change": ...}, "reflection.what_to_change: got nothing, expected a value"),
    ({"reflection__lessons": ["a", 5]}, "reflection.lessons[1]: got ['a', 5], expected str"),
    ({"reflection__usage__calls": "x"}, "reflection.usage.calls: got 'x', expected int"),
    ({"reflection": "words"}, "reflection: got 'words', expected object | null"),
    ({"reflection": None}, "reflection: got None, expected the reflection on a failed attempt"),
    ({"memory": None}, "memory: got None, expected object"),
    ({"memory__capacity": 0}, "memory.capacity: got 0, expected 1 or more"),
    ({"memory__size": -1}, "memory.size: got -1, expected 0 or more"),
    ({"memory__total": ...}, "memory.total: got nothing, expected a value"),
    ({"memory__omega": -1}, "memory.omega: got -1, expected 0 or more, or null"),
    ({"schema_version": 2}, "schema_version: got 2, expected 1"),
    ({"attempt_number": 0}, "attempt_number: got 0, expected 1 or more"),
    ({"attempt_number": 4}, "attempt_number: got 4, expected 3, as the path says"),
    ({"loop_id": "other"}, "loop_id: got 'other', expected 'my-loop', as the path says"),
]


@pytest.mark.parametrize(("values", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_fault_is_named_with_its_file_and_place(files, values, message):
    changed(files.write(reflection_file(3)), **values)
    (fault,) = files.faults("my-loop")
    assert fault.startswith(f"{files.folder}/my-loop/003.json: {message}")
    with pytest.raises(StoreError) as caught:
        files.read("my-loop")
    assert fault in str(caught.value)


def test_every_fault_of_every_file_is_named_at_once(files):
    changed(files.write(reflection_file(1)), reward=1.2, reflection__root_cause=..., memory__omega="three")
    changed(files.write(reflection_file(2)), reflection__category="boredom")
    files.write(reflection_file(3))
    text = " ".join(files.faults("my-loop"))
    assert len(files.faults("my-loop")) == 4
    for expected in ("001.json: reward", "001.json: reflection.root_cause", "001.json: memory.omega", "002.json: refl"):
        assert expected in text


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
    assert files.faults("my-loop") == [f"{path.with_name('1.json')}: name: got 1.json, expected 001.json"]


def test_an_invalid_file_is_not_written_and_the_older_one_stays(files):
    path = files.write(reflection_file(1))
    with pytest.raises(StoreError, match=r"001\.json: reward: got 1.2.*001\.json: memory\.capacity: got 0"):
        files.write(
            replace(reflection_file(1, reward=1.2), memory=MemoryState(capacity=0, size=0, in_context=0, total=0))
        )
    with pytest.raises(StoreError, match="reward: got nan"):
        files.write(reflection_file(1, reward=float("nan")))
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


def test_concurrent_readers_and_writers_see_whole_files(files):
    files.write(reflection_file(1))
    contents = [reflection_file(1, reflection=replace(REFLECTION, text=letter * 50_000)) for letter in "ab"]
    read = []
    with ThreadPoolExecutor(8) as threads:
        written = [threads.submit(files.write, contents[n % 2]) for n in range(40)]
        while not all(future.done() for future in written):
            read += files.read("my-loop")
    assert all(future.result() for future in written)
    assert all(file in (reflection_file(1), *contents) for file in read)
    assert files.read("my-loop")[0] in contents
    assert [path.name for path in (files.folder / "my-loop").iterdir()] == ["001.json"]


def test_files_are_json_that_a_person_can_read(files):
    text = files.write(reflection_file(1)).read_text(encoding="utf-8")
    assert '\n  "reward": 0.5,\n' in text
    assert "π" in text
    assert msgspec.json.decode(text, type=ReflectionFile) == reflection_file(1)
