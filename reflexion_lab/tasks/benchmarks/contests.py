"""Rows of LiveCodeBench, APPS and BigCodeBench.

Outputs are compared by LiveCodeBench's own rule (`lines`). Its leaderboard also puts imports before each program and a
higher recursion limit, which programs here write themselves. APPS, whose own comparison accepts much, has equal tokens,
with the tolerance of `np.allclose` where the expected number has a decimal point or an exponent.
"""

from __future__ import annotations

import base64
import json
import pickletools
import re
import sys
import zlib
from typing import Any

from reflexion_lab.errors import DataError
from reflexion_lab.tasks.benchmarks import humaneval
from reflexion_lab.tasks.benchmarks.rows import Fields, id_of
from reflexion_lab.tasks.sandbox.suites import methods
from reflexion_lab.text.replies.syntax import literal_eval

UNPACKED = 1 << 28
"""Maximum bytes of the private tests of a row."""
TOLERANCE = 1e-5
PLAIN = "PROTO|FRAME|.*UNICODE8?|MEMOIZE|(LONG_)?(BIN)?PUT|STOP"
"""Operations of a pickled text."""
COMMENTED = re.compile(r"^# class .*\n(?:#  .*\n)+", re.MULTILINE)
"""A class that LeetCode's starting code has as a comment, such as `ListNode`."""


def unpickled(data: bytes) -> str:
    """The text that a pickle holds, without unpickling. Raises ValueError: it holds anything else."""
    operations = [(code.name, value) for code, value, _ in pickletools.genops(data)]
    texts = [value for name, value in operations if name.endswith("UNICODE") or name == "BINUNICODE8"]
    others = {name for name, _ in operations if not re.fullmatch(PLAIN, name)}
    if others or len(texts) != 1:
        raise ValueError(f"a pickle of more than a text: {', '.join(sorted(others)) or len(texts)}")
    return str(texts[0])


def rename(row: Fields, visible: int) -> None:
    """Give the row of one of these formats our fields. Raises DataError."""
    if not row.keys() >= {"task_id", "prompt", "entry_point"}:
        if "public_test_cases" in row:
            row |= livecodebench(row)
        elif "input_output" in row:
            row |= apps(row, visible)
        elif "complete_prompt" in row:
            row |= bigcodebench(row)


def livecodebench(row: Fields) -> Fields:
    """Our fields: public tests are visible, private ones hidden; a problem with a function is a class `Solution`."""
    sides = _cases(row, "public_test_cases"), _cases(row, "private_test_cases")
    fields = {
        "task_id": id_of(row, str(row.get("question_content")), "question_id"),
        "prompt": row.pop("question_content", ""),
        "released": row.pop("contest_date", ""),
        "tags": [row.pop(name) for name in ("difficulty", "platform") if row.get(name)],
        "canonical_solution": row.pop("canonical_solution", ""),
    }
    start = row.pop("starter_code", "")
    name = (_json(row, "metadata", {}) or {}).get("func_name", "")
    if not any(case.get("testtype") == "functional" for side in sides for case in side):
        visible, hidden = ([{key: case.get(key) for key in ("input", "output")} for case in side] for side in sides)
        data = {"compare": "lines"}
        return fields | {"kind": "program", "visible_tests": visible, "hidden_tests": hidden, "data": data}
    try:
        calls = [[_call(*_values(case)) for case in side] for side in sides]
    except (KeyError, ValueError) as problem:
        raise DataError("field $.private_test_cases", f"a test ({problem})", "arguments in JSON, a line each") from None
    about = _about(fields["prompt"], start, name, is_method=True)
    return fields | about | {"visible_tests": calls[0], "hidden_tests": calls[1]}


def apps(row: Fields, visible: int) -> Fields:
    """Our fields: of the tests the first `visible` ones are visible, but at least one is hidden. Also TACO's."""
    start, solutions = row.pop("starter_code", ""), _json(row, "solutions", []) or [""]
    fields = {
        "task_id": id_of(row, f"{row.get('question')}{row['input_output']}", "problem_id"),  # TACO has none
        "prompt": row.pop("question", ""),
        "released": row.pop("date", ""),
        "tags": [row.pop("difficulty")] if row.get("difficulty") else [],
        "canonical_solution": solutions[0],
    }
    tests = _json(row, "input_output", {}) or {}
    inputs, outputs = tests.get("inputs", []), tests.get("outputs", [])
    if len(inputs) != len(outputs):
        raise DataError("field $.input_output", f"{len(inputs)} inputs and {len(outputs)} outputs", "as many")
    if name := tests.get("fn_name", ""):
        if wrong := next((args for args in inputs if not isinstance(args, list)), None):
            raise DataError("field $.input_output", f"the arguments {wrong!r:.60}", "a list of arguments for each call")
        wrapped = [[out, out[0]] if isinstance(out, list) and out else [out] for out in outputs]  # as APPS accepts
        calls = [_call(args, f"in {_with_tuples(out)!r}") for args, out in zip(inputs, wrapped, strict=True)]
        fields |= _about(fields["prompt"], start, name, is_method="class Solution" in solutions[0])
    else:
        pairs = zip(map(_text, inputs), map(_text, outputs), strict=True)
        calls = [json.dumps({"input": given, "output": out}) for given, out in pairs]
        fields |= {"kind": "program", "data": {"tolerance": TOLERANCE}}
    visible = max(0, min(visible, len(calls) - 1))
    return fields | {"visible_tests": calls[:visible], "hidden_tests": calls[visible:]}


