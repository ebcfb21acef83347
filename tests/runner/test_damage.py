"""Any damaged file of a run folder: the run resumes to the same records, or the error names file and line."""

import json
import re
import shutil

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.cli.main import main
from reflexion_lab.errors import FolderError
from reflexion_lab.records import Resumption, SetAside
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder, write_digests
from reflexion_lab.runner.folder.tidy import DROPPED
from reflexion_lab.studies.run import carry_out
from tests.builders import scripted

RULES = [
    {"when": "(?m)^(assert|# Different|I need tests)", "scope": "conversation", "reply": "(3) == 7\nassert 1"},
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
]
CONFIG = [
    "benchmark.limit=3", "loop.max_attempts=2", "tracker=none", "quiet=true", "feedback_source=self_tests",
    "store=sqlite", "memory.shared.round_size=1", "workers=1",
]  # fmt: skip
KEYS = {
    "attempts.jsonl": ("task_id", "number"), "results.jsonl": ("task_id",), "grades.jsonl": ("task_id", "number"),
    "written_tests.jsonl": ("task_id",), "suite_verdicts.jsonl": ("task_id",),
}  # fmt: skip
FIRST = ("attempts.jsonl", "results.jsonl")
"""Files whose damages the fast tests go through."""


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    """Overrides of the run below a folder."""
    model = scripted(tmp_path_factory.mktemp("model"), *RULES, reply="\n    return None\n")
    return lambda root: [*model, *CONFIG, f"run_root={root / 'runs'}"]


def run_in(root):
    (path,) = (root / "runs").glob("*/manifest.json")
    return path.parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory, overrides):
    """The place of a finished run."""
    root = tmp_path_factory.mktemp("whole")
    carry_out(compose(*overrides(root)))
    folder = RunFolder(run_in(root))
    folder.append("set_aside.jsonl", SetAside(task_id="t", outcome="timeout", problem="late", at="then"))
    environment = {"code_digest": "", "python": "", "platform": "", "isolation": (), "package_versions": {}}
    folder.append("resumptions.jsonl", Resumption(at="then", **environment))
    (folder.path / "digests.json").unlink()
    write_digests(folder)
    folder.close()
    return root


@pytest.fixture
def damaged(whole, tmp_path):
    """Makes a copy of the finished run, with a file changed by a function from lines to lines."""

    def change(name, how):
        root = tmp_path / "copy"
        shutil.copytree(whole, root)
        file = run_in(root) / name
        file.write_bytes(b"".join(how(file.read_bytes().splitlines(keepends=True))))
        return root

    return change


def outcome(path):
    log = Log.read(RunFolder.existing(path))
    assert log.torn == 0
    return canonical_form(log), log.written, log.suite_verdicts


@pytest.fixture
def resumed(overrides):
    def resume(root):
        carry_out(compose(*overrides(root), f"resume={run_in(root)}"))
        return outcome(run_in(root))

    return resume


def in_line(place, change):
    """Change the line at `place` alone."""

    def how(lines):
        n = place % len(lines)
        return [*lines[:n], *change(lines[n]), *lines[n + 1 :]]

    return how


DAMAGES = {
    "torn": in_line(-1, lambda line: [line[: len(line) // 2]]),
    "truncated": in_line(0, lambda line: [line[: len(line) // 2] + b"\n"]),
    "flipped": in_line(0, lambda line: [bytes([line[0] ^ 1]) + line[1:]]),
    "not UTF-8": in_line(0, lambda line: [line.replace(b'":"', b'":"\xff', 1)]),
    "zeros": in_line(0, lambda line: [b"\0" * len(line) + b"\n"]),
    "another shape": in_line(0, lambda line: [b'{"hello": 1}\n']),
    "another value": in_line(0, lambda line: [line.replace(b'"task_id":"', b'"task_id":"x', 1)]),
    "twice": in_line(0, lambda line: [line, line]),
    "twice, far apart": lambda lines: [*lines, lines[0]],
    "first line gone": in_line(0, lambda line: []),
    "last line gone": in_line(-1, lambda line: []),
    "empty": lambda lines: [],
}


def unsealed(root):
    """As a run that was killed before its end."""
    (run_in(root) / "digests.json").unlink()
    return root


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FIRST else pytest.mark.slow) for name in KEYS])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_resumes_to_the_same_records_or_the_line_is_named(whole, damaged, name, damage, resumed):
    root = unsealed(damaged(name, DAMAGES[damage]))
    try:
        after = resumed(root)
    except FolderError as problem:
        assert re.search(r"\.jsonl, line \d+: .*delete that line and resume", str(problem))
        assert name != "results.jsonl" or damage in ("another shape", "another value")
        return
    assert after == outcome(run_in(whole))
    for file, keys in KEYS.items():
        rows = [json.loads(line) for line in (run_in(root) / file).read_bytes().splitlines()]
        names = [tuple(row[key] for key in keys) for row in rows]
        assert len(set(names)) == len(names)
    assert main(["verify", str(run_in(root))]) == 0


@pytest.mark.parametrize("name", ["attempts.jsonl", "results.jsonl"])
def test_after_the_named_line_is_deleted_the_run_resumes_to_the_same_records(whole, damaged, name, resumed):
    root = unsealed(damaged(name, DAMAGES["another shape"]))
    while True:
        try:
            assert resumed(root) == outcome(run_in(whole))
            return
        except FolderError as problem:
            file, number = re.search(r"(\w+\.jsonl), line (\d+): ", str(problem)).groups()
            lines = (run_in(root) / file).read_bytes().splitlines(keepends=True)
            (run_in(root) / file).write_bytes(b"".join(lines[: int(number) - 1] + lines[int(number) :]))


def test_torn_lines_are_kept_and_said_in_one_line(damaged, resumed):
    root = damaged("results.jsonl", DAMAGES["truncated"])
    before = {file.name: file.read_bytes() for file in run_in(root).glob("*.jsonl")}
    with pytest.warns(RuntimeWarning, match=rf"torn lines of results\.jsonl are moved to .*{DROPPED}"):
        resumed(root)
    for name in ("attempts.jsonl", "results.jsonl", "grades.jsonl"):
        assert set((run_in(root) / DROPPED / name).read_bytes().splitlines()) <= set(before[name].splitlines())


@pytest.mark.parametrize("name", ["manifest.json", "memory.json"])
def test_what_no_line_can_replace_is_named_with_what_to_do(damaged, name, resumed):
    root = damaged(name, lambda lines: [b"{\n"])
    with pytest.raises(FolderError, match=rf"{name}: .*restore it from a copy, or begin again"):
        resumed(root)


def test_a_run_without_the_memory_that_it_began_with_is_not_resumed(damaged, resumed):
    root = damaged("attempts.jsonl", list)
    (run_in(root) / "memory.json").unlink()
    with pytest.raises(FolderError, match=r"memory\.json: .*restore it from a copy"):
        resumed(root)


def test_a_line_deleted_by_hand_is_a_loop_that_runs_again(whole, damaged, resumed):
    root = damaged("results.jsonl", DAMAGES["last line gone"])
    assert resumed(root) == outcome(run_in(whole))
