"""Damaged files: by name what is damaged, how, and the command line that has to refuse it."""

import gzip
import json
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

Content = bytes | str | dict[str, object] | tuple[str, str] | Callable[[Path], object]
"""What stands in a file: a text; other fields of its object, or of the first line of a log, where `...` leaves one out;
what is replaced in it, and by what; or what makes it.
"""
ODD: dict[str, Content] = {
    "absent": lambda path: None, "a folder": Path.mkdir, "a FIFO": os.mkfifo,
    "a loop": lambda path: path.symlink_to(path.name), "dangling": lambda path: path.symlink_to("no-such-place"),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}  # fmt: skip
"""What no text can be read from; nobody may wait for it."""


def put(path: Path, content: Content) -> None:
    """Nothing but this stands at `path` then."""
    old = path.read_bytes() if path.is_file() else b""
    if isinstance(content, tuple):
        content = old.decode().replace(*content)
        assert content != old.decode()
    if isinstance(content, dict):
        head, rest = (old, b"") if path.suffix == ".json" else old.split(b"\n", 1)
        content = line(json.loads(head), content) + rest
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def line(fields: dict, changes: dict) -> bytes:
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not ...}).encode() + b"\n"


Case = tuple[str, Content, tuple[str, ...]]
"""A file, what stands in it, and a command line; `...` in it is a run that would go well."""
DEEP = "[" * 100_000

# Run folders

RUN_READERS = {
    "show": ("show", "old/good"), "compare": ("compare", "old/good"),
    "report": ("report", "--html", "old/good"), "track": ("track", "old/good"), "audit": ("audit", "old/good"),
    "bundle": ("bundle", "old/good"), "export": ("export", "--atif", "old/good"),
    "study": ("study", "check", "study.yaml", "old/good"),
    "import": ("memory", "import", "old/good", "--store", "memory.sqlite"),
    "transfer": ("wisdom", "stats", "old/good", "--store", "memory.sqlite"),
}  # fmt: skip
MANIFESTS: dict[str, tuple[str, Content]] = {
    "absent": ("", ODD["absent"]), "a file": ("", "no folder"), "empty": ("", Path.mkdir),
    "a loop": ("", ODD["a loop"]), "dangling": ("", ODD["dangling"]), "a FIFO": ("", ODD["a FIFO"]),
    "manifest empty": ("manifest.json", ""), "manifest torn": ("manifest.json", '{"run_id": "x",'),
    "manifest a list": ("manifest.json", "[]"), "manifest binary": ("manifest.json", b"\xff\xfe\x00"),
    "manifest deep": ("manifest.json", DEEP), "manifest without id": ("manifest.json", {"run_id": ...}),
    "manifest of the future": ("manifest.json", {"schema_version": 99}),
    "manifest seed a word": ("manifest.json", {"seed": "zero"}),
    "manifest config a list": ("manifest.json", {"config": []}),
    "manifest tasks null": ("manifest.json", {"n_expected": None}),
    "manifest a folder": ("manifest.json", ODD["a folder"]), "manifest a FIFO": ("manifest.json", ODD["a FIFO"]),
}  # fmt: skip
LOGS: dict[str, tuple[str, Content]] = {
    "attempts of another version": ("attempts.jsonl", {"task_id": 5}),
    "attempts without number": ("attempts.jsonl", {"number": ...}),
    "attempts number a word": ("attempts.jsonl", {"number": "one"}),
    "attempts a folder": ("attempts.jsonl", ODD["a folder"]), "attempts a FIFO": ("attempts.jsonl", ODD["a FIFO"]),
    "attempts a list": ("attempts.jsonl", "[]\n"), "attempts deep": ("attempts.jsonl", DEEP + "\n"),
    "attempts surrogates": ("attempts.jsonl", b'{"task_id": "\xff"}\n'), "attempts empty": ("attempts.jsonl", ""),
    "results of another version": ("results.jsonl", {"attempts": "many"}),
    "results a folder": ("results.jsonl", ODD["a folder"]),
    "results submitted 99": ("results.jsonl", {"submitted": 99}), "results best 0": ("results.jsonl", {"best": 0}),
    "results of an unknown task": ("results.jsonl", {"task_id": "nobody/1"}),
    "results attempts 99": ("results.jsonl", {"attempts": 99}),
    "grades of another version": ("grades.jsonl", {"passed": "yes"}),
    "grades a folder": ("grades.jsonl", ODD["a folder"]), "memory.json torn": ("memory.json", "{"),
}  # fmt: skip
EVERYWHERE = "absent", "manifest torn", "manifest of the future", "manifest config a list"


