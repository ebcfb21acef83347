"""`reflexion-lab memory`: it looks, checks, and moves records; a mistake changes nothing."""

import json
import time

import jsonschema
import msgspec
import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.errors import ConfigError, StoreError
from reflexion_lab.memory.episodic import episode_of, session_id
from reflexion_lab.memory.reflection_files import ReflectionFiles
from reflexion_lab.memory.reflection_layout import file_of
from reflexion_lab.records import Attempt, Check, Episode, Item, Manifest, Task, Wisdom
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from tests import builders
from tests.builders import TABLES

WISDOM = Wisdom(wisdom_id="wis-1", pattern="p", frequency=2, impact=0.5, domain="code")
ITEM = Item(item_id="item-1", text="sort first")
REMOVED = Item(item_id="item-2", text="")


def ids(episodes) -> list[str]:
    return [episode["episode_id"] for episode in episodes]


def test_show_counts_the_records(lab, fill, episode):
    place = fill(episode(1), episode(2, task_id="task/1", passed=True, reflection=None), WISDOM, ITEM, REMOVED)
    page = lab("memory", "show", "--store", place, "--json")
    records = {"episodes": 2, "wisdom": 1, "mistakes": 1, "items": 1}
    totals = {"tasks": 1, "loops": 2, "passed": 1, "categories": {"assertion": 1, "none": 1}}
    assert page.json == {"store": str(place), **records, **totals, "newest": ["ep-2", "ep-1"]}
    assert "2 episodes, 1 mistake, 1 wisdom, 1 item" in page.out
    assert "the loop ends early" in page.out


def test_show_limits_the_newest(lab, fill, episode):
    place = fill(*map(episode, range(5)))
    for limit, newest in (("2", ["ep-4", "ep-3"]), ("0", [])):
        assert lab("memory", "show", "--store", place, "--limit", limit, "--json").json["newest"] == newest


def test_show_prints_one_episode_whole(lab, fill, episode):
    place = fill(episode(1), episode(2, test_results="line one\nline two"))
    page = lab("memory", "show", "--store", place, "--episode", "ep-2", "--json")
    assert msgspec.convert(page.json, Episode) == episode(2, test_results="line one\nline two")
    assert "line one\nline two" in page.raw
    assert "reflection.what_to_change: count to n" in page.out
    with pytest.raises(ValueError, match="--episode: got 'ep-9', expected the id of an episode"):
        lab("memory", "show", "--store", place, "--episode", "ep-9")


@pytest.mark.parametrize(("options", "expected"), TABLES["memory_search"])
def test_search_filters_by_its_options(lab, fill, episode, reflection, options, expected):
    typed = reflection("an empty list", category="type")
    place = fill(episode(1, passed=True), episode(2, "overflow"), episode(3, reflection=typed, confidence=0.9))
    result = lab("memory", "search", *options, "--store", place, "--json")
    assert ids(result.json["episodes"]) == expected
    assert result.json["n"] == len(expected)


def test_patterns_are_shared_by_several_reflections(lab, fill, episode, reflection):
    lessons_of = [("Check bounds",), ("check the bounds!", "Sort first"), ("sort first",), ("Check bounds",)]
    place = fill(*(episode(n, reflection=reflection(lessons=lessons)) for n, lessons in enumerate(lessons_of)))
    result = lab("memory", "patterns", "--store", place, "--json")
    counts = [(pattern["text"], pattern["count"]) for pattern in result.json["patterns"]]
    assert counts == [("Check bounds", 3), ("Sort first", 2)]
    assert "Patterns: 2 in 4 reflections" in result.out and "Check bounds" in result.out
    assert "--limit 0 shows all" in lab("memory", "patterns", "--store", place, "--limit", "1").out
    assert "no pattern found" in lab("memory", "patterns", "--store", place, "--min-frequency", "4").out


@pytest.mark.parametrize(
    "command", ["memory search", "memory show", "memory show --episode ep-1", "wisdom list", "wisdom show wis-1"]
)
def test_a_model_cannot_speak_to_the_terminal(lab, fill, episode, command):
    hostile = "\x1b[31mred [bold]loud[/bold] [/nothing] \u202ebackwards"
    wisdom = replace(WISDOM, pattern=hostile, advice=hostile, tags=(hostile,), sources=("ep-1",))
    place = fill(episode(1, hostile, code="\x1b]0;title\x07"), wisdom)
    page = lab(*command.split(), "--store", place)
    assert "\x1b" not in page.raw and "\x07" not in page.raw and "\u202e" not in page.raw
    assert "[bold]" in page.raw and "\\x1b[31mred" in page.raw


