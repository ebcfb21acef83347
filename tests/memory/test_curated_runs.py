"""Runs with a curator: the same operations for any number of workers and after any interruption, counted everywhere."""

import json
import sqlite3
from contextlib import closing
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.analysis.arms import Arm
from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.cases import load_cases, save_cases
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import bare, summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.memory.curators.items import after
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.notebook.frames import load
from reflexion_lab.records import Item, Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import cell_digest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.tidy import OPERATIONS
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.replay import bundle, packing
from reflexion_lab.studies.replay import replay as replaying
from reflexion_lab.studies.replay.verify import verify
from reflexion_lab.studies.run import carry_out
from tests.builders import FAMILIES
from tests.shared.scripted_curator import ScriptedCurator

TARGET = "tests.shared.scripted_curator.ScriptedCurator"
RAW = ("curator=raw_trajectories",)
SMALL = (
    "model=simulated", "actor=single_shot", "benchmark.load.n=6", "tracker=none", "quiet=true", "sandbox.servers=1",
    "memory.shared.round_size=3", "loop.max_attempts=2", f"curator._target_={TARGET}", "temperature=0.8",
)  # fmt: skip
CALLS = 4
"""Of the scripted curator in a round of three."""


def overrides(root, *more):
    scripted = [part for part in SMALL if not (part.startswith("curator.") and RAW[0] in more)]
    return [*scripted, f"run_root={root / 'runs'}", *more]


def run_in(root, *more):
    """The folder of a finished run."""
    carry_out(compose(*overrides(root, *more)))
    return RunFolder(max((root / "runs").glob("[!.]*/manifest.json")).parent)


def lines(folder):
    """operations.jsonl as plain values, without times."""
    records = [json.loads(line) for line in (folder.path / OPERATIONS).read_bytes().splitlines()]
    assert len({(record["round"], record["call"]) for record in records}) == len(records)
    return bare(records, folder.manifest.run_id)