def bigcodebench(row: Fields) -> Fields:
    """Our fields: examples of the prompt are visible, the methods of its class of `unittest` hidden."""
    prompt, name, test = (str(row.pop(field, "")) for field in ("complete_prompt", "entry_point", "test"))
    libraries = row.pop("libs", [])
    try:
        libraries = literal_eval(libraries) if isinstance(libraries, str) else libraries
        setup, checks = methods(test)
    except (SyntaxError, ValueError) as problem:
        raise DataError("field $.test", f"{test[:60]!r} ({problem})", "Python with tests") from None
    if not checks:
        raise DataError("field $.test", repr(test[:60]), "classes of unittest or functions `test…`, and no other tests")
    tops = {str(library).partition(".")[0]: None for library in libraries}
    return {
        "prompt": prompt,
        "entry_point": name,
        "requires": [top for top in tops if top not in sys.stdlib_module_names],
        "visible_tests": list(humaneval.examples("", prompt, name)),
        "hidden_tests": list(checks),
        "setup": setup,
    }


def _about(statement: str, start: str, name: str, is_method: bool) -> Fields:
    """Our fields of a problem with a function or method, of which `jsonl` makes a prompt; `start` may lack it."""
    head = COMMENTED.sub(lambda block: re.sub("(?m)^# ", "", block[0]), start.lstrip("\r\n"))
    if not re.search(rf"\bdef\s+{re.escape(name)}\b", start):
        head = f"class Solution:\n    def {name}(self, *values):" if is_method else f"def {name}(*values):"
    about = {"problem_description": statement, "starter_code": head, "prompt": "from typing import *\n"}
    return about | {"entry_point": name}


def _cases(row: Fields, column: str) -> list[dict[str, Any]]:
    """The tests of a column: JSON, or a pickled text of JSON, packed by zlib, in base64."""
    text = row.get(column)
    if isinstance(text, str) and not text.lstrip().startswith("["):
        expected = "JSON, or a text of it, pickled, packed and in base64"
        try:
            packed = zlib.decompressobj()
            data = packed.decompress(base64.b64decode(text, validate=True), UNPACKED)
            if packed.unconsumed_tail:
                raise ValueError(f"more than {UNPACKED >> 20} MB")
            row[column] = unpickled(data)
        except (ValueError, zlib.error) as problem:
            raise DataError(f"field $.{column}", f"{text[:20]!r}… ({problem})", expected) from None
    cases = _json(row, column, [])
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise DataError(f"field $.{column}", f"{str(cases)[:60]!r}", "a list of objects with input and output")
    return cases


def _json(row: Fields, column: str, without: Any) -> Any:
    value = row.pop(column, without)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else without
    except (ValueError, RecursionError) as problem:
        raise DataError(f"field $.{column}", f"{value[:40]!r} ({problem})", "JSON") from None


def _values(case: dict[str, Any]) -> tuple[list[Any], str]:
    given = [json.loads(line) for line in case["input"].splitlines() if line.strip()]
    wanted = json.loads(case["output"])
    literal_eval(repr([given, wanted]))  # ValueError: infinity and NaN are no literals of Python
    return given, f"in {_with_tuples([wanted])!r}" if isinstance(wanted, list) else f"== {wanted!r}"


def _with_tuples(accepted: list[Any]) -> list[Any]:
    """With each list also as a tuple, which the judges of both benchmarks take for one."""
    return [*accepted, *(tuple(value) for value in accepted if isinstance(value, list))]


def _call(arguments: list[Any], relation: str) -> str:
    return f"assert candidate({', '.join(map(repr, arguments))}) {relation}"


def case_of(test: Any) -> Any:
    """A test of one's own program: sides that are numbers or lists of lines as texts, without LiveCodeBench's type."""
    if not isinstance(test, dict):
        return test
    sides = {name: side for name, side in test.items() if (name, side) != ("testtype", "stdin")}
    return {name: _text(side) if isinstance(side, int | float | list) else side for name, side in sides.items()}


def _text(value: Any) -> str:
    """An input or output, which may be a list of lines."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