def run_folders() -> Iterator[tuple[str, Case]]:
    names_by_reader = dict.fromkeys(RUN_READERS, EVERYWHERE)
    names_by_reader |= {"show": (*MANIFESTS, *LOGS), "compare": (*EVERYWHERE, *LOGS)}
    for reader, names in names_by_reader.items():
        for name in names:
            file, content = (MANIFESTS | LOGS)[name]
            yield f"{reader}, {name}", (f"old/good/{file}", content, RUN_READERS[reader])
    for name, fields in {"task": {"task_id": "nobody/1"}, "attempt": {"number": 99}}.items():
        yield f"grade of an unknown {name}", ("old/good/grades.jsonl", fields, RUN_READERS["compare"])
    words = (*RUN_READERS["compare"], "old/other", "--json")
    for fields in ({"benchmark_digest": "0", "tasks_digest": "0"}, {"benchmark": "another", "tasks_digest": "0"}):
        yield f"other tasks, {[*fields]}", ("old/other/manifest.json", fields, words)


# Tasks

TASK = {"task_id": "own/a", "prompt": "def f(x):\n", "entry_point": "f", "hidden_tests": ["assert candidate(1) == 1"]}
GOOD = line(TASK, {})
WHOLE = gzip.compress(GOOD)
TASK_FIELDS: dict[str, dict] = {
    "no id": {"task_id": ...}, "no prompt": {"prompt": ...}, "no entry point": {"entry_point": ...},
    "empty id": {"task_id": ""}, "id a number": {"task_id": 5.5}, "prompt null": {"prompt": None},
    "prompt a list": {"prompt": ["def f"]}, "entry point no name": {"entry_point": "f()"},
    "entry point a keyword": {"entry_point": "class"}, "tests a text": {"hidden_tests": "assert 1"},
    "a test no Python": {"hidden_tests": ["assert ("]}, "a test null": {"visible_tests": [None]},
    "a test with NUL": {"visible_tests": ["assert '\x00'"]}, "setup no Python": {"setup": "import"},
    "misspelt field": {"tag": []}, "NUL in the id": {"task_id": "a\x00b"}, "tags a number": {"tags": 5},
    "deep test": {"hidden_tests": ["assert " + "(" * 5000 + ")" * 5000]},
}  # fmt: skip
TASK_FILES: dict[str, Content] = {
    "an id twice": GOOD * 2, "the third line bad": GOOD + line(TASK, {"task_id": "b"}) + b"{]\n",
    "empty": b"", "blank lines": b"\n \n\n", "binary": bytes(range(256)) * 4,
    "utf-32": GOOD.decode().encode("utf-32"),
    "latin-1": b'{"task_id": "caf\xe9", "prompt": "", "entry_point": "f"}\n', "a list": b"[1, 2]\n",
    "a number": b"5\n", "null": b"null\n", "an object over lines": b"{\n" + GOOD[1:],
    "deep": b'{"task_id":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "torn": GOOD + GOOD[: len(GOOD) // 2],
    "surrogate": b'{"task_id": "\\ud800", "prompt": "", "entry_point": "f"}\n',
    "a key twice": b'{"task_id": "a", "task_id": "b", "prompt": 5, "entry_point": "f"}\n',
    "NaN": b'{"task_id": NaN}\n', "50 MB": lambda path: path.write_bytes(b"x" * 50_000_000),
    "50 MB field": lambda path: path.write_bytes(line(TASK, {"task_id": 5.5, "prompt": "x" * 50_000_000})),
    **{name: ODD[name] for name in ("a FIFO", "a loop", "a folder")},
}  # fmt: skip
GZIPS = [b"no gzip\n", WHOLE[:-9], WHOLE[:12], b"", b"\x1f\x8b", gzip.compress(WHOLE)]


