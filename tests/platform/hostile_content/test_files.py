"""Files of strangers: bombs, pickles, YAML that would run something, interpolations, and names that lead elsewhere."""

import ast
import gzip
import json
import pickle
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import reflexion_lab
from reflexion_lab.cli import main as cli
from reflexion_lab.io.files import SMALL, unpacked
from reflexion_lab.memory.embedders.cached import CachedEmbedder
from reflexion_lab.runner.folder.manifest import named
from reflexion_lab.runner.folder.registration import read as read_study
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.replay import check_parts

SOURCES = sorted(Path(reflexion_lab.__file__).parent.rglob("*.py"))
RUNS_WHAT_IT_READS = {"pickle", "cloudpickle", "dill", "shelve", "joblib", "marshal", "torch", "yaml", "code", "codeop"}
OWN = {
    # Requests and reports between the lab and its own sandbox, which runs programs: that is what it is for.
    "tasks/sandbox/harness.py": {"marshal"},
    "tasks/sandbox/sandbox.py": {"marshal"},
    "tasks/sandbox/child.py": {"exec", "eval"},
    "tasks/sandbox/standin.py": {"exec"},
    "tasks/sandbox/script.py": {"exec"},
    # Code that Python has already compiled is written, for its digest; nothing is read.
    "runner/objects.py": {"marshal"},
    # Composed configs and parsed config files, in the memory of the process that made them.
    **{f"runner/config/{name}.py": {"pickle"} for name in ("compose", "files")},
    "agent/models/hf.py": {"torch"},  # which computes; transformers reads the weights, from safetensors alone
    # Templates that stand in this package.
    "tasks/benchmarks/basics.py": {"exec", "eval"},
}


def called(path: Path) -> set[str]:
    """Modules and functions that could run what they read."""
    items = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            items |= {name.split(".")[0] for name in names} & RUNS_WHAT_IT_READS
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            items |= {name} & {"eval", "exec", "np.load", "numpy.load"}
            items |= {"allow_pickle" for key in node.keywords if key.arg in ("allow_pickle", "trust_remote_code")}
    return items


def test_no_module_of_ours_can_run_what_it_reads() -> None:
    assert len(SOURCES) > 200
    place = Path(reflexion_lab.__file__).parent
    calls = {str(path.relative_to(place)): called(path) for path in SOURCES}
    rest = {name: names - OWN.get(name, set()) for name, names in calls.items()}
    assert {name: names for name, names in rest.items() if names} == {}


class Bang:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return open, ("/proc/self/cwd/bang", "w")  # in whatever folder it is unpickled


@pytest.mark.parametrize(
    "name", ["tasks.jsonl", "tasks.jsonl.gz", "study.yaml", "run.zip", "memory.sqlite", "calls.sqlite"]
)
def test_a_pickle_named_like_a_lab_file_is_never_opened(tmp_path, monkeypatch, capfd, name) -> None:
    monkeypatch.chdir(tmp_path)
    planted = pickle.dumps([Bang()])
    (tmp_path / name).write_bytes(gzip.compress(planted) if name.endswith(".gz") else planted)
    before = sorted(tmp_path.iterdir())
    lab = ["run", "model=simulated", "actor=single_shot", "benchmark.load.n=1", "tracker=none", "quiet=true"]
    command = {
        "study.yaml": [*lab, "study=study.yaml"],
        "run.zip": ["replay", name],
        "memory.sqlite": ["memory", "show", "--store", name],
        "calls.sqlite": [*lab, f"cache.path={name}"],
    }.get(name, ["lint-dataset", name])
    assert cli.main(command) == 2
    assert name in "".join(capfd.readouterr())
    assert not (tmp_path / "bang").exists()
    assert set(before) <= set(tmp_path.iterdir())


def test_a_pickled_vector_is_no_vector(tmp_path, monkeypatch) -> None:
    class Three:
        fingerprint, dimensions = "three", 3

        def embed(self, texts, kind="document"):
            return np.ones((len(texts), 3), np.float32)

    import sqlite3

    monkeypatch.chdir(tmp_path)
    first = CachedEmbedder(Three(), tmp_path / "e.sqlite")
    first.embed(["a"])
    with sqlite3.connect(tmp_path / "e.sqlite") as database:
        database.execute("UPDATE embeddings SET vector = ?", (pickle.dumps(Bang()),))
    database.close()
    assert CachedEmbedder(Three(), tmp_path / "e.sqlite").embed(["a"]).tolist() == [[1.0, 1.0, 1.0]]
    assert not (tmp_path / "bang").exists()


YAML = "!!python/object/apply:os.system ['touch bang']"


def test_yaml_that_would_run_something_is_refused(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.yaml").write_text(f"name: {YAML}\n")
    with pytest.raises(ValueError, match="study"):
        read_study(tmp_path / "evil.yaml")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "evil.yaml").write_text(f"_target_: x\nname: {YAML}\n")
    for overrides in (
        ["model=evil", f"hydra.searchpath=[file://{tmp_path}]"],
        ["model=scripted", "model.path=evil.yaml"],
    ):
        assert cli.main(["run", *overrides, "actor=single_shot", "tracker=none"]) == 2
    assert "Traceback" not in capfd.readouterr().err
    assert not (tmp_path / "bang").exists()


