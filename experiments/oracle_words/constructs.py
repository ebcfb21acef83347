"""Constructs of programs in words: the vocabulary in which `differences` describes two programs.

Of a program, a description contains a single token at most: an operator, a name, a keyword, or a constant of at most
`LONGEST` characters.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reflexion_lab.text.replies.syntax import tree_of

LONGEST = 12
"""Maximum length of a constant that is named; a longer one is described as another value."""
OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.In: "in",
    ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.And: "and", ast.Or: "or", ast.Not: "not",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip
STATEMENTS: Mapping[type[ast.AST], str] = {
    ast.For: "a `for` loop", ast.While: "a `while` loop", ast.If: "an `if`", ast.Return: "a `return`",
    ast.Assign: "an assignment", ast.AugAssign: "an update of a variable", ast.AnnAssign: "an assignment",
    ast.Expr: "a call", ast.Raise: "a `raise`", ast.Try: "a `try`", ast.With: "a `with`", ast.Break: "a `break`",
    ast.Continue: "a `continue`", ast.FunctionDef: "a helper function", ast.Assert: "an `assert`",
    ast.Import: "an `import`", ast.ImportFrom: "an `import`", ast.Delete: "a `del`", ast.Pass: "a `pass`",
}  # fmt: skip
EXPRESSIONS: Mapping[type[ast.AST], str] = {
    ast.ListComp: "a list comprehension", ast.SetComp: "a set comprehension", ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator", ast.List: "a list", ast.Tuple: "a tuple", ast.Set: "a set", ast.Dict: "a dict",
    ast.IfExp: "a conditional expression", ast.Lambda: "a function", ast.JoinedStr: "a formatted string",
}  # fmt: skip
NAMELESS = "the function"
"""A called function that is itself an expression."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Difference(NamedTuple):
    """One difference, as a diagnosis and as advice, in the first person."""

    kind: str
    cause: str
    change: str


class Construct(NamedTuple):
    """A construct that a program has or lacks."""

    kind: str
    """One of the keys of `LACKS`."""
    name: str

    @property
    def missing(self) -> Difference:
        return self._in_words("lacks", LACKS)

    @property
    def superfluous(self) -> Difference:
        return self._in_words("has", HAS)

    def _in_words(self, mode: str, words: Mapping[str, tuple[str, str]]) -> Difference:
        cause, change = words[self.kind]
        return Difference(f"{mode} {self.kind}", cause.format(self.name), change.format(self.name))


