"""Command lines that cannot be carried out: unknown or missing words, contradictions, damaged files."""

from __future__ import annotations

import zipfile

import pytest

from tests.platform.bad_input.damage import put

UNKNOWN = [
    (), ("",), ("fly",), ("--fly",), ("run-many",), ("show",), ("show", "a", "b"),
    ("show", "--colour", "red", "old/good"), ("compare",), ("compare", "old/good", "--unit", "miles"), ("report",),
    ("report", "old/good"), ("report", "old/good", "--figures", "gif"),
    ("report", "--html", "old/good", "--baseline", "x"), ("report", "--html", "old/good", "--figures", "svg"),
    ("track",), ("demo", "--tasks", "few"), ("demo", "--tasks", "0"),
    ("demo", "--tasks", "-3"), ("demo", "nonsense"), ("demo", "colour=red"),
    ("audit",), ("audit", "samples.jsonl", "--limit", "0"), ("audit", "samples.jsonl", "--limit", "x"),
    ("audit", "samples.jsonl", "--workers", "0"), ("failures", "transcript.jsonl", "--cases", "0"),
    ("failures", "transcript.jsonl", "--limit", "-1"),
    ("failures", "transcript.jsonl", "--draw", "cases.txt"), ("failures", "transcript.jsonl", "--draw", "labels.csv"),
    ("failures", "transcript.jsonl", "--draw", "absent/x.csv"),
    ("failures", "transcript.jsonl", "--out", "tasks.jsonl"),
    ("parsing", "transcript.jsonl", "--out", "tasks.jsonl"),
    ("retrieval", "transcript.jsonl", "--retriever", "crystal_ball"),
    ("retrieval", "transcript.jsonl", "--match", "mood"), ("retrieval", "transcript.jsonl", "--k", "0"),
    ("retrieval", "transcript.jsonl", "--out", "tasks.jsonl", "--retriever", "recency"),
    ("memory",), ("memory", "forget"), ("memory", "prune"), ("memory", "import"), ("memory", "show", "--limit", "-1"),
    ("wisdom",), ("wisdom", "gain"), ("study",), ("study", "check"), ("study", "check", "absent.yaml"),
    ("study", "check", "study.yaml", "absent"),
    ("bundle",), ("bundle", "old/good", "-o", "tasks.jsonl"), ("bundle", "old/good", "-o", "absent/x.zip"),
    ("bundle", "old/good", "--calls", "absent.sqlite"), ("bundle", "old/good", "--calls", "tasks.jsonl"),
    ("replay",), ("replay", "absent.zip"), ("replay", "old"), ("replay", "tasks.jsonl"),
    ("replay", "good.zip", "--out", "tasks.jsonl"),
    ("doctor", "--colour"), ("doctor", "--hostile", "absent"), ("doctor", "--hostile", "tasks.jsonl"),
    ("estimate", "--tasks", "0"), ("estimate", "colour=red"),
    ("estimate", "-m", "colour=1,2"), ("lint-dataset", "--mutants", "-1", "tasks.jsonl"),
    ("lint-dataset", "--mutants", "x", "tasks.jsonl"),
    ("run", "-m", "--cfg", "job"), ("run", "-m", "colour=1,2"), ("run", "-m", "seed=1,2", "resume=old/good"),
    ("run", "-m", "seed=1,2", "run_root=a,b"), ("run", "-m", "seed=range(1,1)"),
    ("run", "-m", "seed=1,2", "sweep_id=../x"), ("run", "--cfg"),
    ("compare", "old/good", "old/other", "--baseline", "nobody"),
    ("compare", "old/good", "old/other", "--by", "no.such.key"), ("compare", "old/good", "--csv", "absent/x.csv"),
]  # fmt: skip


@pytest.mark.parametrize("words", UNKNOWN, ids=lambda words: " ".join(words) or "nothing")
def test_words_that_cannot_be_are_refused(refused, words):
    assert refused(*words)


