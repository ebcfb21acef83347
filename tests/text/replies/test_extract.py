"""What is taken from a reply: by example, by property, from hostile replies, and from recorded ones."""

import ast
import gzip
import json
import re
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.evaluators.unit_tests import run_tests
from reflexion_lab.text.replies.extract import REPLY_CHARS, extract, preamble, without_thoughts
from reflexion_lab.text.replies.syntax import PARSES
from tests.builders import TABLES

TASK = Task(
    task_id="t",
    prompt='import math\n\ndef helper(x):\n    return x\n\ndef f(x: int) -> int:\n    """Doc."""\n',
    entry_point="f",
)
PROSE = Task(task_id="p", prompt="Write a function f that adds one.", entry_point="f")
FUNCTION = "def f(x):\n    return helper(x) + math.floor(1.5)"
ZERO = "```python\ndef f(x):\n    return 0\n```"


def value(program):
    """f(3), as the program has it."""
    space = {"__name__": "candidate"}
    exec(program, space)
    return space["f"](3)


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        (f"1. Like this:\n   ```python\n{textwrap.indent(FUNCTION, '   ')}\n   ```", "fence+function"),
        (f"Here is the code: ```python\n{FUNCTION}\n```", "fence+function"),
        ("```python def f(x): return 4```", "fence+function"),
        (f"````markdown\n```python\n{FUNCTION}\n```\n````", "fence+function"),
        (f"```python\n\n```python\n{FUNCTION}\n```", "fence+function"),
        (f"```python\nHere is the function:\n{FUNCTION}\n\nIt adds one.\n```", "fence+function"),
        (f"```python\r\n{FUNCTION.replace(chr(10), chr(13) + chr(10))}\r\n```", "fence+function"),
        ("```python\nf = lambda x: x + 1\n```", "fence+function"),
        (f"{FUNCTION}\n\nThis function adds one; it's simple (see above).", "function"),
        (f"Assistant: {FUNCTION}<|im_end|>", "function"),
        (f"<answer>\n{FUNCTION}\n</answer>", "function"),
        (f"As asked:\n\n{textwrap.indent(FUNCTION, '    ')}\n\nDone.", "function"),
        ("def f(x):\n    return again(x)\n\ndef again(x):\n    return x + 1", "function"),
        ("from __future__ import annotations\n\ndef f(x: int) -> int:\n    return helper(x) + 1", "function"),
        ("return helper(x) + 1\n", "body"),
        ("y = helper(x)\n    return y + 1\n", "body"),
        ("for y in range(9):\n        if y > x:\n            return y\n", "body"),
        ("    y = helper(x)\nreturn y + 1\n", "body"),
        ("\ty = helper(x)\n\treturn y + 1\n", "body"),
        ("  y = helper(x)\n  return y + 1\n", "body"),
        ("Complete it with\n\n    return helper(x) + 1\n\nwhich adds one.", "body"),
        ("    def f(y):\n        return y + 1\n    return f(x)\n", "body"),
        ("'    return helper(x) + 1\n", "body"),
        ("`y = helper(x)\n    return y + 1`\n", "body"),
        ("```python\nreturn helper(x) + 1\n```", "fence+body"),
        (f"<think>def f(x): return 0</think>\n```python\n{FUNCTION}\n```", "fence+function"),
        (f"<thinking>\n{ZERO}\n</thinking>\n```python\n{FUNCTION}\n```", "fence+function"),
        (f"{ZERO}\n</think>\n```python\n{FUNCTION}\n```", "fence+function"),
        (f"```python\n{FUNCTION}\n```\n<think>Or is it\n{ZERO}", "fence+function"),
        *((f"I try\n{ZERO}\n{last}\n    return x + 1\n", "body")  # a closing tag within a line ends the first thought
          for last in ("no, wrong.</think>It's this:", "Wrong.</think>The answer is:", "No.[/THINK]So:")),
    ],
)  # fmt: skip
def test_a_program_is_found(reply, rule):
    program, applied = extract(reply, TASK)
    assert (value(program), applied) == (4, rule)


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("", "none"), ("I cannot do that.", "none"), ("I cannot:\n  - it is hard\n  - it's late", "none"),
        ("```python\n```", "none"), ("<think>forever", "thinking"),
        (f"<think>\n```python\n{FUNCTION}\n```", "thinking"), ("x" * (REPLY_CHARS + 1), "too_long"),
        ("```python\n" + FUNCTION + "\n" + "# more\n" * 10_000 + "```", "too_long"),
    ],
)  # fmt: skip
def test_no_program_has_a_reason(reply, rule):
    assert extract(reply, TASK) == ("", rule)