def held(folder):
    """Memory at the end of a run."""
    return after(folder.beginning.items, folder.updates)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody disturbs, by one worker."""
    return run_in(tmp_path_factory.mktemp("whole"), "workers=1")


def test_the_script_changes_memory_in_every_way(tmp_path):
    whole = run_in(tmp_path, "workers=1", "memory.shared.items.salt=b")  # ids of items decide on its operations
    kinds = {operation.kind for update in whole.updates for operation in update.operations}
    assert kinds == {"add", "edit", "vote", "link", "merge", "remove"}
    assert "no item no" in {refusal.reason for update in whole.updates for refusal in update.refused}
    assert len(whole.updates) == 2 * CALLS
    first = [attempts[0] for attempts in whole.attempts.values()]
    assert [len(attempt.recalled_items) for attempt in first[:3]] == [1, 1, 1]  # written for the task alone
    assert all(len(attempt.recalled_items) > 1 and len(attempt.written_items) == 1 for attempt in first[3:])


@pytest.mark.parametrize("shown", [0, 1])
def test_episodes_of_other_loops_are_indexed_only_where_a_loop_reads_them(tmp_path, monkeypatch, shown):
    add, indexed = Jaccard.add, Mock()

    def counted(retriever, documents):
        indexed(documents)
        add(retriever, documents)

    monkeypatch.setattr(Jaccard, "add", counted)
    assert run_in(tmp_path, "workers=1", f"memory.shared.shown.mistakes={shown}").updates
    assert indexed.called is bool(shown)


class Killed(BaseException):
    """As SIGKILL: nothing handles it."""


INTERRUPTIONS = {
    "within the first round": ("attempts.jsonl", 2, ""), "within the second round": ("results.jsonl", 5, ""),
    "before a call is logged": (OPERATIONS, 3, ""), "within the line of a call": (OPERATIONS, CALLS + 2, "torn"),
    "after the last call of a round": (OPERATIONS, CALLS, "after"),
    "after the last call of the run": (OPERATIONS, 2 * CALLS, "after"),
}  # fmt: skip
"""The file whose nth line is interrupted: before it, within it or after it."""


@pytest.mark.parametrize("place", INTERRUPTIONS)
def test_a_resumed_run_has_the_memory_of_an_undisturbed_one_and_pays_no_call_again(whole, tmp_path, monkeypatch, place):
    name, number, when = INTERRUPTIONS[place]
    append, left = RunFolder.append, [number]
    complete, paid = SimulatedModel.complete, Mock()

    def counted(model, *args, **options):
        paid()
        return complete(model, *args, **options)

    def interrupted(folder, file, record):
        left[0] -= file == name
        if file == name and left[0] == 0:
            if when == "after":
                append(folder, file, record)
            elif when == "torn":
                with (folder.path / file).open("ab") as out:
                    out.write(b'{"round":1,"ca')
            raise Killed
        append(folder, file, record)

    monkeypatch.setattr(SimulatedModel, "complete", counted)
    with monkeypatch.context() as kill, pytest.raises(Killed):
        kill.setattr(RunFolder, "append", interrupted)
        carry_out(compose(*overrides(tmp_path, "workers=1")))
    folder = run_in(tmp_path, "workers=2", f"resume={next((tmp_path / 'runs').glob('[!.]*/manifest.json')).parent}")
    assert lines(folder) == lines(whole)
    assert held(folder) == held(whole)
    assert verify(folder.path).holds
    assert stored_calls(folder) == stored_calls(whole) == paid.call_count


def stored_calls(folder):
    with closing(sqlite3.connect(folder.path.parent / "calls.sqlite")) as cache:
        return cache.execute("SELECT count(*) FROM calls").fetchone()[0]


def test_a_curator_that_raises_stops_the_run_and_loses_no_attempt(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(ScriptedCurator, "raises", "all")
    with pytest.raises(RuntimeError, match="the curator is broken") as caught:
        run_in(tmp_path)
    tasks = list(whole.attempts)[:3]
    assert caught.value.__notes__ == [f"while curating: round 0, call 3, tasks {', '.join(tasks)}"]
    monkeypatch.undo()
    path = next((tmp_path / "runs").glob("[!.]*/manifest.json")).parent
    assert sorted(RunFolder(path).results) == sorted(tasks)
    assert len(RunFolder(path).updates) == 3
    assert lines(run_in(tmp_path, f"resume={path}")) == lines(whole)


def changed(line, old, new):
    assert old in line
    return line.replace(old, new, 1)


@pytest.mark.parametrize("place", [2, 7])
def test_a_torn_call_and_those_after_it_are_made_again(whole, tmp_path, place):
    folder = run_in(tmp_path, "workers=1")
    file = folder.path / OPERATIONS
    damaged = file.read_bytes().splitlines(keepends=True)
    damaged[place] = damaged[place][:-9] + b"\n"
    file.write_bytes(b"".join(damaged))
    assert any(OPERATIONS in str(disagreement) for disagreement in verify(folder.path).disagreements)
    (folder.path / "digests.json").unlink()  # as of a run that was killed before its end
    with pytest.warns(RuntimeWarning, match=rf"torn lines of {OPERATIONS} are moved to"):
        again = run_in(tmp_path, f"resume={folder.path}")
    assert lines(again) == lines(whole)
    assert (folder.path / "dropped" / OPERATIONS).read_bytes().count(b"\n") == 2 * CALLS - place
    assert verify(again.path).holds


def test_a_call_with_another_text_is_named_and_not_used(tmp_path):
    folder = run_in(tmp_path, "workers=1")
    file = folder.path / OPERATIONS
    damaged = file.read_bytes().splitlines(keepends=True)
    damaged[5] = damaged[5].replace(b"Rule", b"Rulf", 1)
    file.write_bytes(b"".join(damaged))
    (folder.path / "digests.json").unlink()
    with pytest.raises(FolderError, match=f"{OPERATIONS}, line 6: .*memory of digest"):
        run_in(tmp_path, f"resume={folder.path}")


def test_calls_from_the_round_of_a_lost_result_on_are_made_again(whole, tmp_path):
    folder = run_in(tmp_path, "workers=1")
    results = folder.path / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[1:]))
    assert lines(run_in(tmp_path, f"resume={folder.path}")) == lines(whole)
    assert (folder.path / "dropped" / OPERATIONS).read_bytes().count(b"\n") == 2 * CALLS


def test_a_resumed_run_makes_calls_again_that_name_no_lost_task(tmp_path):
    """Nothing in the folder says in which round a loop was whose curator made no call for it."""
    folder = run_in(tmp_path, *RAW, "model.first=0.5", "loop.max_attempts=1", "workers=1")
    named = {task for update in folder.updates for task in update.task_ids}
    lost = next(task for task in folder.results if task not in named)
    before, results = lines(folder), folder.path / "results.jsonl"
    results.write_bytes(b"".join(line for line in results.read_bytes().splitlines(True) if lost.encode() not in line))
    assert lines(run_in(tmp_path, *RAW, "model.first=0.5", "loop.max_attempts=1", f"resume={folder.path}")) == before
    assert (folder.path / "dropped" / OPERATIONS).read_bytes().count(b"\n") in range(1, len(before) + 1)


def test_a_curator_without_items_changes_no_loop(tmp_path):
    options = (
        "loop.max_attempts=3", "recall.omega=adaptive", "reflector=rules", "reflector.enough=1", "model.first=0.3",
        "memory.shared.round_size=1", "memory.shared.same_task=true", "memory.show_session=true", "benchmark.passes=2",
    )  # fmt: skip
    curated = run_in(tmp_path / "curated", *RAW, *options, "memory.shared.items.frozen=true")
    without = run_in(tmp_path / "without", *RAW, *options, "curator=none")
    assert (curated.beginning is None, without.beginning is None) == (False, True)
    assert loops(curated) == loops(without)
    assert max(map(len, without.attempts.values())) == 3


def loops(folder):
    """What the loops asked, with which Ω, and what they wrote and believed."""
    return {
        task: [(a.trajectory.messages, a.memory.omega, a.trajectory.solution, a.reflection) for a in attempts]
        for task, attempts in folder.attempts.items()
    }


def test_usage_of_the_curator_is_the_same_in_every_table(whole, tmp_path):
    log, frames = Log.read(whole), load(whole.path)
    usage, own = summary(log).usage, [update.usage for update in log.updates]
    assert usage["curator"] == sum((*own, *(attempt.selection_usage for attempt in log.every)), Usage())
    assert usage["curator"].calls == 2 * CALLS + 6
    total = sum(usage.values(), Usage())
    (arm,) = load_cases(save_cases(tmp_path / "cases.csv", [Arm("a", [log])]))
    (kept,) = arm.logs
    totals = {
        "frames of runs": frames.runs,
        "frames of tasks": frames.tasks,
        "compare": compare([Arm("a", [log])]).rows[0].of.usage,
        "compare of cases": compare([arm]).rows[0].of.usage,
        "summary of cases": sum(summary(kept).usage.values(), Usage()),
    }
    for name, table in totals.items():
        for field in ("calls", "tokens", "prompt_tokens", "completion_tokens"):
            value = getattr(table, field)
            assert (value if isinstance(value, int) else value.sum()) == getattr(total, field), (name, field)
    assert summary(kept).usage["curator"].tokens == usage["curator"].tokens
    assert frames.attempts.tokens_so_far.groupby(frames.attempts.task_id).max().sum() == total.tokens


def test_items_go_from_run_to_run_through_a_store_and_removal_is_remembered(tmp_path, schema):
    for place in (tmp_path / "memory", tmp_path / "memory.sqlite", schema()):
        root = tmp_path / f"runs of {str(place)[-9:]}"
        kind = "postgresql" if "://" in str(place) else "sqlite" if str(place).endswith(".sqlite") else "jsonl"
        address = f"{'storage.url' if kind == 'postgresql' else 'store.place'}='{place}'"
        first, second = (run_in(root, f"store={kind}", address) for _ in range(2))
        assert by_id(second.beginning.items) == by_id(held(first))
        with closing(opened(str(place))) as store:
            items = by_id(store.read(Item))
        assert {name: item for name, item in items.items() if item.text} == owned(held(second))
        removed = {name for name, item in items.items() if not item.text}
        assert removed and removed.isdisjoint(by_id(held(second)))
        assert main(["memory", "import", str(first.path), str(second.path), "--store", str(root / "copy")]) == 0
        with closing(opened(str(root / "copy"))) as store:
            copy = by_id(store.read(Item))
        assert copy | items == copy, "an import removes items of the same owner"


def test_runs_of_several_seeds_have_no_id_of_an_item_in_common(tmp_path):
    options = (*RAW, "model.first=1", "memory.shared.round_size=1", "benchmark.load.seed=0")
    folders = [run_in(tmp_path / f"{seed}", *options, f"seed={seed}") for seed in (0, 0, 1)]
    first, again, other = (by_id(held(folder)) for folder in folders)
    assert first and first == again
    assert {item.text for item in first.values()} & {item.text for item in other.values()}
    assert first.keys().isdisjoint(other)


def owned(items):
    """By id, as a store has them."""
    return by_id(replace(item, owner=TARGET) for item in items)


def by_id(items):
    return {item.item_id: item for item in items}


def test_a_run_begins_with_the_items_of_another_one_after_any_round(whole, tmp_path):
    of = f"memory.shared.items.of={whole.path}"
    for rounds in (0, 1, None):
        later = [] if rounds is None else [f"memory.shared.items.after={rounds}"]
        folder = run_in(tmp_path, of, *later, "memory.shared.items.frozen=true", "benchmark.limit=1")
        assert folder.beginning.items == after(whole.beginning.items, whole.updates, rounds)
        assert folder.updates == []
    with pytest.raises(ConfigError, match=r"memory\.shared\.items\.of: got .*, expected a run with a curator"):
        run_in(tmp_path, f"memory.shared.items.of={run_in(tmp_path / 'none', *RAW, 'curator=none').path}")


def test_a_run_with_a_curator_replays_from_its_bundle_without_the_run_that_it_began_with(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(replaying, "parts", lambda parts=replaying.parts: parts() | {TARGET})
    stored = ("store=sqlite", f"store.place={tmp_path / 'memory.sqlite'}")
    for name, options in {"of another run": (f"memory.shared.items.of={whole.path}",), "of a store": stored}.items():
        root = tmp_path / name
        run_in(root, *options)
        folder = run_in(root, *options)
        assert folder.beginning.items and folder.updates
        with closing(opened(str(tmp_path / "memory.sqlite"))) as store:
            path = packing.pack(folder, tmp_path / f"{name}.zip", store=store if "store" in name else None).path
        for place in (root, whole.path) if "run" in name else (root,):
            place.rename(place.with_name(f"{place.name} away"))
        replayed = replaying.replay(path)
        if "run" in name:
            whole.path.with_name(f"{whole.path.name} away").rename(whole.path)
        assert replayed.verification.holds, replayed.verification.disagreements
        assert "operations" in [finding.name for finding in replayed.verification.findings]
        assert verify(path).holds
        about, members = bundle.read(path)
        assert str(whole.path).encode() not in b"".join(members.values())
        members["operations.jsonl"] = changed(members["operations.jsonl"], b"Rule", b"Rulf")
        bundle.write(tmp_path / "changed.zip", about, members)
        (first,) = replaying.replay(tmp_path / "changed.zip").verification.disagreements
        assert first.where.startswith("operations[0].operations[")


def test_memory_commands_know_items(whole, tmp_path, capsys):
    place, export, other = (str(tmp_path / name) for name in ("store.sqlite", "all.jsonl", "other"))
    assert main(["memory", "import", str(whole.path), "--store", place]) == 0
    with closing(opened(place)) as store:
        items = by_id(store.read(Item))
    assert {name: item for name, item in items.items() if item.text} == owned(held(whole))
    for command in (["export", export, "--store", place], ["import", export, "--store", other]):
        assert main(["memory", *command]) == 0
    with closing(opened(other)) as store:
        assert by_id(store.read(Item)) == items
    capsys.readouterr()
    assert main(["memory", "show", "--store", place, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["items"] == len(held(whole)) < len(items)
    assert main(["memory", "clear", "--yes", "--store", place]) == 0
    with closing(opened(place)) as store:
        assert list(store.read(Item)) == []


def limit_of(folder):
    return folder.manifest.config["memory"]["shared"]["items"]["max_tokens"]


def test_memory_takes_a_quarter_of_a_small_context_so_that_every_item_fits(tmp_path):
    whole = (*RAW, "curator=full_history", *FAMILIES, "benchmark.load.n=12")
    folder = run_in(tmp_path, *whole, "model.context=2048", "workers=1")
    assert limit_of(folder) == 512
    assert 256 < max(update.tokens for update in folder.updates) <= 512
    assert not any(set(a.recalled_items) & set(a.trajectory.left_out) for a in folder.each_attempt())


@pytest.mark.parametrize(
    ("contexts", "expected"), [((0, 0), 4000), ((100_000, 32_000), 4000), ((100_000, 8192), 2048), ((4096, 0), 1024)]
)
def test_the_smaller_known_context_of_actor_and_curator_bounds_memory_and_is_in_the_digest(contexts, expected):
    actor, curator = (f"context={context}" for context in contexts)
    overrides = ("curator=ace", "model=simulated", "model@roles.curator=simulated")
    overrides = (*overrides, f"model.{actor}", f"roles.curator.{curator}", "actor=single_shot")
    unset, same, other = (
        cell_digest(compose(*overrides, f"memory.shared.items.max_tokens={limit}"))
        for limit in ("null", expected, expected + 1)
    )
    assert unset == same != other


def test_a_resumed_run_keeps_the_limit_with_which_it_began(tmp_path):
    small = (*RAW, "model.context=2048")
    folder = run_in(tmp_path, *small, "memory.shared.items.max_tokens=4000")
    (folder.path / "results.jsonl").write_bytes(b"")
    assert limit_of(run_in(tmp_path, *small, f"resume={folder.path}")) == 4000
    assert len(folder.results) == 6
