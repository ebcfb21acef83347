"""Visible tests from the examples of a prompt: doctests, `f(1) => 2` in prose, and pairs of input and output.

Text is parsed, not executed. Only calls with literal arguments and a literal result count: a missing example costs a
hint, but a wrong one would report a bug that does not exist.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from itertools import islice

from reflexion_lab.text.replies.syntax import UNPARSABLE, parse, tree_of

REACH, TRIES = 4000, 50
"""Maximum characters, and maximum candidates, in the search for the end of a call or value."""
WORDS = {"true": "True", "false": "False"}

DOCSTRING = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)
CLOSING = re.compile(r"\)")
RELATION = re.compile(
    r"""[ \t]*+ (?:\#[ \t]*+)?
    (?: =?=> | -+> | [➞→⇒] | ={1,2}(?!=)
      | returns\b | should\s+return\b | ,?[ ]*the[ ](?:output|result)[ ]should[ ]be\b )""",
    re.VERBOSE,
)
WORKING = re.compile(r"\s*[-(]*\d[-+*/\d. ()]*=(?!=)")
"""The calculation before the result in `19 - 5 - 6 = 8`."""
FOR = re.compile(r"\bFor\s+(.{1,500}?),?\s+the\s.{0,100}?\b(?:output|result) should be\b")
INPUT = re.compile(r"\bInput\s*:(.{1,1000}?)\bOutput\s*:", re.DOTALL)


def visible_tests(prompt: str, entry_point: str) -> tuple[str, ...]:
    """Examples of `entry_point` in `prompt` as `assert f(...) == value`, without repetitions, in order.

    Reads the first docstring after `def entry_point`; without a docstring, all text after the definition; without a
    definition, the whole prompt. Accepts any text; runs nothing and raises nothing.
    """
    from doctest import DocTestParser, Example  # 60 ms to import

    definition = re.search(rf"\bdef\s+{re.escape(entry_point)}\s*\(", prompt)
    text = prompt[definition.end() :] if definition else prompt
    docstring = DOCSTRING.search(text)
    text = docstring[2] if docstring else text
    tests: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the prompts' own code, such as "\d" and `1if`
        try:
            pieces = DocTestParser().parse(text)
        except ValueError:  # inconsistent indentation
            pieces = [text]
        parameters = _parameters(prompt, entry_point)
        for piece, after in zip(pieces, [*pieces[1:], ""], strict=True):
            if isinstance(piece, Example):
                is_silent = isinstance(after, Example) or not _literal(after.strip().partition("\n")[0])
                tests += _doctest(piece.source, piece.want, entry_point, is_silent)
            else:
                tests += _prose(piece, entry_point, parameters)
        return tuple(filter(_compiles, dict.fromkeys(tests)))


def _doctest(source: str, want: str, name: str, is_silent: bool) -> Iterator[str]:
    """Tests of one doctest. `is_silent`: no literal follows after a blank line, which could be the result."""
    if not want:
        yield from _prose(source, name, [])  # `>>> f(1) == 2` without output
        want = "" if "#" in source or not is_silent else "None"  # doctest's rule, but a comment may have the result
    call, value = _parse(source), _literal(want)
    if call and value and _is_example(call, name):
        yield f"assert {ast.unparse(call)} == {value}"


def _prose(text: str, name: str, parameters: list[str]) -> Iterator[str]:
    for _, call, start in sorted([*_calls(text, name), *_worked(text, name, parameters)]):
        if value := _value(text, start, name):
            yield f"assert {call} == {value}"


def _calls(text: str, name: str) -> Iterator[tuple[int, str, int]]:
    """Calls `f(...)` with a value: start of the call, its source, and start of the value."""
    for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*\(", text):
        start = match.start()
        for closing in islice(CLOSING.finditer(text, start, start + REACH), TRIES):
            if call := _parse(text[start : closing.end()]):
                relation = RELATION.match(text, closing.end())
                if relation and _is_example(call, name):
                    yield start, ast.unparse(call), relation.end()
                break


def _worked(text: str, name: str, parameters: list[str]) -> Iterator[tuple[int, str, int]]:
    """As `_calls`, for `For x = 1, y = 2 the output should be` and `Input: ... Output: ...`."""
    for match in (*FOR.finditer(text), *INPUT.finditer(text)):
        call = _parse(f"{name}({match[1]})")
        if not (isinstance(call, ast.Call) and _is_example(call, name)):
            continue
        n_positional = len(call.args)
        if [keyword.arg for keyword in call.keywords] == parameters[n_positional : n_positional + len(call.keywords)]:
            call.args += [keyword.value for keyword in call.keywords]  # a solution may rename its parameters
            call.keywords = []
            yield match.start(), ast.unparse(call), match.end()


def _value(text: str, start: int, name: str) -> str | None:
    """The shortest literal at `start` that ends with a line, a sentence or an example."""
    if working := WORKING.match(text, start):
        start = working.end()
    rest = text[start : start + REACH]
    tail = re.compile(rf"[ \t]*\.?[ \t]*(?:\n|\Z|\#|\([a-z]|(?:[,;]|,?\s+and)\s+{re.escape(name)}\s*\()")
    ends = (match.start() for match in islice(tail.finditer(rest), TRIES))
    return next((value for end in ends if (value := _literal(rest[:end]))), None)


def _is_example(node: ast.expr, name: str) -> bool:
    """Whether `node` calls `name` with literal arguments, at least one; also in `round(f(...), 2)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if node.func.id == "round" != name and values and _is_example(values[0], name):
        values = values[1:]
    elif node.func.id != name or not values:
        return False
    return all(map(_is_literal, values))


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except UNPARSABLE:
        return False
    return not any(isinstance(part, ast.Constant) and part.value is Ellipsis for part in ast.walk(node))


def _literal(text: str) -> str | None:
    node = _parse(WORDS.get(text.strip(), text))
    return ast.unparse(node) if node and _is_literal(node) else None


def _parse(text: str) -> ast.expr | None:
    try:
        node: ast.expr = parse(text.strip(), "eval").body
        ast.unparse(node)  # raises on an integer too long to be written
    except UNPARSABLE:
        return None
    return node


def _parameters(prompt: str, name: str) -> list[str]:
    try:
        tree = tree_of(prompt)
    except UNPARSABLE:
        return []
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return [argument.arg for function in functions for argument in function.args.args]


def _compiles(test: str) -> bool:
    """False for `f(x=1, x=2)`, which parses but does not compile."""
    try:
        compile(test, "<visible test>", "exec")
    except UNPARSABLE:
        return False
    return True
