"""Every text of a model or a log that the lab's own process parses, evaluates or prints is bounded."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reflexion_lab
from reflexion_lab.tasks.evaluators import self_tests
from reflexion_lab.tasks.sandbox import apart, plain
from reflexion_lab.tasks.sandbox.apart import judge, prepare, show
from reflexion_lab.tasks.sandbox.comparison import WORK, Decoder, Opaque, Unreadable, size
from reflexion_lab.tasks.sandbox.needs import ROUNDS
from reflexion_lab.tasks.sandbox.plain import DEEPEST
from reflexion_lab.text.replies.syntax import CODE_CHARS, LARGEST, PARSES

PACKAGE = Path(reflexion_lab.__file__).parent
PAGE = (Path(__file__).parents[3] / "docs" / "safety.md").read_text()
TEXTS = [
    row.split(" | ") for row in re.search(r"\| text \| read by \| bound \|\n\|.*\n((?:\|.*\n)+)", PAGE)[1].splitlines()
]
READERS = {"compile", "eval", "exec", "ast.literal_eval", "literal_eval", "parse", "syntax.parse", "tree_of", "Parser"}
HOSTILE = [
    "[[0]*1000000]*1000000", "[[[0]*1000]*1000]*1000", "((0,)*30000,)*30000", "{1: [[0]*9999]*9999}", "[{}]*10**8",
    "[10**4000]*1000000", "['a'*1000000]*1000000", "'a'*10**9", "b'a'*10**9", "10**10**8", "9**9**9", "1 << 10**9",
    "2**65536*2**65536*2**65536", "f'{1:1000000000}'", "'%1000000000d' % 1", "'%s' % ([[0]*9999]*9999,)",
    "'%(a)s'*150 % {'a': [0]*1000000}", "list(range(10**9))", "{*range(10**9)}", "[0 for _ in range(10**9)]",
    "bytes(10**9)", "sum([[0]*1000]*1000, [])", "round(1, -10**9)", "int('9'*1000000)", "'a'.rjust(10**9)",
    "[" * 5000 + "]" * 5000, "-" * 50000 + "1", "1" + "+1" * 50000, "x" + ".a" * 900, "{" * 300,
    "(" * 60000, "lambda:" * 3000 + "0", "{" + ",".join(str(i * (2**61 - 1)) for i in range(2000)) + "}",
]  # fmt: skip
FORMS = [
    "assert f(1) == {}", "assert f(1) == str({})", "assert len({}) in [f(1)]", "assert f({}) == 1", "assert not {}",
    "for x in [1]:\n    assert f(x) == {}", "x0 = {}\n" + "\n".join(f"x{i} = x{i - 1}" for i in range(900, 0, -1)),
]  # fmt: skip
CALLS = "".join(f"def g{i}():\n    return g{i + 1}() or g{i + 1}()\n" for i in range(40))
OTHERS = [
    f"{CALLS}for _ in [1]:\n    assert f(g0()) == 1",
    "assert f(1) == 0" + " < 1" * 300000,
    "[" * 3000 + "]" * 3000, '{"t":' * 900 + "[]" + "}" * 900, '{"d":[[1,' * 300 + "1" + "]]}" * 300,
    '{"r":[0,{"i":"ffffffffffff"},1]}', '{"i":"' + "f" * 900000 + '"}', '{"n":"1E+999999999"}', '{"c":[1,[[1]]]}',
    '{"s":[' + ",".join(f'{{"i":"{i * (2**61 - 1):x}"}}' for i in range(20000)) + "]}",
    '{"K":[' + ",".join(f'{{"i":"{i * (2**61 - 1):x}"}}' for i in range(20000)) + "]}",
    '{"I":[' + ",".join(f'[{{"i":"{i * (2**61 - 1):x}"}},1]' for i in range(20000)) + "]}",
    '{"q":[1,' + '{"i":"' + "7" * 200000 + '"}]}', '{"uuid":{"i":"' + "f" * 9000 + '"}}', '{"V":[[1],[2]]}',
]  # fmt: skip
CHILD = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (240, 240))
import json, sys
from contextlib import suppress
from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.jsonl import _task as split
from reflexion_lab.tasks.benchmarks.rows import checked, repeated
from reflexion_lab.tasks.benchmarks.visible import visible_tests
from reflexion_lab.tasks.evaluators.self_tests import Sieve, asserts
from reflexion_lab.tasks.sandbox.apart import judge, literal, prepare_all
from reflexion_lab.tasks.sandbox.comparison import Decoder
from reflexion_lab.text.replies.extract import extract
from reflexion_lab.text.replies.syntax import Parser

TASK = Task(task_id="t", prompt="def f(x):\\n    pass\\n", entry_point="f")

def check(text):
    for prepared in prepare_all((text,), "f", ""):
        for value in ([1], "a") if prepared.calls else ():
            judge(prepared.test, [value] * len(prepared.calls[1]))

def task(text):
    with suppress(DataError):
        checked(Task(task_id="t", prompt=text, entry_point="f", hidden_tests=(text,)))
    visible_tests("def f(x): pass\\n>>> " + text, "f")
    repeated([text], [text], "f")
    with suppress(DataError):
        split({"task_id": "t", "prompt": "def f(x): pass", "entry_point": "f", "tests": text}, 0)

def value(text):
    with suppress(ValueError, RecursionError):
        for decoded in Decoder().decode(json.loads(text)):
            literal(decoded)
            judge(prepare_all(("assert f(1) == [f(2)]",), "f", "")[0].test, [decoded, decoded])

WALKS = {
    "checks and their setup": lambda text: (check(text), prepare_all(("assert f(1) == 1",), "f", text)),
    "values in checks": check,
    "values of programs": value,
    "programs": lambda text: None,
    "replies": lambda text: extract("```python\\n" + text + "\\n```", TASK),
    "asserts in replies": lambda text: [Sieve(TASK).refusal(test) for test in asserts(text, 2000)],
    "tests in logs": lambda text: (Parser().parse(text), Parser().is_incomplete(text)),
    "tasks in files": task,
}
assert list(WALKS) == json.loads(sys.argv[1])
for text in json.load(sys.stdin):
    for kind, walk in WALKS.items():
        walk(text)
"""


