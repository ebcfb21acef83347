"""A run that was cut off is resumed with its store in another spelling, moved or copied, and with no other store."""

import shutil
from pathlib import Path

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Episode
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.runner import Runner
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.run import carry_out
from reflexion_lab.studies.sweeps.running import sweep
from tests.builders import scripted

CONFIG = [
    "benchmark.limit=4", "tracker=none", "quiet=true", "reflector=rules", "retriever=recency", "workers=1",
    "loop.max_attempts=2", "memory.shared.round_size=2", "memory.shared.shown.wisdom=2", "run_root=runs",
]  # fmt: skip


class Killed(BaseException):
    pass


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder, with a folder `stores`."""
    (tmp_path / "stores").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    model = scripted(tmp_path, reply="\n    return None\n")
    return lambda store, *more: [*model, *CONFIG, f"store={kind(store)}", f"store.place='{store}'", *more]


def kind(store):
    return "sqlite" if str(store).endswith(".sqlite") else "jsonl"


def cut(monkeypatch, begin, after):
    """Begin, and stop after so many tasks."""
    grade, graded = Runner._grade, set()

    def stop(runner, attempt):
        verdict = grade(runner, attempt)
        graded.add((runner.folder.path, attempt.task_id))
        if len(graded) == after:
            raise Killed
        return verdict

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Runner, "_grade", stop)
        begin()


def spelled(how, name):
    """The place of the store `stores/NAME`, once it was treated so."""
    if how == "symlink":
        Path("link").symlink_to("stores")
        return f"link/{name}"
    if how in ("moved", "copied"):
        (shutil.move if how == "moved" else shutil.copytree)("stores", "elsewhere")
        return f"elsewhere/{name}"
    paths = {"absolute": Path(f"stores/{name}").absolute(), "slash": f"stores/{name}/", "up": f"below/../stores/{name}"}
    return paths[how]


SPELLINGS = ["absolute", "slash", "up", "symlink", "moved", "copied"]


def runs():
    return sorted(path.parent for path in Path().glob("runs/[!.]*/manifest.json"))


def remembered(store):
    episodes = [(e.session_id.partition("/")[0], e.task_id, e.attempt_number) for e in opened(store).read(Episode)]
    assert len(set(episodes)) == len(episodes)
    return {run for run, *_ in episodes}


@pytest.mark.parametrize(("how", "tasks"), [*((how, 3) for how in SPELLINGS), ("moved", 1)])
def test_a_run_resumes_with_its_store_wherever_that_is(place, monkeypatch, how, tasks):
    cut(monkeypatch, lambda: carry_out(compose(*place("stores/memory"))), tasks)
    (run,) = runs()
    store = spelled(how, "memory")
    carry_out(compose(*place(store, f"resume={run}")))
    log = Log.read(RunFolder(run))
    assert len(log.results) == 4
    assert remembered(store) == {run.name}
    carry_out(compose(*place("whole/memory", "run_root=whole")))
    (whole,) = (path.parent for path in Path().glob("whole/*/manifest.json"))
    assert canonical_form(log) == canonical_form(Log.read(RunFolder(whole)))


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize("store", ["new", "filled", "filled.sqlite"])
def test_a_run_is_not_resumed_with_another_store(place, monkeypatch, store, is_filled):
    mine = "stores/memory.sqlite" if store.endswith(".sqlite") else "stores/memory"
    if is_filled:
        carry_out(compose(*place(mine, "seed=1", "run_root=earlier")))
    if store != "new":
        carry_out(compose(*place(store, "seed=2", "run_root=earlier")))
    cut(monkeypatch, lambda: carry_out(compose(*place(mine))), 3)
    (run,) = runs()
    with pytest.raises(ConfigError, match=rf"store\.place: got '{store}', expected the store with which {run} began"):
        carry_out(compose(*place(store, f"resume={run}")))
    assert len(RunFolder(run).results) == 3


@pytest.mark.slow
@pytest.mark.parametrize("how", [how for how in SPELLINGS if how != "copied"])
def test_a_sweep_goes_on_with_its_store_wherever_that_is(place, monkeypatch, how):
    words = ["recall.omega=0,1"]
    cut(monkeypatch, lambda: sweep(place("stores/memory", *words), quiet=True), 7)
    before = runs()
    swept = sweep(place(spelled(how, "memory"), *words), quiet=True)
    assert [state.status for state in swept.states.values()] == ["kept", "done"]
    assert runs() == before
    assert [RunFolder(run).beginning.episodes for run in before] == [0, 0]


def test_a_copied_store_is_another_store_whose_records_a_new_sweep_begins_with(place):
    words = ["recall.omega=0,1"]
    sweep(place("stores/memory", *words), quiet=True)
    before = runs()
    swept = sweep(place(spelled("copied", "memory"), *words), quiet=True)
    assert [state.status for state in swept.states.values()] == ["done", "done"]
    assert all(RunFolder(run).beginning.episodes > 0 for run in runs() if run not in before)


@pytest.mark.parametrize("cell", [0, 1])
def test_a_cell_that_was_killed_before_it_noted_its_memory_is_resumed(place, monkeypatch, cell):
    words, write, noted = place("stores/memory", "recall.omega=0,1"), RunFolder.write_json, []

    def killed(folder, name, value):
        if name == "memory.json":
            noted.append(name)
            if len(noted) == cell + 1:
                raise Killed
        write(folder, name, value)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(RunFolder, "write_json", killed)
        sweep(words, quiet=True)
    assert len(runs()) == cell + 1
    assert sweep(words, quiet=True).runs == runs()
    assert len(runs()) == 2
