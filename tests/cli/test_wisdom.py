"""`reflexion-lab wisdom`: out of episodes, into tables, and against a baseline."""

import pytest
from msgspec.structs import replace

from reflexion_lab.memory.lessons.wisdom import wisdom_of
from reflexion_lab.records import Episode, Wisdom

EARLY, EMPTY = "the loop ends early", "the list is empty"


def wisdom(number, **fields) -> Wisdom:
    known = {"wisdom_id": f"wis-{number}", "pattern": f"cause {number}", "frequency": 2, "impact": 0.5}
    return Wisdom(**known | {"domain": "code", "tags": ("cause",), "advice": "look", "sources": ("ep-1",)} | fields)


def test_extract_finds_recurring_causes_and_repeats_nothing(lab, fill, held, episode):
    episodes = [episode(1, EARLY), episode(2, EMPTY), episode(3, EARLY)]
    place = fill(*episodes)
    page = lab("wisdom", "extract", "--store", place, "--json")
    assert page.json["new"] == 1
    assert held(Wisdom) == wisdom_of(episodes)
    again = lab("wisdom", "extract", "--store", place, "--json")
    assert "nothing changed" in again.out
    assert (again.json["new"], again.json["changed"]) == (0, 0)
    assert held(Wisdom) == wisdom_of(episodes)


def test_extracting_more_raises_the_count_and_keeps_the_usage(lab, fill, held, episode):
    place = fill(episode(1), episode(2))
    lab("wisdom", "extract", "--store", place)
    (entry,) = held(Wisdom)
    used = replace(entry, use_count=3, success_rate=2 / 3, last_used_at=9.0)
    fill(used, episode(3))
    assert lab("wisdom", "extract", "--store", place, "--json").json["changed"] == 1
    sources, tasks = ("ep-1", "ep-2", "ep-3"), ("task/1", "task/2", "task/3")
    assert held(Wisdom) == [replace(used, frequency=3, sources=sources, tasks=tasks)]


def test_extract_counts_what_episodes_say_they_read(lab, fill, held, episode):
    place = fill(episode(1), episode(2))
    lab("wisdom", "extract", "--store", place)
    (entry,) = held(Wisdom)
    read = {"wisdom": f"{entry.wisdom_id} wis-of-old"}
    fill(episode(3, EMPTY, metadata=read, passed=True), episode(4, EMPTY, metadata=read))
    for _ in range(2):
        lab("wisdom", "extract", "--store", place)
        assert held(Wisdom) == [replace(entry, use_count=2, success_rate=0.5, last_used_at=1004.0)]


def test_nothing_comes_of_a_store_without_failures(lab, fill, held, episode):
    place = fill(episode(1, passed=True))
    page = lab("wisdom", "extract", "--store", place, "--json")
    assert page.json == {"store": page.json["store"], "episodes": 1, "wisdom": 0, "new": 0, "changed": 0}
    assert held(Wisdom) == []
    assert "never read by an actor" in lab("wisdom", "stats", "--store", place).out
    assert "no wisdom found" in lab("wisdom", "list", "--store", place).out


RETIRED = wisdom(3, domain="testing", use_count=5, success_rate=0.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["wis-2", "wis-1", "wis-3"]),
        (["--domain", "testing"], ["wis-3"]),
        (["--tag", "Mutex"], ["wis-2"]),
        (["--retired"], ["wis-3"]),
        (["--domain", "code", "--retired"], []),
        (["--limit", "1"], ["wis-2", "wis-1", "wis-3"]),  # of the table
    ],
)
def test_list_filters_by_its_options(lab, fill, options, expected):
    place = fill(wisdom(1), wisdom(2, frequency=7, tags=("mutex",)), RETIRED)
    page = lab("wisdom", "list", *options, "--store", place, "--json")
    assert [entry["wisdom_id"] for entry in page.json["wisdom"]] == expected
    assert [entry["retired"] for entry in page.json["wisdom"]] == [name == "wis-3" for name in expected]
    assert ("wis-1" in page.raw.partition("{")[0]) == ("wis-1" in expected and "--limit" not in options)