LACKS: Mapping[str, tuple[str, str]] = {
    "raise": ("My program raises no error, and a correct one does.", "Raise an error where the task wants one."),
    "recursion": ("My program does not call itself, and a correct one does.", "Let the function call itself."),
    "loop": ("My program lacks {}, which a correct one has.", "Use {}."),
    "nesting": ("My program has no loop in a loop, and a correct one has.", "Put a loop into a loop."),
    "call": ("My program does not call `{}`, and a correct one does.", "Call `{}`."),
    "result": ("My program does not return {}, and a correct one does.", "Return {}."),
    "operator": ("My program does not use `{}`, and a correct one does.", "Use the operator `{}`."),
    "comparison": ("My program has no comparison with `{}`, and a correct one has.", "Compare with `{}`."),
    "branch": ("My program lacks {}, which a correct one has.", "Use {} to tell cases apart."),
    "comprehension": ("My program lacks {}, which a correct one has.", "Build the result by {}."),
    "constant": ("My program lacks the constant {}, which a correct one has.", "Use the constant {}."),
}
"""Cause and change by kind of a construct that the program lacks."""
HAS: Mapping[str, tuple[str, str]] = {
    "raise": ("My program raises an error, and a correct one does not.", "Remove the `raise`."),
    "recursion": ("My program calls itself, and a correct one does not.", "Do not let the function call itself."),
    "loop": ("My program has {}, and a correct one has none.", "Leave out {}."),
    "nesting": ("My program has a loop in a loop, and a correct one has not.", "Leave out the inner loop."),
    "call": ("My program calls `{}`, and a correct one does not.", "Do not call `{}`."),
    "result": ("My program returns {}, and a correct one does not.", "Do not return {}."),
    "operator": ("My program uses `{}`, and a correct one does not.", "Do not use the operator `{}`."),
    "comparison": ("My program compares with `{}`, and a correct one does not.", "Do not compare with `{}`."),
    "branch": ("My program has {}, and a correct one has none.", "Leave out {}."),
    "comprehension": ("My program has {}, and a correct one has none.", "Leave out {}."),
    "constant": ("My program has the constant {}, and a correct one has not.", "Do not use the constant {}."),
}
"""Cause and change by kind of a construct that the program should not have."""
IMPORTANCE = (
    "has raise", *(f"lacks {kind}" for kind in LACKS), *(f"has {kind}" for kind in HAS if kind != "raise"),
)  # fmt: skip
"""Kinds of differences by constructs, the most important first."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BY_TYPE: Mapping[type[ast.AST], Construct] = {
    ast.Raise: Construct("raise", ""),
    ast.For: Construct("loop", STATEMENTS[ast.For]),
    ast.While: Construct("loop", STATEMENTS[ast.While]),
    ast.If: Construct("branch", "a condition"),
    ast.IfExp: Construct("branch", "a condition"),
    **{kind: Construct("comprehension", EXPRESSIONS[kind]) for kind in _COMPREHENSIONS},
}


@functools.lru_cache(maxsize=256)
def parsed(source: str) -> ast.Module | None:
    """The tree; None for an empty or invalid program."""
    try:
        tree = tree_of(source)
        ast.unparse(tree)  # deeper trees than this can be neither printed nor compared
    except (SyntaxError, ValueError, MemoryError, RecursionError, SystemError):
        return None
    return tree if tree.body else None


@functools.lru_cache(maxsize=2048)
def constructs(program: str) -> tuple[Construct, ...]:
    """The distinct constructs of a program, in order of occurrence; () if it is invalid."""
    if (tree := parsed(program)) is None:
        return ()
    defined = {node.name for node in ast.walk(tree) if isinstance(node, Function)}
    return tuple(dict.fromkeys(each for node in ast.walk(tree) for each in _constructs_of(node, defined)))


def by_constructs(program: str, correct: str) -> list[Difference]:
    """Differences by constructs that one program has and the other lacks, the most important first."""
    mine, theirs = constructs(program), constructs(correct)
    missing = [construct.missing for construct in theirs if construct not in mine]
    superfluous = [construct.superfluous for construct in mine if construct not in theirs]
    return sorted([*missing, *superfluous], key=lambda difference: IMPORTANCE.index(difference.kind))


def _constructs_of(node: ast.AST, defined: set[str]) -> Iterator[Construct]:
    if type(node) in _BY_TYPE:
        yield _BY_TYPE[type(node)]
    match node:
        case ast.For() | ast.While():
            inner = [each for child in ast.iter_child_nodes(node) for each in ast.walk(child)]
            if any(isinstance(each, ast.For | ast.While) for each in inner):
                yield Construct("nesting", "")
        case ast.Call():
            name = called_name(node)
            if name not in defined and name != NAMELESS:
                yield Construct("call", name)
        case ast.Compare():
            yield from (Construct("comparison", OPERATORS[type(operator)]) for operator in node.ops)
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            yield Construct("operator", OPERATORS[type(node.op)])
        case ast.Constant() if not isinstance(node.value, str | bytes) or len(repr(node.value)) <= LONGEST:
            yield Construct("constant", value_words(node))
        case ast.Return() if node.value is not None and not isinstance(node.value, ast.Name | ast.Call):
            yield Construct("result", expression_words(node.value))
        case ast.FunctionDef():
            calls = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
            if any(isinstance(func, ast.Name) and func.id == node.name for func in calls):
                yield Construct("recursion", "")


def statement_words(node: ast.stmt) -> str:
    return STATEMENTS.get(type(node), "a statement")


def expression_words(node: Any, names: Mapping[str, str] | None = None) -> str:
    """An expression by its outermost construct, in words that contain one token of it at most.

    Parameters
    ----------
    names : Mapping[str, str] | None, optional
        Names to use in place of others.
    """
    match node:
        case ast.Constant():
            words = value_words(node)
        case ast.Name():
            words = f"`{(names or {}).get(node.id, node.id)}`"
        case ast.Call():
            words = f"a call of `{called_name(node)}`"
        case ast.BinOp() | ast.UnaryOp() | ast.BoolOp():
            words = f"an expression with `{OPERATORS[type(node.op)]}`"
        case ast.Compare():
            words = f"a comparison with `{OPERATORS[type(node.ops[0])]}`"
        case ast.Subscript():
            words = "a slice" if isinstance(node.slice, ast.Slice) else "an element by its index"
        case ast.Attribute():
            words = f"the attribute `{node.attr}`"
        case ast.stmt():
            words = statement_words(node)
        case _:
            words = EXPRESSIONS.get(type(node), "an expression")
    return words


def called_name(node: ast.Call) -> str:
    """Name of the called function or method, else `NAMELESS`."""
    func = node.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else NAMELESS


def value_words(node: ast.Constant) -> str:
    text = repr(node.value)
    return f"`{text}`" if len(text) <= LONGEST and "`" not in text else "a longer constant"