def test_the_last_complete_definition_wins():
    first, last = (f"```python\ndef f(x):\n    return {n}\n```\n" for n in (1, 2))
    skeleton = '```python\ndef f(x):\n    """Doc."""\n    ...\n```\n'
    broken = "```python\ndef f(x):\n    return 3 +* 4\n```\n"
    assert value(extract(f"{first}Wait, that is wrong:\n{last}", TASK).program) == 2
    assert value(extract(f"{first}{last}In short:\n{skeleton}", TASK).program) == 2
    assert value(extract(f"{first}{last}{broken}", TASK).program) == 2
    assert value(extract("def f(x):\n    return 1\n\nNo:\n\ndef f(x):\n    return 2\n", TASK).program) == 2


@pytest.mark.parametrize(
    "other",
    [
        "print(f(3))", "assert f(3) == 9\nx = f(2)", ">>> f(3)\n9", "pip install numpy",
        "def test_f():\n    assert f(3) == 9",
    ],
)  # fmt: skip
def test_blocks_that_only_use_the_function_are_not_taken_for_it(other):
    for blocks in ((FUNCTION, other), (other, FUNCTION)):
        reply = "\n".join(f"```python\n{block}\n```" for block in blocks)
        program, rule = extract(reply, TASK)
        assert (value(program), rule) == (4, "fence+function")
        assert "9" not in program


def test_blocks_that_define_what_the_function_needs_are_joined():
    reply = (
        "First\n```python\nfrom math import floor\nprint(floor(2.5))\n```\nthen\n```python\ndef half(n):\n"
        "    return floor(n / 2)\n```\nand unrelated\n```python\ndef third(n):\n    return n / 3\n```\nat last\n"
        "```python\ndef f(x):\n    return half(x) + 3\n```"
    )
    program, rule = extract(reply, PROSE)
    assert (value(program), rule) == (4, "fence+function+joined")
    assert "third" not in program
    assert "print" not in program


@pytest.mark.parametrize(
    "usage",
    [
        "assert f(3) == 9", "print(f(3) / 0)", "if __name__ == '__main__':\n    print(f(3))",
        "for x in (1, 2):\n    assert f(x) == 9", "def check(g):\n    assert g(3) == 9\n\ncheck(f)",
        "def test():\n    assert f(3) == 9\n\ntest()", 'a = int(input("a: "))\nprint(f(a))',
        'result = f("x")\nprint(result)',
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        f(1)\nunittest.main()",
        "import sys\nsys.exit(f(3))", "print(f(3))\nexit()", "print(math.floor(f(3)) / 0)",
        "a = int(input())\ndef main():\n    print(f(a))\nmain()", "\n".join(f"x{n} = f({n})" for n in range(4000)),
    ],
    ids=lambda usage: usage[:12],
)  # fmt: skip
def test_code_that_only_uses_the_function_is_left_out(usage):
    for reply, rule in (
        (f"```python\n{FUNCTION}\n\n{usage}\n```", "fence+function"),
        (f"    return 4\n\n{usage}", "body"),
    ):
        program, applied = extract(reply, TASK)
        assert (value(program), applied) == (4, f"{rule}+usage")


def test_code_that_the_function_rests_on_is_kept():
    code = (
        "import sys\nfrom functools import lru_cache\n\nLIMIT = 4\n\n@lru_cache\ndef f(x):\n    return table[x]\n\n\n"
        "sys.setrecursionlimit(5000)\ntable = {}\nfor n in range(9):\n    table[n] = min(n + 1, LIMIT)\n"
    )
    program, rule = extract(f"```python\n{code}```", PROSE)
    assert (program, rule) == (code, "fence+function")
    assert value(program) == 4


