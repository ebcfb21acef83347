"""Own code counts as it ran: with the modules that it imports, and as it was when it was loaded."""

import hashlib
import importlib
import linecache
import shutil
import sys

import pytest

import reflexion_lab as rl
from reflexion_lab.errors import ConfigError
from reflexion_lab.runner import objects
from reflexion_lab.runner.folder import manifest
from reflexion_lab.runner.sources import sources
from reflexion_lab.studies.sweeps.running import sweep
from reflexion_lab.text.prompts import render

PART = """from msgspec.structs import replace
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
{0}

class Mine(UnitTests):
    def evaluate(self, task, trajectory):
        {1}
        return replace(super().evaluate(task, trajectory), reward={2})
"""
FORMS = {
    "module": ("import hlp", "pass", "hlp.R"), "name": ("from hlp import R", "pass", "R"),
    "later": ("", "from hlp import R", "R"), "further": ("import between", "pass", "between.hlp.R"),
    "package": ("from pack.hlp import R", "pass", "R"), "relative": ("from pack import R", "pass", "R"),
}  # fmt: skip
KEYS = ["benchmark=basics", "benchmark.limit=1", "benchmark.load.seed=0", "model=simulated", "actor=single_shot"]
KEYS += ["tracker=none", "quiet=true", "loop.max_attempts=1", "reflector=none"]


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a module of the user's own; `is_new`: as in a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = {"mypart", "hlp", "between", "pack", "pack.hlp"}

    def forget():
        for name in names & sys.modules.keys():
            del sys.modules[name]
        importlib.invalidate_caches()

    def written(name, text, is_new=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        if is_new:
            forget()

    yield written
    forget()


def run(way):
    """A run of the own evaluator."""
    if way == "by class":
        return rl.run(*KEYS, evaluator=importlib.import_module("mypart").Mine)
    return rl.run(*KEYS, "evaluator._target_=mypart.Mine")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_cell_runs_again_after_an_edit_of_what_its_part_imports(write, form):
    helper = "pack/hlp.py" if "pack" in form[0] else "hlp.py"
    write("mypart.py", PART.format(*form))
    write("between.py", "import hlp\n")
    write("pack/__init__.py", "from .hlp import R\n" if form == FORMS["relative"] else "")
    states = []
    for line in ("R = 0.25\n", "R = 0.25\n", "R = 0.75\n"):
        write(helper, line)
        states.append(sweep([*KEYS, "evaluator._target_=mypart.Mine"], quiet=True).states[0])
    assert [state.status for state in states] == ["done", "kept", "done"]
    assert states[2].again == f"source of {helper[:-3].replace('/', '.')} changed"


@pytest.mark.parametrize("helper", ["mypart.py", "hlp.py"])
@pytest.mark.parametrize("way", ["by name", "by class"])
def test_a_run_after_an_edit_in_a_living_process_says_what_ran(write, way, helper):
    texts = {"mypart.py": PART.format("import hlp", "pass", "hlp.R"), "hlp.py": "R = 0.25\n"}
    for name, text in texts.items():
        write(name, text)

    def what_ran():
        done = run(way)
        sources = done.folder.manifest.provenance.own_parts
        return sources, {attempt.evaluation.reward for loop in done.folder.attempts.values() for attempt in loop}

    sources, rewards = what_ran()
    assert rewards == {0.25}
    write(helper, texts[helper].replace("0.25", "0.75") + "# new\n", is_new=False)
    with pytest.warns(RuntimeWarning, match=rf"{helper} changed after it was imported: the run uses it as it was"):
        assert what_ran() == (sources, rewards)
    write(helper, texts[helper].replace("0.25", "0.75") + "# new\n")
    assert what_ran()[0] != sources


@pytest.mark.parametrize("way", ["by name", "by class"])
def test_a_file_that_changed_before_the_first_look_is_refused(write, way):
    write("mypart.py", PART.format("", "pass", "0.25"))
    importlib.import_module("mypart")
    write("mypart.py", PART.format("", "pass", "0.75"), is_new=False)
    with pytest.raises(ConfigError, match=r"mypart.py, which changed after it was imported"):
        run(way)
    importlib.reload(sys.modules["mypart"])
    assert run(way).summary.n_logged == 1


@pytest.mark.parametrize("kind", ["", "@property", "@staticmethod", "@classmethod"])
def test_a_method_of_any_kind_that_changed_before_the_first_look_is_noticed(write, kind):
    text = f"class Mine:\n    {kind}\n    def limit(*_):\n        return {{}}\n"
    write("mypart.py", text.format(3))
    importlib.import_module("mypart")
    write("mypart.py", text.format(9), is_new=False)
    with pytest.raises(ConfigError, match="changed after it was imported"):
        sources(["mypart"])


def test_the_digest_of_a_class_of_a_notebook_counts_what_its_cell_imports(write):
    cell = "import hlp\nclass Mine:\n    def act(self):\n        {0}\n        return {1}R\n"
    for text in (cell.format("pass", "hlp."), cell.replace("import hlp\n", "").format("from hlp import R", "")):
        digests = []
        for line in ("R = 1\n", "R = 1\n", "R = 2\n"):
            write("hlp.py", line)
            linecache.cache["<cell>"] = (len(text), None, text.splitlines(True), "<cell>")
            names = {"__name__": "notebook_without_file"}
            exec(compile(text, "<cell>", "exec"), names)
            digests.append(objects.digest(names["Mine"]))
        assert digests[0] == digests[1] != digests[2]


def test_the_labs_own_files_count_as_they_were_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(manifest, "IMPORTED", 0.0)
    with pytest.warns(RuntimeWarning, match="files of reflexion_lab changed since this process imported it"):
        manifest.code_digest.__wrapped__()
    folder = shutil.copytree(render.FOLDER, tmp_path / "prompts")
    monkeypatch.setattr(render, "FOLDER", folder)
    before, name = render.digests.__wrapped__(), "react.md.jinja"
    (folder / name).write_text("edited")
    text = render._source(name, "default")
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == before["react"] == render.digests.__wrapped__()["react"]