def modules():
    """Modules that parse or evaluate text."""
    for path in PACKAGE.rglob("*.py"):
        calls = {ast.unparse(n.func) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)}
        assert "ast.parse" not in calls, path  # `syntax.parse` is for threads
        if calls & READERS:
            yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def test_every_module_that_parses_text_is_on_the_list_and_the_page():
    listed = {module for _, modules, _ in TEXTS for module in modules.split(", ")}
    others = {"runner.sources", "memory.curators.expel"}  # own modules of the user; lines of operations, not Python
    assert set(modules()) - others <= listed
    assert all((PACKAGE / module.replace(".", "/")).with_suffix(".py").is_file() for module in listed)
    bounds = [LARGEST, ROUNDS, WORK // 4, plain.LARGEST, DEEPEST, WORK, apart.SHOWN, CODE_CHARS, PARSES]
    bounds += [self_tests.READ, self_tests.LONGEST, CODE_CHARS]
    numbers = re.findall(
        r"[\d,]+(?= (?:characters|passes|parts|levels|parses))|[\d,]+(?= of each)", " ".join(row[2] for row in TEXTS)
    )
    assert numbers == [f"{bound:,}" for bound in bounds]


@pytest.mark.slow
@pytest.mark.parametrize("forms", [1, pytest.param(len(FORMS), marks=pytest.mark.soak)])
def test_no_text_on_the_list_freezes_the_lab_or_eats_its_memory(forms):
    """In a process with limits far above what any of them takes; each text in one form after the other, or in all."""
    drawn = [form.format(text) for n, text in enumerate(HOSTILE) for form in (2 * FORMS)[n % 7 : n % 7 + forms]]
    every = drawn + OTHERS
    command = [sys.executable, "-c", CHILD, json.dumps([kind.removeprefix("| ") for kind, _, _ in TEXTS])]
    run = subprocess.run(command, input=json.dumps(every), text=True, check=False)
    assert run.returncode == 0


@pytest.mark.parametrize(
    "value", ["[[0] * 30_000] * 30_000", "{1: ((0,) * 30_000,) * 30_000}", "[[[0] * 999] * 999] * 999"]
)
def test_size_and_what_is_shown_are_bounded_by_the_unfolded_size(value):
    value = eval(value)
    assert show(value)[:8] in ("[[0, 0, ", "{1: ((0,", "[[[0, 0,") and len(show(value)) == 200
    with pytest.raises(OverflowError):
        size(value)


@pytest.mark.parametrize("value", [
    [], (), (1,), {}, [[]] * 90, [[1, "a"], ("b", {2: [None] * 80})], {"k" * 300: 1}, ["'" * 150, '"'], {3, 1},
])  # fmt: skip
def test_a_value_is_shown_as_its_repr(value):
    assert show(value) == repr(value)[:200]


def test_a_check_beyond_the_bounds_is_computed_in_a_child(sandbox):
    program = "def f(n): return [[0] * n] * n\n"
    checks = [f"assert f({n}) == [[0] * {n}] * {n}" for n in (3, 1000, 1_000_000)]
    outcomes = [check.outcome for check in sandbox.run(program, "f", checks).checks]
    assert outcomes[:2] == ["pass", "pass"] and outcomes[2] in ("timeout", "memory", "early_exit", "error")
    assert judge(prepare("assert f(1) * 9 == 1", "f").test, ["a" * 9_000_000])["error_type"] == "TypeError"


@pytest.mark.parametrize(
    "value", ['{"V":{"r":[0,1048576,1]}}', '{"V":"ab"}', '{"c":{"r":[0,2]}}', '{"time":[[1,1,1,1,0],{"r":[0,3]}]}']
)
def test_a_forged_value_has_no_more_elements_than_its_report(value):
    with pytest.raises(Unreadable):
        Decoder().decode([json.loads(value)])


def test_comparisons_of_equal_hashes_count_the_parts_that_they_read():
    tuples = [{"t": [0] * 900 + [-1 - (i >> bit & 1) for bit in range(8)]} for i in range(256)]
    few, many = Decoder().decode({"s": tuples[:20]}, {"s": tuples})
    assert len(few) == 20 and isinstance(many, Opaque)