TABLE = "import sys\nimport random\n\nPRICE = {}\n\n\ndef fill(table):\n    table['z'] = 9\n\n\nclass Shop: pass\n\n\n"
SET_UP = [
    "PRICE['a'] = 3", "PRICE['a'] = 1\nPRICE['a'] += 2", "PRICE.update(a=3)", "PRICE['a'] = 3\ndel PRICE['a']",
    "sys.setrecursionlimit(9000)", "random.seed(0)", "Shop.depth = 3", "setattr(Shop, 'depth', 3)", "fill(PRICE)",
    "for key in 'ab':\n    PRICE[key] = 3", "while len(PRICE) < 3:\n    PRICE[len(PRICE)] = 0",
    "with open('/dev/null') as file:\n    PRICE['a'] = 3", "if not PRICE:\n    PRICE['a'] = 3",
    "try:\n    PRICE['a'] = 3\nexcept ValueError:\n    pass",
]  # fmt: skip


@pytest.mark.parametrize("statement", [
    *SET_UP, "assert not PRICE", "print(f(1))", "'A text.'", "sys.stdin = open('input.txt')",
    "random.setstate(None)", "if sys.argv:\n    raise SystemExit",
])  # fmt: skip
def test_the_set_up_of_the_prompt_stays_in_the_program_once(statement):
    prompt = f'{TABLE}{statement}\n\n\ndef f(xs):\n    """Sum."""\n'
    task = Task(task_id="t", prompt=prompt, entry_point="f")
    function = "def f(xs):\n    return PRICE, vars(Shop).get('depth')\n"
    for own in ("", "import sys\nimport random\n\n", *[f"{TABLE}{statement}\n\n"] * (statement in SET_UP)):
        program = extract(f"```python\n{own}{function}```", task).program
        assert program.count(statement) == (statement in SET_UP)
        assert statement not in SET_UP or value(program) == value(prompt + function[11:])


def test_the_preamble_supplies_only_what_the_reply_lacks():
    reply = "```python\ndef helper(x):\n    return 10\n\ndef f(x):\n    return math.floor(helper(x))\n```"
    program = extract(reply, TASK).program
    assert value(program) == 10
    assert program.count("def helper") == 1
    assert program.startswith("import math\n")
    assert preamble(PROSE) == ""
    assert extract("```python\ndef f(x):\n    return 4\n```", PROSE).program == "def f(x):\n    return 4\n"


@pytest.mark.parametrize(
    ("reply", "rule", "expected"),
    [
        ("```python\ndef f(x):\n    y = x + 1\n    return y\n    return (y +", "fence+function+truncated", 4),
        ("def f(x):\n    if x:\n        return 4\n    for y in range(x):\n        if y", "function+truncated", 4),
        ("```python\ndef f(x):\n    return 4\n\ndef g(y):\n    '''It is", "fence+function+truncated", 4),
        ("    if x:\n        return 4\n    print('", "body+truncated", 4),
        ("```python\ndef f(x):\n    return 4\n\nprint(f(", "fence+function+truncated", 4),
    ],
)
def test_a_reply_that_broke_off_is_cut_back_to_what_parses(reply, rule, expected):
    program, applied = extract(reply, TASK)
    assert (value(program), applied) == (expected, rule)


@pytest.mark.parametrize(("reply", "rule"), TABLES["faulty code"])
def test_faulty_code_is_handed_over_and_named(reply, rule):
    program, applied = extract(reply, TASK)
    assert applied == rule
    assert program.strip()
    assert "This adds" not in program


LINES = ("Here's the function:", "", "It adds one (I think).", "- first, it reads `x`", "1. Then it's done")
PROSE_LINES = st.lists(st.sampled_from([*LINES, "# Answer", "Note: O(n)", "Done"]), max_size=4).map("\n".join)
STATEMENTS = st.sampled_from(
    [
        "y = x + 1", "if x > 2:\n    x -= 1\nelse:\n    x += 1", "for i in range(x):\n    x += i", "s = '''a\n\n  b'''",
        "g = lambda n: n", "# a comment", "try:\n    x = int(x)\nexcept ValueError:\n    x = 0",
        "def inner(n):\n    return n", "x = [\n    x,\n][0]", 's = r"\\d"',
    ]
)  # fmt: skip
BODIES = st.lists(STATEMENTS, max_size=4).map(lambda some: "\n".join([*some, "return x"]))
BEFORE = st.sampled_from(
    ["", "import os\n", "from math import (\n    floor,\n)\n\n", "LIMIT = 3\n\n\ndef first(a):\n    return a\n\n\n"]
)
AFTER = st.sampled_from(["", "\n\n\ndef last(a):\n    return a", "\n\nTABLE = {1: 2}"])


