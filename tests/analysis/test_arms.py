"""Arms: runs of one method over seeds; what differs in a swept key is an arm of its own."""

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.arms import Case
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures import drawing
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Message
from reflexion_lab.runner.folder.manifest import flat
from tests import builders

VERDICTS = {"a": [(1.0, True)], "b": [(0.0, False), (1.0, True)]}


@pytest.fixture
def run(write_run, tmp_path):
    """A finished run of these config values, in a folder of its own."""

    def write(name, seed=0, **config):
        folder = write_run(VERDICTS, name=name, seed=seed)
        folder.write_manifest(replace(folder.manifest, config={"arm": "reflexion", "seed": seed, **config}))
        return folder

    return write


def test_runs_of_one_arm_are_put_together_over_their_seeds(run):
    (arm,) = arms([run("y", seed=1), run("x", seed=0)])
    assert (arm.label, arm.seeds, arm.longest, arm.tasks) == ("reflexion", (0, 1), 2, ["a", "b"])
    assert arm.verdicts(1) == {Case(s, t): t == "a" for s in (0, 1) for t in "ab"}
    assert arm.verdicts() == {Case(s, t): True for s in (0, 1) for t in "ab"}
    assert arm.outcomes(arm.verdicts(1)).tolist() == [[1, 1], [0, 0]]


FIRST = {"path": "a very long place, the first", "name": "p"}
SECOND = {"path": "a very long place, the second", "name": "q"}


@pytest.mark.parametrize(
    ("configs", "by", "labels"),
    [
        ([{"recall": {"omega": 0}}, {"recall": {"omega": 3}}], (), ["recall.omega=0", "recall.omega=3"]),
        ([{"model": FIRST}, {"model": SECOND}], (), ["model.name=p", "model.name=q"]),
        ([{"recall": {"omega": o, "k": o + 1}} for o in (0, 3)], ["recall.k"], ["recall.k=1", "recall.k=4"]),
        ([{"benchmark": {"order": order}} for order in (0, 1)], (), ["benchmark.order=0", "benchmark.order=1"]),
    ],
    ids=["one key", "the shorter of two", "chosen", "one that may repeat the seed"],
)
def test_arms_are_named_by_the_key_in_which_they_differ(run, configs, by, labels):
    all_arms = arms([run(str(place), **config) for place, config in enumerate(configs)], by=by)
    assert [arm.label for arm in all_arms] == [f"reflexion {label}" for label in labels]


MODEL = {"_target_": "models.OpenAIModel", "base_url": "http://127.0.0.1/v1", "api_key_env": "OPENAI_API_KEY"}
ONE_ARM = [
    ({"model": {"path": "0"}}, {"model": {"path": "1"}}),
    ({"actor": {"seed": 0}}, {"actor": {"seed": 1}}),
    ({"benchmark": {"order": 0}}, {"benchmark": {"order": 1}}),
    (
        {"store": {"place": "a"}, "sandbox": {"servers": 1}, "temperature": 0, "benchmark": {"load": {"path": "t"}}},
        {"store": {"place": "b"}, "sandbox": {"servers": 2}, "temperature": 0.0,
         "benchmark": {"load": {"path": "/data/t"}}},
    ),
    ({"model": {**MODEL, "timeout": 1}}, {"model": {**MODEL, "timeout": 9}}),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), ONE_ARM)
def test_what_repeats_the_seed_or_changes_no_result_splits_no_arm(run, first, second):
    (arm,) = arms([run("x", **first), run("y", seed=1, **second)])
    assert (arm.label, arm.seeds) == ("reflexion", (0, 1))


def test_two_keys_name_what_none_tells_alone_and_nested_ones_are_dotted(run):
    cells = [{"recall": {"omega": o}, "loop": {"max_attempts": m}} for o in (0, 1) for m in (1, 2)]
    all_arms = arms([run(str(number), **cell) for number, cell in enumerate(cells)])
    assert [arm.label for arm in all_arms][1] == "reflexion loop.max_attempts=2 recall.omega=0"
    assert len(all_arms) == 4
    assert dict(flat({"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}})) == {"a.b.c": 1, "a.d": [1, {"e": 2}]}


def cut_off(folder):
    lines = (folder.path / "results.jsonl").read_text().splitlines()
    (folder.path / "results.jsonl").write_text(lines[0] + "\n")


def other(folder):
    folder.write_manifest(replace(folder.manifest, config=folder.manifest.config | {"temperature": 2}))


def oracle(folder):
    folder.write_manifest(replace(folder.manifest, feedback_source="oracle"))


@pytest.mark.parametrize(
    ("seeds", "change", "message"),
    [
        ((0, 0), other, "got two runs of seed 0, .* and .*, expected one per seed; --by names"),
        ((0,), cut_off, "1 of 2 tasks, expected all of them"),
        ((0, 1), oracle, "got feedback sources oracle, visible"),
    ],
    ids=["one seed", "unfinished", "two feedback sources"],
)
def test_runs_that_make_no_arm(run, seeds, change, message):
    runs = [run(f"run{place}", seed=seed) for place, seed in enumerate(seeds)]
    change(runs[-1])
    with pytest.raises(ValueError, match=message):
        arms(runs, by=["arm"])


def talk(reply, task_id, number):
    messages = (Message(role="user", content=f"{reply}: solve {task_id}, attempt {number}"),)
    return builders.attempt(
        task_id=task_id, number=number, stop_reason="max_attempts" * (number == 2),
        acted={"messages": messages, "reply": reply},
    )  # fmt: skip


@pytest.mark.parametrize(("second", "is_same"), [("yes", True), ("no", False)])
def test_arms_hold_digests_of_calls_and_compare_as_with_the_texts(write_run, tmp_path, monkeypatch, second, is_same):
    folders = []
    for arm, reply in (("one", "yes"), ("two", second)):
        folder = write_run(attempts={name: [talk(reply, name, n) for n in (1, 2)] for name in "ab"}, name=arm)
        folder.write_manifest(replace(folder.manifest, config={"arm": arm, "seed": 0}))
        folders.append(folder)
    short = arms(folders)
    first, retry = short[0].logs[0].attempts["a"]
    assert first.trajectory.messages == talk("yes", "a", 1).trajectory.messages
    assert "solve a" not in retry.trajectory.messages[0].content
    lines = compare(short).lines
    assert (short[0].calls == short[1].calls) == is_same
    monkeypatch.setattr(drawing, "REGISTRY", {})
    drawing.figure(1)(lambda arms: None)  # which may read the texts
    assert Log.read(folders[1], texts=False).attempts == (whole := arms(folders))[1].logs[0].attempts
    assert whole[1].logs[0].attempts == folders[1].attempts
    assert compare(whole).lines == lines