TASK = {
    "task_id": "${oc.env:PLANTED_KEY}/{{ 7 * 191 }}/../../out",
    "prompt": 'def f(x):\n    """${oc.env:PLANTED_KEY} {{ 7 * 191 }} {% raw %}\n    >>> f(1)\n    1\n    """\n',
    "entry_point": "f",
    "canonical_solution": "    return x\n",
    "visible_tests": ["assert f(1) == 1"],
    "hidden_tests": ["assert f(2) == 2"],
}


@pytest.mark.slow
def test_interpolations_and_templates_in_foreign_texts_stay_text(tmp_path, monkeypatch, capfd) -> None:
    lab = tmp_path / "a" / "b" / "lab"
    lab.mkdir(parents=True)
    monkeypatch.chdir(lab)
    monkeypatch.setenv("PLANTED_KEY", "planted-0123456789")
    (lab / "tasks..jsonl").write_text(json.dumps(TASK) + "\n")
    reply = "```python\ndef f(x):\n    # ${oc.env:PLANTED_KEY} {{ 7 * 191 }}\n    return 0\n```\n"
    reply += "ROOT_CAUSE: ${oc.env:PLANTED_KEY}\nWHAT_WENT_WRONG: {{ 7 * 191 }}\nWHAT_TO_CHANGE: it\nCONFIDENCE: 1\n"
    (lab / "script.json").write_text(json.dumps([{"when": "", "reply": reply}]))
    run = ["run", "model=scripted", "model.path=script.json", "actor=single_shot", "benchmark=jsonl", "store=jsonl"]
    run += ["benchmark.load.path=tasks..jsonl", "memory.reflection_files=said", "loop.max_attempts=2", "tracker=none"]
    assert cli.main([*run, "arm='../../../out \x1b[31m'"]) == 2  # a name that would lead elsewhere
    assert cli.main(run) == 0, capfd.readouterr().err
    (folder,) = (lab / "runs").glob("2*")
    assert cli.main(["report", "--html", str(folder)]) == 0
    assert cli.main(["bundle", str(folder), "-o", "run.zip"]) == 0
    assert cli.main(["replay", "run.zip"]) == 0
    text = "".join(capfd.readouterr())
    lines = (folder / "attempts.jsonl").read_text()
    assert "${oc.env:PLANTED_KEY}" in lines and "{{ 7 * 191 }}" in lines
    everything = text.encode() + b"".join(path.read_bytes() for path in lab.rglob("*") if path.is_file())
    assert b"planted-0123456789" not in everything
    assert b"{{ 1337 }}" not in everything and "CAUSE: 1337" not in lines
    assert sorted(path.name for path in tmp_path.rglob("*") if "lab" not in path.parts) == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["../out", "/etc/out", "a/../../out", "..", "a\0b", "\x1b[31m\u202e", "C:\\out", "x" * 500]
)
def test_labels_become_parts_of_one_folders_name(tmp_path, name) -> None:
    folder = tmp_path / f"stamp-{named(name)}-s0"
    folder.mkdir()
    assert folder.resolve().parent == tmp_path.resolve()
    assert folder.name.isprintable()


def test_a_foreign_config_names_no_program_and_no_variable_of_ours() -> None:
    for config in (
        {"model": {"_target_": "os.system", "command": "touch bang"}},
        {"actor": {"deep": [{"_target_": "subprocess.run"}]}},
        {"model": {"_target_": "hydra.utils.get_object", "path": "os.system"}},
        {"arm": "${oc.env:OPENAI_API_KEY}"},
        {"arm": [{"x": "a ${oc.env:OPENAI_API_KEY}"}]},
    ):
        with pytest.raises(ValueError, match="config"):
            check_parts(config)


def zeros(path: Path, megabytes: int) -> Path:
    """A gzip file of so many."""
    packer, block = zlib.compressobj(9, wbits=31), bytes(1 << 20)
    member = packer.compress(block) + packer.flush()
    with path.open("wb") as file:
        file.writelines(member for _ in range(megabytes))
    return path


BOUNDED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({1500 << 20}, {1500 << 20}))
from reflexion_lab.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", ["lint-dataset", "audit"])
@pytest.mark.slow
def test_ten_gigabytes_of_zeros_cost_little_memory_and_one_line(tmp_path, command) -> None:
    bomb = zeros(tmp_path / "bomb.jsonl.gz", 10_000)
    argv = [sys.executable, "-c", BOUNDED, command, str(bomb)]
    process = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 2, process.stderr
    (line,) = process.stderr.strip().splitlines()
    assert re.search(
        r"bomb.jsonl.gz: got [\d,]+ bytes that unpack to more than [\d,]+, as no text does, expected a whole gzip", line
    )


def test_whole_texts_unpack_as_ever() -> None:
    text = b"".join(json.dumps({"prompt": "the same words again and again " * 9, "n": n}).encode() for n in range(9000))
    assert unpacked("x.gz", gzip.compress(text)) == text
    assert unpacked("x.gz", gzip.compress(text[:99]) + gzip.compress(text[99:]) + b"\0\0") == text
    assert unpacked("x.gz", gzip.compress(bytes(SMALL - 1))) == bytes(SMALL - 1)
    for torn in (gzip.compress(text)[:-1], gzip.compress(text)[:999], gzip.compress(text) + b"more"):
        with pytest.raises(ValueError, match="gzip"):
            unpacked("x.gz", torn)


def test_a_bundle_that_would_fill_the_memory_is_refused_unread(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("BUNDLE.json", "{}")
        archive.writestr("calls.jsonl", bytes(SMALL + 1))
    with pytest.raises(bundle.BundleError, match="as no text does"):
        bundle.read(tmp_path / "bomb.zip")