def indented(body):
    return textwrap.indent(body, "    ", lambda line: True)


FUNCTIONS = st.builds(lambda before, body, after: f"{before}def f(x):\n{indented(body)}{after}", BEFORE, BODIES, AFTER)
WRAPPERS = st.sampled_from(
    [
        "{before}\n```python\n{code}\n```\n{after}", "{before}\n```\n{code}\n```",
        "{before}\n~~~~Python\n{code}\n~~~~\n{after}",
        "<think>\n{before}\n```python\ndef f(x):\n    return 1\n```\n</think>\n```py\n{code}\n```",
        "{before}\n```python\n{code}", "{before}\n\n{code}\n\n{after}", "[PYTHON]\n{code}\n[/PYTHON]\n{after}",
        "{code}", "assistant\n{code}\n<|eot_id|>",
    ]
)  # fmt: skip
SCRAPS = st.sampled_from(["```", "~~~", "<think>", "</think>", "def f(x):", "\n", "    ", "return x", "(", "'''", "\0"])


@given(st.text() | st.lists(SCRAPS).map("".join))
def test_extraction_never_raises_and_its_rule_is_true(reply):
    program, rule = extract(reply, TASK)
    assert (rule in ("none", "thinking", "too_long")) == (program == "")
    if "unparsed" not in rule:
        ast.parse(program)


@given(FUNCTIONS, WRAPPERS, PROSE_LINES, PROSE_LINES)
def test_a_function_comes_out_of_any_wrapper_as_it_was(code, wrapper, before, after):
    program, rule = extract(wrapper.format(code=code, before=before, after=after), PROSE)
    assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(code))
    assert rule in ("function", "fence+function")


@given(FUNCTIONS)
def test_extraction_is_idempotent(code):
    program = extract(f"```python\n{code}\n```", TASK).program
    assert extract(f"```python\n{program}```", TASK) == (program, "fence+function")


@given(BODIES, st.sampled_from(["{}", "```python\n{}\n```", "<think>hm</think>\n{}"]))
def test_a_body_completes_the_prompt(body, wrapper):
    program, rule = extract(wrapper.format(indented(body)), TASK)
    assert ast.dump(ast.parse(program)) == ast.dump(ast.parse(TASK.prompt + indented(body)))
    assert rule in ("body", "fence+body")


@given(FUNCTIONS, st.data())
def test_a_truncated_fence_parses_or_is_called_unparsed(code, data):
    end = data.draw(st.integers(0, len(code)))
    program, rule = extract(f"```python\n{code[:end]}", PROSE)
    if "unparsed" not in rule and rule != "none":
        ast.parse(program)


def test_a_models_code_warns_nobody():
    reply = "```python\ndef f(x):\n    return '\\d', 1if x else 2\n```"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(4) as pool:
            rules = list(pool.map(lambda _: extract(reply, TASK).rule, range(40)))
    assert set(rules) == {"fence+function"}
    assert not caught


MOST_READ = 999_000
"""Characters: close to the most of a reply that is read."""