def tasks() -> Iterator[tuple[str, Case]]:
    contents = TASK_FILES | {name: line(TASK, fields) for name, fields in TASK_FIELDS.items()}
    for name, content in contents.items():
        yield f"tasks, {name}", ("bad.jsonl", content, ("...", "benchmark.load.path=bad.jsonl"))
    for number, content in enumerate(GZIPS):
        yield f"tasks, gzip {number}", ("bad.jsonl.gz", content, ("...", "benchmark.load.path=bad.jsonl.gz"))
    for benchmark in ("mbpp", "humaneval_plus", "humaneval"):
        for name, content in {"object": b"{}\n", "binary": b"\x00\xff\n"}.items():
            words = ("...", f"benchmark={benchmark}", "++benchmark.load.path=bad.jsonl")
            yield f"{benchmark}, {name}", ("bad.jsonl", content, words)


# Transcripts and samples of other systems

ATTEMPT = {"code": "def double(x):\n    return x\n", "reflection": "w", "raw": "return x",
           "feedback": "Tests failed:\nassert double(2) == 4\n", "own_pass": False}  # fmt: skip
ROW = {
    "source": "s", "model": "m", "strategy": "reflexion", "run": "reflexion/run1", "problem": "own/double",
    "prompt": 'def double(x):\n    """Twice x."""\n', "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(5) == 10\n",
    "visible_tests": ["assert double(2) == 4"], "logged_is_solved": False, "attempts": [ATTEMPT],
}  # fmt: skip
READERS = {
    "audit": ("audit", "bad.jsonl"), "failures": ("failures", "bad.jsonl"), "parsing": ("parsing", "bad.jsonl"),
    "retrieval": ("retrieval", "bad.jsonl", "--retriever", "recency"),
}  # fmt: skip
NO_ROWS: dict[str, Content] = {
    "empty": b"", "blank": b"\n\n", "binary": bytes(range(256)), "utf-16": line(ROW, {}).decode().encode("utf-16"),
    "a list": b"[]\n", "a number": b"5\n", "torn": line(ROW, {}) + line(ROW, {})[:50], "deep": DEEP + "\n",
    "no attempts": line(ROW, {"attempts": ...}), "an empty object": b"{}\n",
    "torn gzip": gzip.compress(line(ROW, {}), mtime=0)[:-9], "surrogate": line(ROW, {})[:-2] + b', "x": "\xff"}\n',
}  # fmt: skip
ROW_FIELDS = {
    "attempts a number": ({"attempts": 5}, "audit failures parsing retrieval"),
    "attempts of numbers": ({"attempts": [1, 2]}, "audit failures parsing retrieval"),
    "problem a number": ({"problem": 5}, "audit failures parsing retrieval"),
    "problem null": ({"problem": None, "task_id": None}, "audit"),
    "problem unknown": ({"problem": "nobody/1", "prompt": ...}, "audit failures parsing retrieval"),
    "entry point no name": ({"entry_point": "f()"}, "audit failures parsing retrieval"),
    "model a number": ({"model": 5}, "retrieval"), "run a list": ({"run": [1]}, "retrieval"),
    "code a number": ({"attempts": [ATTEMPT | {"code": 5}]}, "audit failures parsing retrieval"),
    "reflection a number": ({"attempts": [ATTEMPT | {"reflection": 5}]}, "parsing retrieval"),
    "raw a list": ({"attempts": [ATTEMPT | {"raw": [1]}]}, "parsing"),
    "verdict a word": ({"logged_is_solved": "yes"}, "audit"),
    "solution attempt 9": ({"solution_is_attempt": 9}, "audit"),
    "solution attempt a word": ({"solution_is_attempt": "one"}, "audit"),
}  # fmt: skip
SAMPLES = {
    "no completion": {"task_id": "HumanEval/0"}, "completion a number": {"task_id": "HumanEval/0", "completion": 5},
    "unknown task": {"task_id": "HumanEval/9999", "completion": ""}, "no task": {"completion": ""},
    "passed a word": {"task_id": "HumanEval/0", "completion": "", "passed": "yes"},
    "solution a list": {"name": "HumanEval/0", "solution": []},
    "is_solved a number": {"name": "HumanEval/0", "solution": "", "is_solved": 1},
}  # fmt: skip
HEAD = "file,attempt,model,part,label,why\n"
LABELS = [
    "", "a,b\n1,2\n", HEAD + "x,1,m,first,nonesuch,\n", HEAD + "x,1,m,nowhere,assertion,\n", "\x00\x01", HEAD + "x\n",
    "file,label,part\nx,assertion,first\n", HEAD + "nobody,1,m,first,assertion,\n" * 2,
    HEAD + "nobody,1,m,first,assertion,\n",
]  # fmt: skip


