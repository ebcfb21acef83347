"""How many small faults in the package do its tests notice? Puts one fault at a time into a copy of the checkout, and
runs the tests that run the faulty line, nearest first, then the slow ones of its folder. A fault that fails no test
survives: an assertion is missing.

    python bench/mutate.py                                      # 150 faults, an hour on two cores
    python bench/mutate.py --n 20 --modules 'memory/*.py' loop/stop.py

Ends with 1 where less than 92 % are killed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import itertools
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from reflexion_lab.analysis.stats.intervals import wilson

ROOT = Path(__file__).parents[1]
GOAL = 0.92
AREAS = {
    "loop": ["loop/*.py"],
    "memory": ["memory/*.py"],
    "reflectors": ["agent/reflectors/*.py"],
    "evaluators, judge": ["tasks/evaluators/*.py"],
    "runner": ["runner/*.py"],
    "run folder": ["runner/folder/*.py"],
    "statistics": ["analysis/stats/*.py"],
    "analysis": ["analysis/comparison/*.py", "analysis/summary.py"],
    "caches": ["agent/models/cache.py", "storage/call_store.py", "memory/embedders/cached.py"],
}
TESTS = ["tests", *(f"--ignore=tests/{folder}" for folder in ("docs", "notebooks", "platform"))]
TEST_SECONDS = 120
"""Of one test, none of which takes a quarter of it: a longer one hangs, and so has noticed."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}  # fmt: skip
PATH = re.compile("path|folder|root|parent", re.IGNORECASE)
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
EQUIVALENT_KEYWORDS = {
    "frozen": "guards against a fault that nobody writes", "slots": "speed", "eq": "nothing compares them",
    "kw_only": "a call by position would be another fault", "strict": "guards against a fault that nobody writes",
    "maxsize": "speed", "stacklevel": "whose line a warning names", "repr": "for debuggers", "omit_defaults": "size",
    "daemon": "threads that outlive the process", "buffering": "speed", "gc": "speed", "cache_hash": "speed",
}  # fmt: skip
EQUIVALENT = {
    (
        "analysis/comparison/row.py",
        "abs(claim.margin - (study.equivalence_margin or 0)) > TOLERANCE",
    ): "at 1e-9 exactly",
    ("tasks/evaluators/tools.py", "time.monotonic() >= deadline"): "no two instants are equal",
    ("memory/lessons/wisdom.py", "known: int = -1"): "one episode makes no wisdom",
}
"""Module and source, changes in which no user could see, with the reason."""


class Mutant(NamedTuple):
    path: str
    """Below `reflexion_lab/`."""
    line: int
    lines: range
    """Of the statement, or of its head."""
    start: int
    end: int
    """Bytes of the source that give way to `new`."""
    old: str
    new: str

    def __str__(self) -> str:
        return f"reflexion_lab/{self.path}:{self.line}  {self.old}  ->  {self.new}"


Part = ast.expr | ast.stmt


def changes(node: ast.AST, returns: str) -> Iterator[tuple[Part, str]]:
    """Parts of a node, each with what takes its place; `returns` is the annotation of the function around it."""

    def changed(**fields: object) -> str:
        other = copy.copy(node)
        for field, value in fields.items():
            setattr(other, field, value)
        return ast.unparse(other)

    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield node, changed(ops=[*ops[:place], SWAPS[type(op)](), *ops[place + 1 :]])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in SWAPS and not joins_texts(node):
            yield node, changed(op=SWAPS[type(op)]())
        case ast.AugAssign(op=ast.Add() | ast.Sub() as op):
            yield node, changed(op=SWAPS[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield node, ast.unparse(operand)
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value)) if value < 100:
            yield from ((node, repr(value + step)) for step in (1, -1))
        case ast.Constant(value=int(value)):  # a limit or a seed, where one more is no fault
            yield node, repr(2 * value)
        case ast.Constant(value=float(value)):
            yield node, repr(2 * value or 1.0)
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield node, changed(func=ast.Name(NAMES[name]))
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.Return(value=ast.expr() as value) if "None" in returns and not is_none(value):
            yield node, "return None"
        case ast.Return(value=ast.Name() | ast.Call() | ast.Attribute() as value) if returns == "bool":
            yield value, f"not {ast.unparse(value)}"
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Name | ast.Call | ast.Attribute):
            yield test, f"not {ast.unparse(test)}"
        case ast.comprehension(ifs=tests):
            yield from ((test, "True") for test in tests)


def joins_texts(node: ast.AST) -> bool:
    """`a + "b"`, `[*a] + b`, `folder / name`: with another operator a type error, which any test sees."""
    if not isinstance(node, ast.BinOp):
        return False
    sides = (node.left, node.right)
    return (
        any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in sides)
        or any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
        or (isinstance(node.op, ast.Div) and bool(PATH.search(ast.unparse(node.left))))
    )