@pytest.mark.parametrize("longest", [100_000, pytest.param(MOST_READ, marks=pytest.mark.soak)])
@pytest.mark.slow
def test_hostile_replies_are_read_within_bounds(longest):
    command = [sys.executable, "-c", Path(__file__).with_name("hostile_replies.py").read_text(), str(longest)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    count, most_parses = map(int, process.stdout.split())
    assert count > 100
    assert most_parses <= PARSES


def test_recorded_replies_get_their_recorded_verdicts(recorded_runs, sandbox):
    tasks = {task.task_id: task for task in humaneval()}
    attempts = []
    for path in sorted((recorded_runs / "transcripts").glob("agentevals_simple*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            attempts += [
                (tasks[row["problem"]], attempt) for row in map(json.loads, lines) for attempt in row["attempts"]
            ]
    assert len(attempts) == 8203
    assert all(extract(attempt["raw"], task).program for task, attempt in attempts[::16])
    for task, attempt in attempts[::80]:
        program, rule = extract(attempt["raw"], task)
        verdict = run_tests(sandbox, task, program, task.hidden_tests)
        # Recorded were the reply's first block alone, run with its own asserts, and `math` imported by a longer prompt.
        if verdict.passed > attempt["own_pass"]:
            assert "joined" in rule or "usage" in rule or attempt["raw"].count(f"def {task.entry_point}") > 1
        elif verdict.passed < attempt["own_pass"]:
            assert "'math' is not defined" in verdict.checks[0].message


@pytest.mark.parametrize(
    "body",
    [
        'return re.sub(r"<think>.*?</think>", "", x)', 'return x.split("<|endoftext|>")',
        'return x.find("<reasoning>")', 'return """\n<think>\n<|im_start|>user\n"""',
    ],
)  # fmt: skip
def test_tags_and_tokens_in_string_literals_are_code(body):
    code = f"import re\n\ndef f(x):\n    {body}\n"
    for reply in (f"Here:\n```python\n{code}```\nDone.<|im_end|>\n", f"<think>hm</think>\n```python\n{code}```"):
        assert extract(reply, PROSE) == (code, "fence+function")


@pytest.mark.parametrize("quoted", ['x.split("</think>")', "x.split(r'</think>')", "x  # as `</think>` has it"])
def test_a_quoted_closing_tag_ends_no_thought(quoted):
    assert extract(f"def f(x):\n    return {quoted}\n", PROSE) == (f"def f(x):\n    return {quoted}\n", "function")


@pytest.mark.parametrize(
    "rest",
    [
        "<|im_end|>\n<|im_start|>user\nThanks!<|im_end|>",
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nThanks, and now explain it.\n" + "And more.\n" * 300,
    ],
)
def test_tokens_in_a_fence_that_nothing_closed_are_no_code(rest):
    quoting = FUNCTION.replace("return", 'x = x or "<|im_end|>"\n    return')
    program, rule = extract(f"```python\n{quoting}{rest}", TASK)
    assert (value(program), rule) == (4, "fence+function")
    assert '"<|im_end|>"' in program


@pytest.mark.parametrize("line", ["x {} and", "`{}` and", " " * 300_000 + "x{} and"])
def test_many_tags_in_a_line_are_read_in_linear_time(line):
    many = line.format("<think>" * 80_000)
    assert without_thoughts(many) == (many, False)


def test_a_tag_in_a_sentence_and_a_second_closing_tag_are_noise():
    assert extract(f"I considered the <reasoning> step.\n```python\n{FUNCTION}\n```", TASK).rule == "fence+function"
    assert value(extract(f"<think>a</think>\n{FUNCTION}\n</think>\n", TASK).program) == 4
    assert value(extract(f"{FUNCTION}<|im_end|>", TASK).program) == 4
    assert value(extract(f"```python\n{FUNCTION}<|im_end|>\n", TASK).program) == 4


@pytest.mark.parametrize("code", TABLES["statements that are kept"])
def test_a_statement_that_the_entry_point_needs_is_kept(code):
    assert value(extract(f"```python\n{code}\n```", PROSE).program) == 4


@pytest.mark.parametrize(
    "filling", ["for n in range(9):\n    TABLE[n] = f(-1) + 3", "TABLE[3] = f(-1) + 3", "TABLE.update({3: f(-1) + 3})"]
)
@pytest.mark.parametrize("reads", ["return TABLE[x] if x in TABLE else 1", "return look_up(x)"])
def test_a_statement_that_fills_a_table_of_the_prompt_is_kept(filling, reads):
    helper = "def look_up(x):\n    return TABLE.get(x, 1)\n"
    task = Task(task_id="p", prompt=f"import math\nTABLE = {{}}\n\n{helper}\n\ndef f(x):\n", entry_point="f")
    code = f"def f(x):\n    {reads}\n\n{filling}\nprint(math.floor(f(3)) / 0)"
    program, rule = extract(f"```python\n{code}\n```", task)
    assert (value(program), rule) == (4, "fence+function+usage")


@pytest.mark.parametrize(
    ("usage", "names"),
    [
        ("r = f(3)\ndef main():\n    print(r)\nmain()", {"r"}),
        ("def main():\n    print(r)\nr = f(3)\nif __name__ == 'candidate':\n    main()", {"r"}),
        ("r = f(3)\ndef g(x=r):\n    return x", {"r"}), ("r = f(3)\nclass C:\n    n = r", {"r"}),
        ("r = f(3)\nmatch r:\n    case 4:\n        print('ok')", {"r"}),
        ("vals = [f(3)]\ndef main():\n    for v in vals:\n        print(v)\nmain()", {"vals"}),
        ("a = f(2)\nr = a + 1\ndef main():\n    print(r)\nmain()", {"a", "r"}),
        ("a = f(2)\na += 1\nmatch a:\n    case 4:\n        pass", {"a"}), ("r = f(3)\ndel r", set()),
    ],
)  # fmt: skip
def test_what_a_statement_that_stays_reads_is_kept(usage, names):
    program, _ = extract(f"```python\n{FUNCTION}\n\n{usage}\n```", TASK)
    assert value(program) == 4
    assert set(re.findall(r"^(\w+) =", program, re.MULTILINE)) >= names


@pytest.mark.parametrize("decorator", ["@lru_cache", "@lru_cache(maxsize=None)", "@lru_cache(\n    maxsize=None,\n)"])
def test_a_decorated_entry_point_keeps_the_prompts_imports(decorator):
    prompt = f"from functools import lru_cache\nfrom typing import List\n\n{decorator}\ndef f(x: int) -> int:\n"
    task = Task(task_id="d", prompt=prompt, entry_point="f")
    reply = "```python\n@lru_cache\ndef f(x: int, y: List[int] = None) -> int:\n    return x + 1\n```"
    assert value(extract(reply, task).program) == 4
    assert preamble(task) == "from functools import lru_cache\nfrom typing import List\n\n"


def test_a_class_is_an_entry_point():
    prompt = "from typing import List\n\nclass Stack:\n    def __init__(self):\n"
    task = Task(task_id="c", prompt=prompt, entry_point="Stack")
    blocks = [f"```python\nclass Stack:\n    def top(self) -> List[int]:\n        return {n}\n```\n" for n in (1, 2)]
    program, rule = extract("Wait, wrong:\n".join(blocks), task)
    space = {"__name__": "candidate"}
    exec(program, space)
    assert (space["Stack"]().top(), rule) == (2, "fence+function")


SCRIPT = Task(task_id="s", prompt="class sizes\ndef is a word here", entry_point="", kind="program")
READS = "n = int(input())\nprint(n)"


@pytest.mark.parametrize(
    ("reply", "program", "rule"),
    [
        (f"```python\n{READS}\n```", READS, "fence+program"),
        (f"```python\nprint(input())\n```\nBetter:\n```python\n{READS}\n```\n", READS, "fence+program"),
        (f"```python\n{READS}\n```\nInput:\n```\n3\n```\nRun:\n```bash\npython a.py\n```", READS, "fence+program"),
        (f"```python\n{READS}\n```\nA greeting:\n```python\nprint('hello')\n```", READS, "fence+program"),
        (f"<think>\n```python\nprint(1)\n```\n</think>\n{READS}", READS, "program"),
        (f"This does it:\n{READS}\nIt reads a number.", READS, "program"),
        ("```python\nprint(42)\n```", "print(42)", "fence+program"),
        ("```python\nn = input()\nassert n\nprint(n)\nexit(n)\n```", "n = input()\nassert n\nprint(n)\nexit(n)",
         "fence+program"),
        ("```python\nfrom math import *\nprint(gcd(*map(int, input().split())))\n```",
         "from math import *\nprint(gcd(*map(int, input().split())))", "fence+program"),
        ("```python\ndef f(x):\n    return x\n```\n```python\nprint(f(input()))\n```",
         "def f(x):\n    return x\n\n\nprint(f(input()))", "fence+part+joined"),
        ("```python\nn = int(input())\nfor i in range(n):\n    print(i", "n = int(input())", "fence+program+truncated"),
        ("```python\nn = int(input(\nprint(n)\n```", "n = int(input(\nprint(n)", "fence+unparsed"),
        ("```python\ndef f(x):\n    return x\n```", "def f(x):\n    return x", "fence+part"),
    ],
)  # fmt: skip
def test_a_whole_program_is_taken_as_it_stands(reply, program, rule):
    assert extract(reply, SCRIPT) == (program + "\n", rule)


@pytest.mark.parametrize("reply", ["", "I cannot.", "```\n3\n1 2 3\n```", "```cpp\nint main() {}\n```"])
def test_no_program_is_made_of_data_or_words(reply):
    assert extract(reply, SCRIPT) == ("", "none")


@given(st.text(max_size=300))
def test_any_reply_gives_a_program_or_none(reply):
    assert isinstance(extract(f"```python\n{reply}", SCRIPT).program, str)
