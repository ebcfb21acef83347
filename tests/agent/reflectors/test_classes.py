import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.reflectors.evidence import CLASSES, classify, without_program
from reflexion_lab.records import Step, Usage
from tests import builders as make

CONFIDENCES = {
    "no_program": 0.6, "syntax": 0.6, "assertion": 0.5, "timeout": 0.5, "null": 0.6, "index": 0.6, "permission": 0.4,
    "import": 0.6, "type": 0.5, "concurrency": 0.4, "memory": 0.4, "unknown": 0.3,
}  # fmt: skip

WORDED = {
    "syntax": ("def f(:", "if True:\npass", "x = (", "x = 'a", "if x:\n    y\n  z", "missing"),
    "null": ("None.items", "None + 1", "len(None)", "x = None\nx[0]"),
    "index": ("[][0]", "[].pop()"),
    "permission": ("raise PermissionError(13, 'Permission denied')",),
    "import": ("import no_such_module_here", "from math import no_such_name"),
    "type": (
        "1 + 'a'", "1 < 'a'", "int('x')", "float('a')", "int(1, 2)", "round(1j)", "a, b = 1, 2, 3", "a, b = [1]",
        "(1).items", "iter(1)", "1()", "1[0]", "(lambda: 1)(2)", "(lambda x: 1)()", "(lambda: 1)(x=2)", "1 / 0",
        "1 % 0", "1.0 / 0",
    ),
    "concurrency": ("raise RuntimeError('deadlock detected')",),
    "memory": ("def f(): f()\nf()",),
    "unknown": (
        "raise RuntimeError('something odd')", "raise NotImplementedError",
        "class Odd(Exception): pass\nraise Odd('x')",
    ),
}  # fmt: skip
"""Programs whose class both the exception's type and its message show."""
TYPED = {
    "syntax": ("if True:\n\tx = 1\n        y = 2", "def f():\n    x += 1\nf()"),
    "assertion": ("assert 1 == 2", "assert False, 'import timeout race'"), "timeout": ("raise TimeoutError",),
    "index": ("{}['import']", "next(iter([]))"), "type": ("2.0 ** 100000", "b'\\xff'.decode('utf-8')"),
    "concurrency": ("raise BrokenPipeError",), "memory": ("raise MemoryError",),
}  # fmt: skip
"""Programs whose class the type alone shows."""


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("name", CLASSES)
def test_errors_are_classified_by_type_traceback_and_words(name: str) -> None:
    for program in (*WORDED.get(name, ()), *TYPED.get(name, ())):
        error, text = raised_by(program), as_traceback(program)
        assert classify(type(error).__name__, str(error)) == name, program
        for pasted in (text, text.rstrip(), "    " + text.replace("\n", "\n    ")):
            assert classify("", pasted) == name, program
        assert classify("", str(error)) == name or program in TYPED.get(name, ()), program


def raised_by(program: str) -> BaseException:
    try:
        exec(compile(program, "<module>", "exec"), {})
    except Exception as error:
        return error
    raise AssertionError(f"{program!r} raised nothing")


def as_traceback(program: str) -> str:
    return "".join(traceback.format_exception(raised_by(program)))


def test_the_last_exception_of_a_chain_decides_whatever_follows_it() -> None:
    program = "try:\n    {}['a']\nexcept KeyError:\n    import no_such_module_here"
    assert classify("", as_traceback(program)) == "import"
    text = as_traceback("raise ValueError('first line\\nKeyError: second line')")
    assert classify("", text + "note: race condition\n") == "type"


@pytest.mark.parametrize("name", ["builtins.KeyError", "concurrent.futures._base.TimeoutError"])
def test_dotted_exception_names_are_read_by_their_last_part(name: str) -> None:
    assert classify(name, "") == classify(name.rpartition(".")[2], "") != "unknown"


@pytest.mark.parametrize(("message", "name"), make.TABLES["messages without a type"])
def test_without_a_type_whole_words_decide(message: str, name: str) -> None:
    assert classify("", message) == name


@pytest.mark.parametrize(
    "message",
    [
        "Traceback", "in <module>", "trace of an embraced important prototype",
        "FAILED tests/test_import.py::test_race_timeout", "test_import_types: wrong value 3",
        "the value 'out of memory' is wrong",
    ],
)  # fmt: skip
def test_word_parts_test_names_and_quotes_are_ignored(message: str) -> None:
    assert classify("", message) == "unknown"


@given(st.text(), st.text())
def test_every_error_has_a_class(error_type: str, message: str) -> None:
    assert classify(error_type, message) in CLASSES


@pytest.mark.parametrize(
    ("error_type", "message", "category"),
    [
        ("MyError", "expected a list", "unknown"), ("program.MyError", "sizes mismatch: 3 expected", "unknown"),
        ("RuntimeError", "expected a list", "unknown"), ("MyError", "out of memory, expected less", "memory"),
        ("ExpectationFailedError", "expected 3", "assertion"), ("", "expected 3, got 4", "assertion"),
    ],
)  # fmt: skip
def test_an_exception_that_is_no_failed_check_is_no_assertion(error_type, message, category):
    assert classify(error_type, message) == category


def test_each_class_has_its_confidence_and_its_own_texts() -> None:
    assert {name: failure.confidence for name, failure in CLASSES.items()} == CONFIDENCES
    for field in ("root_cause", "symptom", "fix", "action"):
        assert len({getattr(failure, field) for failure in CLASSES.values()}) == len(CLASSES)
    assert all(failure.action.count("{evidence}") == 1 for failure in CLASSES.values())


@pytest.mark.parametrize(("cut", "is_cut"), [((1, 0), False), ((0, 1), True), ((1, 1), True), ((), False)])
def test_of_many_replies_the_last_explains_why_there_is_no_program(cut, is_cut):
    usages = [Usage(calls=1, cut_replies=each) for each in cut]
    steps, usage = (
        tuple(Step(usage=each) for each in usages),
        sum(usages, Usage(calls=0 if cut else 2, cut_replies=0 if cut else 1)),
    )
    attempt = make.attempt(acted={"solution": "", "reply": "I give up", "steps": steps, "usage": usage})
    assert ("broke off at max_tokens" in without_program(attempt.trajectory)) is is_cut
