"""Parts that hang or are slow: attempts are kept, one line says so, and the run ends, or resumes, as without them."""

import re
import threading

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.cli.main import main
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Attempt, Episode, Reflection, Task
from reflexion_lab.runner.folder.folder import RunFolder
from tests import builders

RUN = ("run", "model=simulated", "model.first=0.3", "benchmark.load.n=4", "quiet=true", "workers=2", "tracker=none",
       "memory.shared.round_size=2", "memory.shared.shown.wisdom=2", "memory.shared.shown.insights=2",
       "loop.timeout=4", "reflector=rules")  # fmt: skip
WELL = threading.Event()
"""While it is clear, the parts below hang."""
OWN = "tests.studies.test_hanging"


class HangingRetriever(Jaccard):
    def rank(self, query, k):
        WELL.wait()
        return super().rank(query, k)


class HangingReflector:
    def reflect(self, task: Task, attempt: Attempt, episodes: list[Episode]) -> Reflection:
        WELL.wait()
        return builders.reflection(attempt.number, root_cause="it is wrong")


@pytest.fixture(autouse=True)
def hanging(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    WELL.clear()
    yield
    WELL.set()


def own(group, part):
    return f"~{group}", f"+{group}._target_={OWN}.{part}"


def carried_out(root, *overrides, code=0):
    """The folder of a run that ends with `code`."""
    assert main([*RUN, f"run_root={root}", *overrides]) == code
    (folder,) = (path.parent for path in root.glob("[!.]*/manifest.json"))
    return folder


def outcome(folder):
    return canonical_form(Log.read(RunFolder.existing(folder)))


def undisturbed(tmp_path, *overrides):
    WELL.set()
    folder = carried_out(tmp_path / "well", *overrides)
    WELL.clear()
    return outcome(folder)


@pytest.mark.parametrize(("group", "part"), [("retriever", "HangingRetriever"), ("reflector", "HangingReflector")])
@pytest.mark.slow
def test_a_part_that_hangs_stops_the_run_which_resumes_to_the_same(tmp_path, capsys, group, part):
    overrides = own(group, part)
    whole = undisturbed(tmp_path, *overrides)
    capsys.readouterr()
    folder = carried_out(tmp_path / "hung", *overrides, code=2)
    stopped, error = capsys.readouterr().err.splitlines()
    assert stopped == f"stopped; finish it with the same command and resume={folder}"
    assert re.match(r"error: \d+ tasks got no answer in two tries \(timeout \d+\).* gave no result within 4 s", error)
    before = (folder / "results.jsonl").read_bytes() if (folder / "results.jsonl").exists() else b""
    WELL.set()
    assert carried_out(tmp_path / "hung", *overrides, f"resume={folder}") == folder
    assert (folder / "results.jsonl").read_bytes().startswith(before)
    assert outcome(folder) == whole