def is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def decides_nothing(node: ast.AST) -> bool:
    """Texts of messages, `__slots__`, imports for types, and keywords of `EQUIVALENT_KEYWORDS`."""
    match node:
        case ast.JoinedStr() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__" | "__all__")]):
            return True
        case ast.keyword(arg=name):
            return name in EQUIVALENT_KEYWORDS
    return False


Place = tuple[ast.AST, ast.stmt, str]


def nodes(node: ast.AST, statement: ast.stmt | None = None, returns: str = "") -> Iterator[Place]:
    """All nodes that decide something, each with its statement and what the function around it returns."""
    if decides_nothing(node):
        return
    if isinstance(node, ast.FunctionDef):
        returns = ast.unparse(node.returns) if node.returns else ""
    if isinstance(node, ast.stmt):
        statement = node
    if statement is not None:
        yield node, statement, returns
    if isinstance(node, ast.Raise):  # its message
        return
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from nodes(child, statement, returns)


def mutants(path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    name = str(path.relative_to(ROOT / "reflexion_lab"))
    lines = source.splitlines(keepends=True)
    begins = [0, *itertools.accumulate(map(len, lines))]
    for node, statement, returns in nodes(ast.parse(source)):
        for part, new in changes(node, returns):
            assert part.end_lineno is not None and part.end_col_offset is not None
            start, end = begins[part.lineno - 1] + part.col_offset, begins[part.end_lineno - 1] + part.end_col_offset
            old, line = ast.unparse(part), lines[part.lineno - 1].decode()
            text = new if isinstance(part, ast.stmt) else f"({new})"
            if not any(name == module and old in known and known in line for module, known in EQUIVALENT):
                yield Mutant(name, part.lineno, head(statement), start, end, old, text)


def head(statement: ast.stmt) -> range:
    """Lines of a statement, without those of the statements in it."""
    inner = [child.lineno for child in ast.walk(statement) if isinstance(child, ast.stmt) and child is not statement]
    last = (statement.end_lineno or statement.lineno) + 1
    return range(statement.lineno, max(min(inner, default=last), statement.lineno + 1))


def drawn(patterns: list[str], n: int, seed: int) -> list[Mutant]:
    """At most one mutant a line, all lines alike."""
    package = ROOT / "reflexion_lab"
    paths = sorted({path for pattern in patterns for path in package.glob(pattern)})
    if not paths:
        raise SystemExit(f"--modules: got {' '.join(patterns)}, expected paths below {package}, such as memory/*.py")
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for path in paths:
        for mutant in mutants(path):
            lines.setdefault((mutant.path, mutant.line), []).append(mutant)
    draw = random.Random(seed)
    picked = draw.sample([*lines.values()], min(n, len(lines)))
    print(f"{len(picked)} of {sum(map(len, lines.values()))} mutants, on {len(lines)} lines in {len(paths)} modules")
    return [draw.choice(of_line) for of_line in picked]


def checkout(folder: Path) -> Path:
    """A copy of what git knows or would add."""
    names = subprocess.check_output(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def pytest(folder: Path, *arguments: str, bytecode: bool = False) -> tuple[int, str]:
    """Exit code and output; whatever it started ends with it."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "500"}
    environment.setdefault("REFLEXION_LAB_DATA", str(ROOT.parent / "shared" / "data"))
    environment["PYTHONDONTWRITEBYTECODE"] = "" if bytecode else "1"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--tb=no", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    for limit, gigabytes in ((resource.RLIMIT_AS, 8), (resource.RLIMIT_FSIZE, 1)):  # of an endless list or file
        resource.prlimit(process.pid, limit, (gigabytes << 30, resource.RLIM_INFINITY))
    output = process.communicate()[0]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, output


def failed(output: str) -> list[str]:
    return re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", output, re.MULTILINE)


class Runs:
    """Which tests run which line; a test that fails without a mutant is of no use."""

    def __init__(self, path: Path, useless: set[str]) -> None:
        self.data, self.useless = CoverageData(str(path)), useless
        self.data.read()
        self.measured = {name.rpartition("/reflexion_lab/")[2]: name for name in self.data.measured_files()}

    def of(self, mutant: Mutant) -> list[str]:
        """Nearest first: those of the module's own file, of its folder, all others. Of a line that runs on import: all
        that run the module.
        """
        contexts = self.data.contexts_by_lineno(self.measured.get(mutant.path, ""))
        for lines in (mutant.lines, contexts):
            names = {name.rsplit("|", 1)[0] for line in lines for name in contexts.get(line, ())} - self.useless - {""}
            if names or not any("" in contexts.get(line, ()) for line in mutant.lines):
                break
        module = Path(mutant.path)
        folder, own = f"tests/{module.parent}/", f"test_{module.stem.removesuffix('__init__') or module.parent.name}.py"

        def distance(name: str) -> tuple[bool, bool, str]:
            file = name.partition("::")[0]
            return not file.endswith(own), not file.startswith(folder), file

        return sorted(names, key=distance)


def verdict(mutant: Mutant, tests: list[str], folder: Path) -> tuple[str, str]:
    """`killed`, `time-out` or `survived`, and the test that failed. What no quick test kills meets the slow ones of its
    folder.
    """
    path = folder / "reflexion_lab" / mutant.path
    source = path.read_bytes()
    path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
    limits = (f"faulthandler_timeout={TEST_SECONDS}", "faulthandler_exit_on_timeout=true")
    options = ["-x", "-n0", *(word for limit in limits for word in ("-o", limit))]
    names = folder.parent / f"{folder.name}.tests"
    names.write_text("\n".join(tests))
    code, output = pytest(folder, *options, f"@{names}") if tests else (0, "")
    if code == 4 and "not found:" in output:  # the mutant renamed a test's parameters
        code, output = pytest(folder, *options, *dict.fromkeys(name.partition("::")[0] for name in tests))
    if code == 0:
        near = next(each for each in (folder / "tests" / mutant.path).parents if each.is_dir())
        code, output = pytest(folder, *options, "-m", "slow and not browser and not soak", str(near))
    shutil.copy2(ROOT / "reflexion_lab" / mutant.path, path)  # its time, too, so that its bytecode is read again
    if code in (0, 5):  # 5: no slow test
        return "survived", f"{len(tests)} tests run it"
    if re.search(r"^Timeout \(", output, re.MULTILINE):
        return "time-out", ""
    return "killed", "".join(failed(output)[:1])


class Outcome(NamedTuple):
    mutant: Mutant
    verdict: str
    """`killed`, `time-out` or `survived`."""
    reason: str
    """The test that failed, or how many did not."""


def tried(picked: list[Mutant], temporary: Path, jobs: int, kept: Path | None) -> list[Outcome]:
    """Each mutant's outcome. A kill by a test that fails without a mutant, too, is none."""
    first = checkout(temporary / "0")
    data = first / ".coverage"
    useless: set[str] = set()
    if kept and kept.exists():
        shutil.copy2(kept, data)
    else:
        print("which tests run which line: the whole suite, once, ...", flush=True)
        collect = ["-n", str(jobs), "--dist", "loadfile", "--cov", "--cov-context=test", "--cov-report="]
        useless = {*failed(pytest(first, *collect, *TESTS, bytecode=True)[1])}
        print("".join(f"not used, since it fails without a mutant: {name}\n" for name in sorted(useless)), end="")
        if kept:
            shutil.copy2(data, kept)
    runs = Runs(data, useless)
    folders: queue.Queue[Path] = queue.Queue()
    for number in range(jobs):
        folders.put(shutil.copytree(first, temporary / str(number)) if number else first)

    def tested(mutant: Mutant) -> Outcome:
        folder = folders.get()
        try:
            return Outcome(mutant, *verdict(mutant, runs.of(mutant), folder))
        finally:
            folders.put(folder)

    outcomes, begin = [], time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(tested, mutant) for mutant in picked]):
            outcomes.append(done.result())
            seconds = (time.monotonic() - begin) / len(outcomes)
            left = seconds * (len(picked) - len(outcomes)) / 60
            print(
                f"{len(outcomes)}/{len(picked)}  {seconds:.1f} s each, {left:.0f} min left  {outcomes[-1].verdict:8}  "
                f"{outcomes[-1].mutant}  {outcomes[-1].reason}", flush=True,
            )  # fmt: skip
    killers = sorted({outcome.reason for outcome in outcomes if outcome.verdict == "killed"} - {""})
    broken = {*failed(pytest(first, "-n0", "-m", "", *killers)[1])} if killers else set()
    return [outcome._replace(verdict="survived") if outcome.reason in broken else outcome for outcome in outcomes]


