"""Differences between a program and a correct one, in words that do not quote the correct one.

Of the correct program, the words contain single tokens only: an operator, a name, a keyword, or a constant of at most
`LONGEST` characters. Whole lines are quoted from the compared program alone.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from experiments.oracle_words.constructs import (
    OPERATORS,
    Difference,
    Function,
    by_constructs,
    called_name,
    constructs,
    expression_words,
    parsed,
    statement_words,
    value_words,
)
from reflexion_lab.tasks.benchmarks.mutants import mutants
from reflexion_lab.text import shorten
from reflexion_lab.text.replies.syntax import bound_anywhere, definition, unbound_names

LOCAL = 4
"""Maximum number of differences in place; programs that differ in more are compared by their constructs."""
QUOTED = 44
"""Maximum length of a quoted line of the compared program."""
MUTANTS = 60
"""Maximum number of mutants from which differences that do not hold are drawn."""
LINES = 60
"""Length of a program above which fewer mutants are drawn, so that all of them together keep their length."""

N = TypeVar("N", bound=ast.AST)
IGNORED = ("annotation", "returns", "decorator_list", "type_params", "type_comment", "ctx", "kind")


def differences(program: str, correct: str, entry_point: str) -> list[Difference]:
    """Differences of `program` from `correct`, the most important first; [] if the functions are equal but for names.

    Up to `LOCAL` differences are given in place: an operator, constant, name, argument, bound, branch, statement. If
    there are more, or `program` cannot be compared in place, they are constructs that one has and the other lacks.

    Parameters
    ----------
    program : str
        The program of an attempt; it may be invalid or empty.
    correct : str
        A correct program that defines `entry_point`.
    entry_point : str
        Name of the function in question.
    """
    tree, right = parsed(program), parsed(correct)
    if right is None:
        return []
    if tree is None:
        cause, change = (
            "My reply holds no program that Python can read.",
            f"Write `{entry_point}` whole, in valid Python.",
        )
        return [Difference("no program", cause, change), *by_constructs(program, correct)]
    if definition(tree, entry_point) is None and isinstance(definition(right, entry_point), Function):
        cause = f"My program does not define `{entry_point}`."
        return [Difference("no function", cause, f"Define `{entry_point}` by that name."), *by_constructs("", correct)]
    in_place = _in_place(program, tree, right)
    is_local = len(in_place) <= LOCAL
    return list(dict.fromkeys(in_place[:LOCAL])) if is_local else by_constructs(program, correct) or in_place[:LOCAL]


def untrue(
    program: str, task_solutions: Sequence[str], correct: str, entry_point: str, rng: Random
) -> list[Difference]:
    """Differences in the same words that do not hold between `program` and `correct`, in random order.

    They are those from mutants of `program`, from its statements and results of other tasks, from constructs of other
    tasks' solutions that neither program has, and from constructs of both.

    Parameters
    ----------
    task_solutions : Sequence[str]
        Correct programs of all tasks.
    """
    true = {difference.change for difference in differences(program, correct, entry_point)}
    tree, right = parsed(program), parsed(correct)
    if tree and right:  # those beyond `LOCAL`, too
        true |= {difference.change for difference in _in_place(program, tree, right)}
    true |= {difference.change for difference in by_constructs(program, correct)}
    drawn: list[Difference] = []
    if tree:
        most = max(1, MUTANTS * LINES // max(LINES, len(program.splitlines())))
        for mutant in mutants(program, most=most, rng=rng):
            drawn += differences(program, mutant.program, entry_point)
    drawn += _of_statements(program, task_solutions)
    mine, theirs = constructs(program), constructs(correct)
    others = dict.fromkeys(each for solution in task_solutions for each in constructs(solution))
    drawn += [each.missing for each in others if each not in mine and each not in theirs]
    drawn += [each.superfluous for each in mine if each in theirs]
    distinct = {difference.change: difference for difference in drawn if difference.change not in true}
    return rng.sample(sorted(distinct.values()), len(distinct))


# Differences in place


def _in_place(program: str, tree: ast.Module, right: ast.Module) -> list[Difference]:
    """Differences of the functions and values of equal names in two modules, and names that the program lacks."""
    compared = _Compared(program.splitlines())
    values = {name: node for node in tree.body for name in _assigned(node)}
    for node in right.body:
        if isinstance(node, Function) and isinstance(own := definition(tree, node.name), Function):
            compared.functions(own, node)
        for name in _assigned(node):
            if name in values:
                compared.nodes(values[name], node)
    bound = bound_anywhere(right)
    for use in (each for each in _unbound(tree) if each.id in bound):
        compared.add("unbound name", use, f"`{use.id}` is not defined", f"Define or import `{use.id}`, used")
    functions = {node.name for node in right.body if isinstance(node, Function)}
    for node in tree.body:
        if functions & {*_assigned(node)}:
            compared.superfluous(node)
    return [difference for _, difference in compared.differences]


def _assigned(node: ast.stmt) -> list[str]:
    """Names to which a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _unbound(tree: ast.Module) -> list[ast.Name]:
    """The first use of each name that neither the module nor Python binds; [] if `import *` may bind any."""
    names = set() if "*" in bound_anywhere(tree) else unbound_names(tree)
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names]
    return list({node.id: node for node in reversed(uses)}.values())