def test_ids_stand_whole_in_a_list_of_80_characters(lab, fill, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = "the helper compares items that were never sorted before, " * 3
    fields = {"pattern": words, "domain": "concurrency", "use_count": 9, "success_rate": 0.0}
    place = fill(wisdom(1, wisdom_id="wis-0123456789ab", **fields))
    page = lab("wisdom", "list", "--store", place)
    assert " wis-0123456789ab " in page.raw
    assert "(retired) the" in page.out


def test_show_quotes_the_episodes_that_the_store_still_has(lab, fill, episode):
    place = fill(wisdom(1, use_count=2, success_rate=0.5, sources=("ep-1", "ep-9")), episode(1), episode(2))
    page = lab("wisdom", "show", "wis-1", "--store", place, "--json")
    assert [entry["episode_id"] for entry in page.json["episodes"]] == ["ep-1"]
    for words in ("pattern: cause 1", "what to change: look", "read by 2 attempts, 50 % passed", "the loop ends early"):
        assert words in page.out
    assert "ep-2" not in page.out
    with pytest.raises(ValueError, match="wisdom: got 'wis-9', expected one of 1 ids"):
        lab("wisdom", "show", "wis-9", "--store", place)


def test_stats_count_use_success_and_retirement(lab, fill):
    page = lab(
        "wisdom", "stats", "--store", fill(wisdom(1), wisdom(2, use_count=5, success_rate=0.8), RETIRED), "--json"
    )
    figures = {"wisdom": 3, "used": 2, "retired": 1, "uses": 10, "domains": {"code": 2, "testing": 1}}
    assert page.json.items() >= figures.items()
    assert (page.json["success"]["k"], page.json["success"]["n"]) == (4, 10)
    assert "40.0 % [16.8, 68.7] (4 of 10 uses, Wilson 95 %)" in page.out


@pytest.fixture
def reading_run(write_run, attempt):
    """The folder of a run with one attempt a task: whether it passes, and what it read."""

    def write(name, verdicts, reads=()):
        attempts = {task: [attempt(task, 1, float(passed), recalled_wisdom=reads)] for task, passed in verdicts.items()}
        return write_run(attempts=attempts, name=name).path

    return write


def test_stats_with_runs_print_the_transfer_report(lab, fill, reading_run):
    place = fill(wisdom(1), wisdom(2))
    run = reading_run("with", {"a": True, "b[/x]": False, "c": True}, ("wis-1",))
    baseline = reading_run("without", {"a": True, "b[/x]": True, "c": False})
    page = lab("wisdom", "stats", run, "--baseline", baseline, "--store", place, "--json")
    report = page.json["transfer"]
    assert (report["used"]["k"], report["used"]["n"]) == (1, 2)
    assert (report["read"]["wisdom"]["k"], report["read"]["wisdom"]["n"]) == (3, 3)
    assert report["against"]["lost"] == ["b[/x]"]
    assert "negative transfer, solved only without wisdom: 1: b[/x]" in page.out
    assert "gained, solved only with wisdom: 1: c" in page.out
    assert "1 gained, 1 lost; p = 1, exact test over tasks" in page.out
    assert "wisdom entries read at least once: 50.0 %" in page.out


def test_runs_can_be_reported_without_a_store(lab, place, reading_run):
    page = lab("wisdom", "stats", reading_run("with", {"a": True}), "--store", place, "--json")
    assert page.json["transfer"]["used"] is None
    assert not place.exists()


def test_a_baseline_needs_a_run_beside_it(lab, fill, episode, tmp_path):
    with pytest.raises(ValueError, match="--baseline: got no RUN"):
        lab("wisdom", "stats", "--baseline", tmp_path, "--store", fill(episode(1)))
    with pytest.raises(ValueError, match=r"got no manifest\.json, expected"):
        lab("wisdom", "stats", tmp_path, "--store", fill(episode(1)))


def test_episodes_are_read_and_never_written(lab, fill, held, episode):
    place = fill(episode(1), episode(2))
    before = held(Episode)
    for command in (["list"], ["stats"], ["extract"]):
        lab("wisdom", *command, "--store", place)
    assert held(Episode) == before