def transcripts() -> Iterator[tuple[str, Case]]:
    for reader, words in READERS.items():
        for name, content in (NO_ROWS | ODD).items():
            yield f"{reader}, {name}", ("bad.jsonl", content, words)
    for name, (fields, readers) in ROW_FIELDS.items():
        for reader in readers.split():
            yield f"{reader}, {name}", ("bad.jsonl", line(ROW, {}) + line(ROW, fields), READERS[reader])
    for name, sample in SAMPLES.items():
        yield f"sample, {name}", ("bad.jsonl", line(sample, {}), READERS["audit"])
    for number, content in enumerate(LABELS):
        yield f"labels {number}", ("bad.csv", content, ("failures", "transcript.jsonl", "--labels", "bad.csv"))


# Memory

HEADER = b'{"kind":"episodes","schema":1}\n'
EPISODE = {
    "episode_id": "e", "session_id": "s", "agent_id": "a", "task_id": "t", "task_description": "d", "attempt_number": 1,
    "code": "", "test_results": "", "reflection": None, "confidence": 0.5, "passed": False, "timestamp": 1.0,
}  # fmt: skip
STORE = ("--store", "memory.sqlite")
MEMORY_READERS = (
    ("memory", "show"), ("memory", "search", "x"), ("memory", "prune", "--days", "1"),
    ("memory", "export", "out.jsonl"), ("memory", "import", "export.jsonl"), ("wisdom", "list"),
    ("wisdom", "show", "w"), ("wisdom", "stats"), ("wisdom", "extract"),
)  # fmt: skip
EXPORTS: dict[str, Content] = {
    "empty": b"", "binary": bytes(range(256)), "no header": line(EPISODE, {}),
    "schema of the future": b'{"kind":"episodes","schema":99}\n' + line(EPISODE, {}),
    "unknown kind": b'{"kind":"dreams","schema":1}\n', "torn": HEADER + line(EPISODE, {})[:40],
    "id a number": HEADER + line(EPISODE, {"episode_id": 5}),
    "confidence 7": HEADER + line(EPISODE, {"confidence": 7}),
    "timestamp a word": HEADER + line(EPISODE, {"timestamp": "now"}), "a list": HEADER + b"[]\n",
    "deep": HEADER + b'{"episode_id":' + b"[" * 100_000 + b"\n", "NaN": HEADER + b'{"episode_id": NaN}\n',
    "utf-16": (HEADER + line(EPISODE, {})).decode().encode("utf-16"),
}  # fmt: skip
OBJECTS: dict[str, Content] = {
    "empty": b"", "a list": b"[]", "no schema": b"{}", "schema of the future": b'{"schema": 99}',
    "schema a word": b'{"schema": "one"}', "episodes an object": b'{"schema": 1, "episodes": {}}',
    "episodes of numbers": b'{"schema": 1, "episodes": [5]}', "torn": b'{"schema": 1, "episodes": [',
    "deep": b'{"schema": 1, "episodes": ' + b"[" * 100_000, "binary": b"\x00\xff",
    "confidence 7": b'{"schema": 1, "episodes": [' + line(EPISODE, {"confidence": 7}) + b"]}",
}  # fmt: skip
STORE_LINES: dict[str, Content] = {
    "another kind": b'{"kind":"wisdom","schema":1}\n', "no header": line(EPISODE, {}),
    "schema of the future": b'{"kind":"episodes","schema":99}\n',
    "another version": HEADER + line(EPISODE, {"confidence": "sure"}),
}  # fmt: skip