def _body(node: Function) -> list[ast.stmt]:
    """The body without its docstring."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[is_docstring:]


def _locals(node: Function) -> list[str]:
    parameters = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
    bound: list[Any] = [each for each in ast.walk(node) if isinstance(each, Function) and each is not node]
    bound += [each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    bound.sort(key=lambda each: (each.lineno, each.col_offset))
    names = (each.id if isinstance(each, ast.Name) else each.name for each in bound)
    return list(dict.fromkeys([*parameters, *names]))


class _Compared:
    """Collects differences while two functions are compared."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.names: dict[str, str] = {}
        self.differences: dict[tuple[int, Difference], None] = {}
        """With their lines: lines of the same text differ."""
        self._added = 0
        self._line = 0
        """Line of the last compared node with a line: parameters and clauses of comprehensions have none."""

    def add(self, kind: str, node: Any, cause: str, change: str, where: str = "in") -> None:
        """Add a difference at the line of `node`, which stands before `cause` and after `change`: its text, since
        prompts show programs in part.
        """
        number = getattr(node, "lineno", self._line)
        quoted = shorten.line(self.lines[number - 1], QUOTED) if 0 < number <= len(self.lines) else ""
        place = f"`{quoted}`" if quoted and "`" not in quoted else "my program"
        self.differences[number, Difference(kind, f"In {place}, {cause}.", f"{change} {where} {place}.")] = None
        self._added += 1

    def functions(self, own: Function, correct: Function) -> None:
        """Compare two functions of one name: kind, parameters, body."""
        # Local names of the program by those of the correct one: equal names stay, others match in order of binding.
        theirs, mine = _locals(correct), _locals(own)
        unmatched = [name for name in mine if name not in theirs]
        self.names = dict(zip((name for name in theirs if name not in mine), unmatched, strict=False))
        if type(own) is not type(correct):
            keyword = "async" if isinstance(correct, ast.AsyncFunctionDef) else "no `async`"
            self.add("kind of function", own, f"`{own.name}` must have {keyword}", f"Give `{own.name}` {keyword}")
        if self.form(own.args, {}) != self.form(correct.args, self.names):
            self.add("parameters", own, "the parameters are not those of the task", "Write the task's parameters")
        self.statements(_body(own), _body(correct), own)

    def statements(self, own: Sequence[ast.stmt], correct: Sequence[ast.stmt], parent: Any) -> None:
        """Align two blocks: equal statements, then statements of one type in order; report the others."""
        mine, theirs = [self.form(node, {}) for node in own], [self.form(node, self.names) for node in correct]
        matcher = difflib.SequenceMatcher(None, mine, theirs, autojunk=False)
        last: Any = parent
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                last = self._unequal(own[a:b], correct[c:d], last)
            last = own[b - 1] if b > a else last

    def _unequal(self, own: Sequence[ast.stmt], correct: Sequence[ast.stmt], last: Any) -> Any:
        types = [type(node).__name__ for node in own], [type(node).__name__ for node in correct]
        for _, a, b, c, d in difflib.SequenceMatcher(None, *types, autojunk=False).get_opcodes():
            pairs = min(b - a, d - c)
            for first, second in zip(own[a:b], correct[c:d], strict=False):
                self.nodes(first, second)
            for node in own[a + pairs : b]:
                self.superfluous(node)
            last = own[b - 1] if b > a else last
            for node in correct[c + pairs : d]:
                kind = statement_words(node)
                self.add("missing statement", last, f"{kind} is missing after it", f"Add {kind}", "after")
        return last

    def superfluous(self, node: ast.stmt) -> None:
        kind = statement_words(node)
        self.add("superfluous statement", node, f"{kind} does not belong there", f"Remove the {kind.partition(' ')[2]}")

    def nodes(self, own: Any, correct: Any) -> None:
        """Compare two nodes of one place."""
        self._line = getattr(own, "lineno", self._line)
        if self.form(own, {}) == self.form(correct, self.names):
            return
        if type(own) is not type(correct):
            self._other_type(own, correct)
            return
        before = self._added
        self._parts(own, correct)
        if self._added == before:
            words = statement_words(own) if isinstance(own, ast.stmt) else expression_words(own)
            self.add("other part", own, f"{words} is not right", f"Correct {words}")

    def _parts(self, own: Any, correct: Any) -> None:
        """Compare the parts of two nodes of one type."""
        match own:
            case ast.Compare() if len(own.ops) == len(correct.ops):
                self._operators("comparison", own, own.ops, correct.ops)
                self._fields(own, correct, ("left", "comparators"))
            case ast.BinOp() | ast.AugAssign() | ast.UnaryOp() | ast.BoolOp():
                kind = "and/or" if isinstance(own, ast.BoolOp) else "operator"
                self._operators(kind, own, [own.op], [correct.op])
                self._fields(own, correct, [name for name in own._fields if name != "op"])
            case ast.Constant():
                mine, theirs = value_words(own), value_words(correct)
                change = f"Replace {mine} by {theirs}" if mine != theirs else f"Correct {mine}"
                self.add("constant", own, f"{mine} is wrong; it must be {theirs}", change)
            case ast.Name():
                self._token("name", own, own.id, self.names.get(correct.id, correct.id))
            case ast.Attribute():
                self._token("name", own, own.attr, correct.attr)
                self.nodes(own.value, correct.value)
            case ast.Call():
                self._call(own, correct)
            case ast.If() | ast.IfExp() | ast.While() if self._is_mirrored(own, correct):
                return
            case ast.Slice():
                self._slice(own, correct)
            case _:
                self._fields(own, correct, own._fields)

    def _fields(self, own: ast.AST, correct: ast.AST, names: Sequence[str]) -> None:
        for name in names:
            mine, theirs = getattr(own, name, None), getattr(correct, name, None)
            if name in IGNORED:
                continue
            if isinstance(mine, list) and isinstance(theirs, list):
                if any(isinstance(node, ast.stmt) for node in [*mine, *theirs]):
                    self.statements(mine, theirs, own)
                else:
                    self._lists(own, mine, theirs)
            elif isinstance(mine, ast.AST) and isinstance(theirs, ast.AST):
                self.nodes(mine, theirs)
            elif mine is None and theirs is not None:
                words = expression_words(theirs)
                self.add("missing value", own, f"{words} is missing", f"Use {words}")
            elif theirs is None and mine is not None:
                words = expression_words(mine)
                self.add("superfluous value", own, f"{words} is not needed", f"Leave out {words}")

    def _lists(self, own: ast.AST, mine: Sequence[Any], theirs: Sequence[Any]) -> None:
        for first, second in zip(mine, theirs, strict=False):
            if isinstance(first, ast.AST) and isinstance(second, ast.AST):
                self.nodes(first, second)
        if len(mine) != len(theirs):
            size = "fewer" if len(mine) > len(theirs) else "more"
            self.add("number of parts", own, f"{expression_words(own)} needs {size} parts", f"Use {size} parts")

    def _operators(self, kind: str, node: ast.AST, own: Sequence[ast.AST], correct: Sequence[ast.AST]) -> None:
        for mine, theirs in zip(own, correct, strict=True):
            if type(mine) is not type(theirs):
                self._token(kind, node, OPERATORS[type(mine)], OPERATORS[type(theirs)])

    def _token(self, kind: str, node: ast.AST, own: str, correct: str) -> None:
        if own != correct:
            self.add(kind, node, f"`{own}` is wrong; it must be `{correct}`", f"Replace `{own}` by `{correct}`")

    def _call(self, own: ast.Call, correct: ast.Call) -> None:
        self.nodes(own.func, correct.func)
        name = called_name(own)
        if len(own.args) != len(correct.args):
            count = len(correct.args)
            needs = f"{count} argument{'s' * (count != 1)}"
            self.add("arguments", own, f"the call of `{name}` must have {needs}", f"Call `{name}` with {needs}")
        for first, second in zip(own.args, correct.args, strict=False):
            self.nodes(first, second)
        keywords = {keyword.arg or "**": keyword.value for keyword in own.keywords}
        for keyword in correct.keywords:
            word = keyword.arg or "**"
            if word in keywords:
                self.nodes(keywords.pop(word), keyword.value)
            else:
                self.add(
                    "arguments", own, f"the call of `{name}` lacks `{word}`", f"Give `{name}` the argument `{word}`"
                )
        for word in keywords:
            self.add("arguments", own, f"`{word}` is not needed", f"Leave out the argument `{word}`")

    def _is_mirrored(self, own: Any, correct: Any) -> bool:
        """Report an inverted condition or exchanged branches, if that is all the difference."""

        def same(first: Any, second: Any) -> bool:
            return self.form(first, {}) == self.form(second, self.names)

        def negation(node: Any) -> Any:
            return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None

        body, orelse = same(own.body, correct.body), same(own.orelse, correct.orelse)
        inner, outer = negation(own.test), negation(correct.test)
        is_inverted = (inner and same(inner, correct.test)) or (outer and same(own.test, outer))
        if body and orelse and is_inverted:
            self.add("branches", own, "the condition is the opposite of the right one", "Invert the condition")
            return True
        if same(own.test, correct.test) and same(own.body, correct.orelse) and same(own.orelse, correct.body):
            self.add("branches", own, "the two branches are exchanged", "Exchange the two branches")
            return True
        return False

    def _slice(self, own: ast.Slice, correct: ast.Slice) -> None:
        for side, label in (("lower", "start"), ("upper", "end"), ("step", "step")):
            mine, theirs = getattr(own, side), getattr(correct, side)
            if mine is not None and theirs is not None:
                self.nodes(mine, theirs)
            elif theirs is not None:
                part = expression_words(theirs)
                self.add("slice", own, f"the slice lacks its {label}, {part}", f"Give the slice {part} as its {label}")
            elif mine is not None:
                self.add("slice", own, f"the slice must have no {label}", f"Leave out the {label} of the slice")

    def _other_type(self, own: Any, correct: Any) -> None:
        if isinstance(own, ast.stmt):
            mine, theirs = statement_words(own), statement_words(correct)
            if mine == theirs:
                mine, theirs = "this statement", "another statement"
            self.add(
                "other statement", own, f"{mine} is wrong; it must be {theirs}", f"Put {theirs} in place of {mine}"
            )
            return
        if isinstance(own, ast.UnaryOp) and self.form(own.operand, {}) == self.form(correct, self.names):
            operator = OPERATORS[type(own.op)]
            self.add("sign or not", own, f"`{operator}` must go", f"Remove `{operator}`")
            return
        if isinstance(correct, ast.UnaryOp) and self.form(own, {}) == self.form(correct.operand, self.names):
            operator = OPERATORS[type(correct.op)]
            self.add("sign or not", own, f"`{operator}` is missing", f"Put `{operator}` before {expression_words(own)}")
            return
        mine, theirs = expression_words(own), expression_words(correct, self.names)
        if mine == theirs:
            theirs = "another expression"
        self.add("expression", own, f"{mine} is wrong; it must be {theirs}", f"Put {theirs} in place of {mine}")

    def form(self, node: Any, names: Mapping[str, str]) -> str:
        """Form of a node or of statements, without places and annotations, with local names replaced."""
        if isinstance(node, list):
            return "[" + ",".join(self.form(item, names) for item in node) + "]"
        if isinstance(node, ast.Name):
            return f"Name({names.get(node.id, node.id)})"
        if isinstance(node, ast.arg):
            return f"arg({names.get(node.arg, node.arg)})"
        if not isinstance(node, ast.AST):
            return repr(node)
        fields = [
            repr(names.get(value, value)) if name == "name" and isinstance(node, Function) else self.form(value, names)
            for name, value in ast.iter_fields(node)
            if name not in IGNORED
        ]
        return f"{type(node).__name__}({','.join(fields)})"


# Differences that do not hold


def _of_statements(program: str, task_solutions: Sequence[str]) -> list[Difference]:
    """Differences that would hold if a statement were superfluous, or if another task's result were to be returned."""
    compared = _Compared(program.splitlines())
    statements = [node for node in _nodes(program, ast.stmt) if not isinstance(node, Function | ast.ClassDef)]
    values = {expression_words(node.value): node.value for text in task_solutions for node in _returns(text)}
    for node in statements:
        compared.superfluous(node)
    for node in _returns(program):
        for value in values.values():
            if type(node.value) is not type(value):
                compared.nodes(node.value, value)
    return [difference for _, difference in compared.differences]


def _returns(program: str) -> list[ast.Return]:
    return [node for node in _nodes(program, ast.Return) if node.value]


def _nodes(program: str, kind: type[N]) -> list[N]:
    tree = parsed(program)
    return [node for node in ast.walk(tree) if isinstance(node, kind)] if tree else []