def test_prune_removes_the_old_and_says_how_many(lab, fill, held, episode):
    now = time.time()
    place = fill(episode(1), episode(2, timestamp=now - 86400), episode(3, timestamp=now), WISDOM)
    dry = lab("memory", "prune", "--days", "30", "--dry-run", "--store", place)
    assert dry.out.startswith("1 episodes of 30 days or older would be removed")
    assert len(held(Episode)) == 3
    assert lab("memory", "prune", "--days", "30", "--store", place).out.startswith("1 episodes of")
    assert [record.episode_id for record in held(Episode)] == ["ep-2", "ep-3"]
    assert held(Wisdom) == [WISDOM]


def test_clear_needs_confirmation_and_removes_every_kind(lab, fill, held, episode):
    place = fill(episode(1), episode(2), WISDOM, ITEM)
    dry = lab("memory", "clear", "--store", place)
    assert "2 episodes, 1 wisdom, 1 item would be removed" in dry.out
    assert lab("memory", "clear", "--yes", "--store", place).out.startswith("2 episodes, 1 wisdom")
    assert "0 episodes, 0 wisdom, 0 items" in lab("memory", "clear", "--store", place).out


COMMANDS = [
    *("memory show", "memory search", "memory patterns", "memory prune --days 1", "memory export x.jsonl"),
    *("wisdom list", "wisdom show x", "wisdom stats", "wisdom extract"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.slow
def test_a_missing_store_is_an_error_and_not_made(lab, place, command):
    with pytest.raises(ValueError, match=r"--store: got no store .*store=sqlite or store=jsonl") as caught:
        lab(*command.split(), "--store", place)
    assert not place.exists()
    for kind in ("sqlite", "jsonl"):
        assert compose(f"store={kind}").store.place in str(caught.value)


@pytest.mark.parametrize("name", ["all.jsonl", "all.json"])
def test_an_export_comes_back_whole(lab, fill, held, episode, tmp_path, name):
    fill_in = [episode(1), episode(2), WISDOM, ITEM, REMOVED]
    file, other = tmp_path / name, tmp_path / "other.sqlite"
    lab("memory", "export", file, "--store", fill(*fill_in))
    assert lab("memory", "validate", file).code == 0
    page = lab("memory", "import", file, "--store", other, "--json").json
    assert page["new"] == {"episodes": 2, "wisdom": 1, "items": 2}
    assert set(page["replaced"].values()) == {0}
    third = tmp_path / "third"
    lab("memory", "import", other, "--store", third)  # a store itself
    for kind in (Episode, Wisdom, Item):
        assert held(kind, third) == held(kind, other) == held(kind)


@pytest.mark.parametrize("store", ["store.sqlite", "store", "other.db"])
def test_an_export_never_replaces_a_store(lab, fill, held, episode, tmp_path, store):
    place, other = fill(episode(1)), opened(str(tmp_path / store))
    other.append([episode(2)])
    other.close()
    target = tmp_path / store / "episodes.jsonl" if store == "store" else tmp_path / store
    (tmp_path / "alias.jsonl").symlink_to(target)
    before = target.read_bytes()
    for name in (target, tmp_path / "alias.jsonl"):
        with pytest.raises(ValueError, match="is a store, or part of one"):
            lab("memory", "export", name, "--store", place)
    assert target.read_bytes() == before


def test_an_import_counts_new_and_replaced_records(lab, fill, held, episode, tmp_path):
    file = tmp_path / "all.jsonl"
    lab("memory", "export", file, "--store", fill(episode(1), episode(2)))
    place = fill(episode(3))
    again = lab("memory", "import", file, file, "--store", place, "--json")
    assert (again.json["new"]["episodes"], again.json["replaced"]["episodes"]) == (0, 4)
    assert "episodes: 0 new, 4 replaced" in again.out
    assert [record.episode_id for record in held(Episode)] == ["ep-1", "ep-2", "ep-3"]


def test_a_bad_file_imports_nothing(lab, fill, held, episode, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    place = fill(episode(1))
    lab("memory", "export", good, "--store", place)
    bad.write_text(good.read_text().replace('"agent_id":"arm"', '"agent_id":7'))
    other = tmp_path / "other.sqlite"
    with pytest.raises(ValueError, match=r"bad\.jsonl, line 2: .*nothing was imported"):
        lab("memory", "import", good, bad, "--store", other)
    assert held(Episode, other) == []
    for nothing in (tmp_path / "absent.jsonl", tmp_path):
        with pytest.raises(ValueError, match=r"got (nothing|no file such as 001.json), expected a store, an export"):
            lab("memory", "import", good, nothing, "--store", other)
    assert held(Episode, other) == []


def attempt(number, passed=False, **fields) -> Attempt:
    check = Check(name="assert f()", outcome="pass" if passed else "fail", message="no")
    judged = {"reward": float(passed), "feedback": "no"}
    acted = {"solution": f"x = {number}"}
    return builders.attempt(check, number=number, task_id="task/a", judged=judged, acted=acted, **fields)


def manifest(**fields) -> Manifest:
    known = {"created_at": "2026-01-02T03:04:05Z", "config": {"arm": "reflexion"}, "benchmark": "toy"}
    return builders.manifest("run-1", **known | fields)


@pytest.fixture
def run(tmp_path, reflection):
    """A run of one task and two attempts; `write` may change its manifest."""

    def write(**fields):
        folder = RunFolder(tmp_path / "run")
        folder.write_manifest(manifest(**fields))
        folder.append("attempts.jsonl", attempt(1, reflection=reflection(), recalled_wisdom=("wis-1",)))
        folder.append("attempts.jsonl", attempt(2, passed=True))
        folder.close()
        return folder.path

    return write


def test_imported_attempts_become_the_runs_own_episodes(lab, place, held, run, reflection):
    page = lab("memory", "import", run(), "--store", place, "--json")
    assert page.json["new"] == {"episodes": 2, "wisdom": 0, "items": 0}
    assert "without the tasks' prompts" in page.out
    began = 1767323045.0  # 2026-01-02T03:04:05Z
    task = Task(task_id="task/a", prompt="", entry_point="")
    attempts = [attempt(1, reflection=reflection(), recalled_wisdom=("wis-1",)), attempt(2, passed=True)]
    expected = [episode_of(task, record, session_id("run-1", "task/a"), "reflexion") for record in attempts]
    assert held(Episode) == [replace(record, timestamp=began) for record in expected]
    before = held(Episode)
    again = lab("memory", "import", place.parent / "run", "--store", place, "--json").json
    assert (again["new"]["episodes"], again["replaced"]["episodes"]) == (0, 2)
    assert held(Episode) == before


def test_episodes_stored_by_the_run_keep_prompt_and_time(lab, fill, held, run):
    task = Task(task_id="task/a", prompt="sum the numbers", entry_point="")
    stored = episode_of(task, attempt(2, passed=True), session_id("run-1", "task/a"), "reflexion")
    lab("memory", "import", run(), "--store", fill(replace(stored, timestamp=77.0)))
    kept = {record.attempt_number: record for record in held(Episode)}
    assert (kept[2].task_description, kept[2].timestamp) == ("sum the numbers", 77.0)
    assert kept[1].task_description == ""


def test_prompts_come_from_the_benchmark_that_a_run_names(lab, place, held, tmp_path):
    benchmark = Benchmark(name="basics", tasks=tuple(basics(seed=3, n=2)))
    node = {"name": "basics", "load": {"_target_": "reflexion_lab.tasks.benchmarks.basics.basics", "seed": 3, "n": 2}}
    config = {"arm": "a", "benchmark": node | {"ids": None, "sample": None, "limit": None}}
    folder = RunFolder(tmp_path / "run")
    folder.write_manifest(manifest(config=config, benchmark_digest=benchmark.digest, seed=3))
    first = benchmark.tasks[0]
    folder.append("attempts.jsonl", replace(attempt(1), task_id=first.task_id))
    result = {"task_id": first.task_id, "attempts": 1, "submitted": 1, "best": 1, "last": 1, "stop_reason": "x"}
    (folder.path / "results.jsonl").write_text(json.dumps(result | {"feedback_source": "visible", "duration": 1.0}))
    folder.close()
    page = lab("memory", "import", folder.path, "--store", place)
    assert "without the tasks' prompts" not in page.out
    assert [record.task_description for record in held(Episode)] == [first.prompt]


def test_reflections_that_leak_hidden_tests_are_refused(lab, place, held, run):
    with pytest.raises(ValueError, match="got reflections of a loop that was shown hidden tests, expected another run"):
        lab("memory", "import", run(feedback_source="oracle"), "--store", place)
    assert held(Episode) == []


def test_a_sound_place_has_no_problems(lab, fill, episode, run):
    checked = lab("memory", "validate", fill(episode(1), WISDOM), run())
    assert checked.code == 0
    assert checked.out.count("no problems found") == 2


def test_every_bad_line_of_an_export_is_named(lab, fill, episode, tmp_path):
    good = tmp_path / "good.jsonl"
    lab("memory", "export", good, "--store", fill(episode(1), replace(WISDOM, impact=0.5)))
    header, record, *rest = good.read_text().splitlines()
    wrong_type, no_agent = record.replace('"passed":false', '"passed":"no"'), record.replace('"arm"', '""')
    beyond = record.replace('"confidence":0.5', '"confidence":1.5')
    bad = tmp_path / "bad.jsonl"
    bad.write_text("\n".join([header, record, record[:-5], wrong_type, "17", no_agent, beyond, *rest]))
    checked = lab("memory", "validate", bad)
    assert checked.code == 1
    printed = checked.raw.splitlines()
    assert [line.partition(": ")[0] for line in printed[:-1]] == [f"{bad}, line {n}" for n in (3, 4, 5, 6, 7, 7)]
    for word, line in zip(("JSON", "bool", "object", "agent_id", "confidence"), printed, strict=False):
        assert word in line
    assert printed[-1] == f"{bad}: 6 problems found"


@pytest.mark.parametrize(("name", "text", "count", "message"), TABLES["faults of an export"])
def test_every_fault_of_an_export_is_named_once(lab, tmp_path, name, text, count, message):
    (tmp_path / name).write_text(text)
    checked = lab("memory", "validate", tmp_path / name)
    assert checked.code == 1
    assert message in checked.out
    assert len(checked.raw.splitlines()) == count + 1


def test_numbers_out_of_range_in_a_store_are_reported(lab, fill):
    place = fill(replace(WISDOM, impact=1.5, success_rate=-0.1, frequency=1, use_count=-2))
    checked = lab("memory", "validate", place)
    assert checked.code == 1
    for field in ("impact: got 1.5", "success_rate: got -0.1", "frequency: got 1", "use_count: got -2"):
        assert f"{field}, expected" in checked.out


def test_a_file_that_is_no_store_is_a_problem_of_its_own(lab, tmp_path):
    file = tmp_path / "x.sqlite"
    file.write_bytes(b"not a database at all, not at all" * 100)
    for nothing in (file, tmp_path / "absent", tmp_path):
        checked = lab("memory", "validate", nothing)
        assert checked.code == 1
        assert "1 problem found" in checked.out


@pytest.fixture
def files(tmp_path):
    """Reflection files of two loops, one attempt each."""
    files = ReflectionFiles(tmp_path / "loops")
    for loop in ("one", "two"):
        attempt = builders.attempt(reflection=builders.reflection(root_cause=f"in {loop}", lessons=("try it",)))
        files.write(file_of(Task(task_id="t/1", prompt="p", entry_point="f"), attempt, loop, "ralph", []))
    return files.folder


def test_reflection_files_are_checked_loop_by_loop(lab, files):
    assert lab("memory", "validate", files).code == 0
    assert lab("memory", "validate", files / "one").code == 0
    written = files / "two" / "001.json"
    content = json.loads(written.read_text()) | {"iteration": 7, "agent_id": 3}
    written.write_text(json.dumps(content))
    checked = lab("memory", "validate", files)
    assert checked.code == 1
    assert "agent_id: got 3, expected str" in checked.out
    assert lab("memory", "validate", files / "one").code == 0
    with pytest.raises(StoreError, match="agent_id: got 3"):
        lab("memory", "search", "--store", files)


def test_the_schema_of_reflection_files_is_printed_for_other_validators(lab, files):
    schema = jsonschema.Draft202012Validator(json.loads(lab("memory", "schema").raw))
    content = json.loads((files / "one" / "001.json").read_text())
    assert schema.is_valid(content)
    blank = {"self_reflection": content["self_reflection"] | {"reflection_text": " "}}
    assert not schema.is_valid(content | {"timestamp": "yesterday"}) and not schema.is_valid(content | blank)
    del content["self_reflection"]["reflection_text"]
    assert not schema.is_valid(content)


def test_reflection_files_are_searched_like_a_store(lab, files, tmp_path):
    def searched(place, *options):
        return ids(lab("memory", "search", *options, "--store", place, "--json").json["episodes"])

    assert searched(files, "TWO") == ["ep-two-1"]
    assert searched(files, "--min-confidence", 0.6) == []
    assert searched(files / "one") == ["ep-one-1"]
    assert lab("memory", "show", "--store", files, "--json").json["episodes"] == 2
    (pattern,) = lab("memory", "patterns", "--store", files, "--json").json["patterns"]
    assert (pattern["text"], pattern["count"]) == ("try it", 2)
    store = tmp_path / "m.sqlite"
    assert lab("memory", "import", files, "--store", store, "--json").json["new"]["episodes"] == 2
    assert searched(store, "two") == ["ep-two-1"]
    for command in (("prune", "--days", 0), ("clear", "--yes"), ("import", store)):
        with pytest.raises(
            ConfigError, match=r"got (reflection files at .*, which are only read|.*, a folder of refl)"
        ):
            lab("memory", *command, "--store", files)
    assert len([*files.rglob("*.json*")]) == 2


def test_imported_reflection_files_replace_no_fuller_episode(lab, fill, held, reflection, tmp_path):
    task, files = Task(task_id="日" * 30, prompt="p", entry_point="f"), ReflectionFiles(tmp_path / "loops")
    attempts, session = [attempt(1, reflection=reflection()), attempt(2, passed=True)], session_id("run-1", "日" * 30)
    whole = [episode_of(task, record, session, "arm") for record in attempts]
    for record in attempts:
        files.write(file_of(task, record, session, "arm", []))
    page = lab("memory", "import", files.folder, "--store", fill(whole[0]))
    assert "since the store has their episodes: 1" in page.out and "episodes: 1 new, 0 replaced" in page.out
    assert held(Episode)[0] == whole[0]
    read = [(episode.session_id, replace(episode.results, failing=())) for episode in files.episodes()]
    assert read == [(session, replace(episode.results, failing=())) for episode in whole]


def test_analyze_measures_what_loops_learnt(lab, fill):
    learnt = {"lessons": ("Try it", "try  it"), "category": "type"}
    episodes = [
        builders.episode(n, episode_id=f"{session}-{n}", session_id=session, task_id=session[-1], timestamp=start,
                         reward=reward, passed=passed, metadata={"errors": str(errors)},
                         reflection=None if passed else builders.reflection(n, **learnt))
        for session, (start, attempts) in builders.TABLES["learning"]["loops"].items()
        for n, (reward, errors, passed) in enumerate(attempts, 1)
    ]  # fmt: skip
    page = lab("memory", "analyze", "--store", fill(*reversed(episodes)), "--json")
    learning = page.json
    assert learning["loops solved"]["units"] == "2 tasks"
    measures = builders.TABLES["learning"]["measures"].items()
    expected = {name: pytest.approx(v, abs=1e-5) if isinstance(v, float) else v for name, v in measures}
    rates = {name: [v["k"], v["n"]] for name, v in learning.items() if isinstance(v, dict) and "share" in v}
    assert learning | rates == expected
    assert page.out.startswith("loops solved: 60.0 %")
    assert all(len(line) <= 80 for line in page.raw.splitlines()[:-1])
    assert len(page.raw.splitlines()) <= 15


def test_analyze_reads_runs_stores_and_reflection_files_alike(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("preset=ralph", "actor=single_shot", "model=simulated", "model.first=0.3", "benchmark.limit=3")
    rl.run(*words, "store=sqlite", "evaluator=unit_tests", "tracker=none", quiet=True)
    measured = [
        lab("memory", "analyze", *place, "--json").json
        for place in (["runs"], ["--last", 1], ["--store", "runs/reflections"], ["--store", "runs/memory.sqlite"])
    ]
    assert measured[0]["attempts"] > 3
    assert all(learning == measured[0] for learning in measured)


def test_a_password_in_a_url_is_never_printed(lab):
    url = "postgresql://me:secret@127.0.0.1:1/nothing?password=secret"
    checked = lab("memory", "validate", url)
    assert checked.code == 1
    assert "secret" not in checked.raw
    with pytest.raises(StoreError) as problem:
        lab("memory", "show", "--store", url)
    assert "secret" not in str(problem.value)


def test_an_empty_store_can_be_looked_at(lab, place):
    opened(str(place)).close()
    if place.suffix == ".sqlite":  # a folder without a record is no store yet
        assert lab("memory", "show", "--store", place, "--json").json["episodes"] == 0
        assert "no episode found" in lab("memory", "search", "--store", place).out