def whole_store(path: Path) -> bytes:
    """That of `world`, as it was."""
    return path.with_name("store.sqlite").read_bytes()


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()


def damaged(path: Path) -> None:
    path.write_bytes((whole := whole_store(path))[:40] + b"\xaa" * 3960 + whole[4000:])


def without_bodies(path: Path) -> None:
    path.write_bytes(whole_store(path))
    for statement in (
        "UPDATE sqlite_master SET sql = replace(sql, 'body TEXT NOT NULL', 'body TEXT')",
        "UPDATE episodes SET body = NULL, exact = NULL",
    ):
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA writable_schema = ON")
            other.execute(statement)
        other.close()


STORES: dict[str, Content] = {
    "text": "no database at all\n" * 100, "another program's": foreign, "damaged": damaged,
    "torn": lambda path: path.write_bytes(whole_store(path)[:5000]), "null": without_bodies, "empty": "",
    **{name: ODD[name] for name in ("absent", "a folder", "a FIFO")},
}  # fmt: skip


def memory() -> Iterator[tuple[str, Case]]:
    for name, content in (EXPORTS | ODD).items():
        words = ("memory", "import", "export.jsonl", "bad.jsonl", *STORE)
        yield f"exported lines, {name}", ("bad.jsonl", content, words)
    for name, content in OBJECTS.items():
        yield f"exported object, {name}", ("bad.json", content, ("memory", "import", "bad.json", *STORE))
    for name, content in STORE_LINES.items():
        for words in MEMORY_READERS:
            if words[0] == "memory" or words[1] == "extract":
                case = "memory/episodes.jsonl", content, (*words, "--store", "memory")
                yield f"store of lines, {words[1]}, {name}", case
    for name, content in STORES.items():
        for words in MEMORY_READERS if name in ("text", "another program's", "damaged") else MEMORY_READERS[:1]:
            yield f"store, {' '.join(words[:2])}, {name}", ("memory.sqlite", content, (*words, *STORE))


# Studies, prices, bundles, configs