@pytest.mark.parametrize(
    "fields", [{"benchmark_digest": "f" * 64}, {"benchmark": "another", "benchmark_digest": "0"}], ids=str
)
def test_runs_of_different_tasks_are_not_compared(work, refused, fields):
    put(work / "old" / "other" / "manifest.json", fields)
    assert "old/other" in (message := refused("compare", "old/good", "old/other")) or "benchmark" in message


STUDIES = {
    "empty": "", "a list": "[]", "a word": "mine", "binary": "\x00", "tabs": "name:\n\tmine",
    "no arms": ("arms: [reflexion]", "arms: []"), "baseline": ("baseline: reflexion", "baseline: nobody"),
    "seeds twice": ("seeds: [0]", "seeds: [0, 0]"), "budget": ("budget: {calls: 100}", "budget: {}"),
    "effect": ("minimum_detectable_effect: 0.5", "minimum_detectable_effect: .nan"),
    "tasks": ("n_tasks: 3", "n_tasks: 0"),
    "name": ("name: mine", "name: ' '"), "python": ("name: mine", "name: !!python/object/apply:os.getcwd []"),
    "unknown": ("stopping: after one run", "stopping: x\ncolour: red"),
}  # fmt: skip
"""A whole file, or what is replaced in a valid one."""


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_that_is_none_is_named(work, refused, name):
    text = (work / "study.yaml").read_text()
    (work / "study.yaml").write_text(
        text.replace(*STUDIES[name]) if isinstance(STUDIES[name], tuple) else STUDIES[name]
    )
    assert "study.yaml" in refused("study", "check", "study.yaml", "old/good")


PRICE = "- {{models: [m], provider: p, host: h, currency: USD, prompt: {}, completion: 1, as_of: {}, source: s}}"
PRICES = [
    "", "[]x", "5", "a: b", "- 5", "- {models: []}", "\x00", "- !!python/object/apply:os.getcwd []", "? [a]\n: b",
    *(PRICE.format(price, "2026-01-01") for price in ("-1", "cheap", ".nan")), PRICE.format(1, "soon"),
]  # fmt: skip


@pytest.mark.parametrize("text", PRICES, ids=range(len(PRICES)))
def test_a_price_file_that_is_none_is_named(work, refused_run, text):
    (work / "prices.yaml").write_text(text)
    assert "prices.yaml" in refused_run("prices.path=prices.yaml")


ABOUT = "BUNDLE.json"
BUNDLES = {
    "no about": lambda members: members.pop(ABOUT), "about torn": lambda members: {ABOUT: b"{"},
    "about a list": lambda members: {ABOUT: b"[]"}, "about binary": lambda members: {ABOUT: b"\xff"},
    "about deep": lambda members: {ABOUT: b"[" * 100_000}, "no manifest": lambda members: members.pop("manifest.json"),
    "a member changed": lambda members: {"calls.jsonl": b"x"}, "a stranger": lambda members: {"../escape": b"x"},
    "another stranger": lambda members: {"run.sh": b"x"},
    "format of the future": lambda members: {ABOUT: members[ABOUT].replace(b'"format": 1', b'"format": 9')},
}  # fmt: skip
"""What takes a member out, or gives others."""


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_that_is_damaged_is_named(work, refused, name):
    with zipfile.ZipFile(work / "good.zip") as old:
        members = {name: old.read(name) for name in old.namelist()}
    whole, changed = dict(members), BUNDLES[name](members)
    members |= changed if isinstance(changed, dict) else {}
    assert members != whole
    with zipfile.ZipFile(work / "bad.zip", "w") as new:
        for member, content in members.items():
            new.writestr(member, content)
    assert "bad.zip" in refused("replay", "bad.zip")


@pytest.mark.parametrize("cut", [0, 3, 100, -1, -30])
def test_a_bundle_that_is_torn_is_named(work, refused, cut):
    (work / "bad.zip").write_bytes((work / "good.zip").read_bytes()[:cut])
    assert "bad.zip" in refused("replay", "bad.zip")