def report(outcomes: list[Outcome]) -> int:
    """Prints kills by area, and each survivor; 1 where too few are killed."""
    print(f"\n{'area':20}{'killed':>8}{'time-out':>10}{'of':>5}")
    for area, patterns in AREAS.items():
        here = Counter(
            outcome.verdict
            for outcome in outcomes
            if any(Path(outcome.mutant.path).match(pattern) for pattern in patterns)
        )
        if here:
            print(f"{area:20}{here['killed']:>8}{here['time-out']:>10}{here.total():>5}")
    survivors = [outcome for outcome in outcomes if outcome.verdict == "survived"]
    n, killed = len(outcomes), len(outcomes) - len(survivors)
    low, high = wilson(killed, n)
    print(f"\nkilled: {killed} of {n}, {killed / n:.1%} [{low:.1%}, {high:.1%}]; goal {GOAL:.0%}")
    for mutant, _, reason in sorted(survivors):
        print(f"survived: {mutant}  ({reason})")
    return int(killed / n < GOAL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=150, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="+", metavar="PATH", help="below reflexion_lab/; default: the core")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--coverage", type=Path, metavar="FILE", help="kept from an earlier call, or written to")
    options = parser.parse_args()
    everything = [pattern for patterns in AREAS.values() for pattern in patterns]
    picked = drawn(options.modules or everything, options.n, options.seed)
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        return report(tried(picked, Path(temporary), options.jobs, options.coverage))


if __name__ == "__main__":
    sys.exit(main())