AFTER = "stopping: after one run"
STUDIES: dict[str, Content] = {
    "empty": "", "a list": "[]", "a word": "mine", "binary": "\x00", "tabs": "name:\n\tmine",
    "no arms": ("arms: {reflexion: arm=reflexion}", "arms: {}"),
    "baseline": ("baseline: reflexion", "baseline: nobody"),
    "seeds twice": ("seeds: [0]", "seeds: [0, 0]"), "budget": ("budget: {calls: 100}", "budget: {}"),
    "effect": ("minimum_detectable_effect: 0.5", "minimum_detectable_effect: .nan"),
    "tasks": ("n_tasks: 3", "n_tasks: 0"), "name": ("name: mine", "name: ' '"),
    "python": ("name: mine", "name: !!python/object/apply:os.getcwd []"),
    "effect above 1": ("effect: 0.5", "effect: 20"), "no metric": ("primary_metric: pass_at_1\n", ""),
    "tasks a word": ("n_tasks: 3", "n_tasks: three"), "torn": ("name: mine", "name: ["),
    "no hypotheses": ("hypotheses: [words help]", "hypotheses: []"),
    **{text: (AFTER, f"{AFTER}\n{text}") for text in (
        "colour: red", "equivalence_margin: 10", "discordance: 0.1", "agreement: 2",
    )},
}  # fmt: skip
PRICE = "- {{models: [m], provider: p, host: h, currency: USD, prompt: {}, completion: 1, as_of: {}, source: s}}"
PRICES = [
    "", "[]x", "5", "a: b", "- 5", "- {models: []}", "\x00", "- !!python/object/apply:os.getcwd []", "? [a]\n: b",
    *(PRICE.format(price, "2026-01-01") for price in ("-1", "cheap", ".nan")), PRICE.format(1, "soon"),
]  # fmt: skip
ABOUT = "BUNDLE.json"
MEMBERS: dict[str, dict[str, Content | None]] = {
    "no about": {ABOUT: None}, "about torn": {ABOUT: b"{"}, "about a list": {ABOUT: b"[]"},
    "about binary": {ABOUT: b"\xff"}, "about deep": {ABOUT: DEEP}, "no manifest": {"manifest.json": None},
    "a member changed": {"calls.jsonl": b"x"}, "a stranger": {"../escape": b"x"}, "another stranger": {"run.sh": b"x"},
    "format of the future": {ABOUT: ('"format": 1', '"format": 9')},
}  # fmt: skip
"""Members that a bundle has otherwise, or with None not at all."""
CONFIGS: dict[str, Content] = {
    "tabs": "a:\n\t- b\n", "binary": b"\x00\xff\xfe", "latin": b"arm: caf\xe9\n", "twice": "arm: a\narm: b\n",
    "python": "arm: !!python/object/apply:os.system ['touch hacked']\n", "nodefault": "defaults:\n  - nonesuch\n",
    "itself": "defaults:\n  - /experiment: itself\n", "scalar": "5\n",
    **{name: f"# @package _global_\n{text}\n" for name, text in {
        "nan": "temperature: .nan", "date": "seed: 2026-01-01", "norway": "feedback_source: no",
        "sexagesimal": "seed: '1:30'", "bytes": "arm: !!binary aGk=", "set": "benchmark:\n  ids: !!set {a, b}",
        "merge": "<<: 5", "intkey": "5: 6", "misspelt": "sed: 3", "too_high": "max_attempts: 3",
        "limit": "benchmark:\n  limits: 3", "place": "storage:\n  call: here.sqlite",
    }.items()},
}  # fmt: skip


def bundle(changes: dict) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path.with_name("good.zip")) as old:
            members = {name: old.read(name) for name in old.namelist()}
        with zipfile.ZipFile(path, "w") as new:
            for name, content in (members | changes).items():
                if content is not None:
                    is_edited = isinstance(content, tuple)
                    new.writestr(name, members[name].decode().replace(*content) if is_edited else content)

    return write


def others() -> Iterator[tuple[str, Case]]:
    for name, content in STUDIES.items():
        yield f"study, {name}", ("study.yaml", content, ("study", "check", "study.yaml", "old/good"))
    for number, text in enumerate(PRICES):
        yield f"prices {number}", ("prices.yaml", text, ("...", "prices.path=prices.yaml"))
    for name, changes in MEMBERS.items():
        yield f"bundle, {name}", ("bad.zip", bundle(changes), ("replay", "bad.zip"))
    for cut in (0, 3, 100, -1, -30):
        torn = lambda path, cut=cut: path.write_bytes(path.with_name("good.zip").read_bytes()[:cut])  # noqa: E731
        yield f"bundle, cut {cut}", ("bad.zip", torn, ("replay", "bad.zip"))
    for name, content in CONFIGS.items():
        words = ("...", "hydra.searchpath=[file://WORK/mine]", f"experiment={name}")
        yield f"config, {name}", (f"mine/experiment/{name}.yaml", content, words)


CASES: dict[str, Case] = dict([*run_folders(), *tasks(), *transcripts(), *memory(), *others()])
