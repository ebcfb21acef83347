"""The honest gallery: every check gets the verdict of plain CPython, in one namespace with program and setup."""

import json
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

GALLERY = tomllib.loads(Path(__file__).with_name("honest.toml").read_text())
CASES, DIFFERENCES = GALLERY["case"], GALLERY["difference"]
PLAIN = """
import json, os, random, sys, types
results = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
def passes(source, names):
    try:
        exec(compile(source, "<source>", "exec"), names)
    except BaseException:
        return False
    return True
case = json.load(sys.stdin)
random.seed(0)
module = sys.modules["candidate"] = types.ModuleType("candidate")
names = vars(module)
runs = passes(case["program"], names)
names["candidate"] = names.get(case.get("entry_point", "f"))
runs = runs and passes(case.get("setup", ""), names)
json.dump([runs and passes(check, names) for check in case["checks"]], results)
"""


def in_python(case):
    command = [sys.executable, "-I", "-c", PLAIN]
    run = subprocess.run(command, input=json.dumps(case), capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def in_sandbox(sandbox, case):
    entry_point = case.get("entry_point", "f")
    return sandbox.run(case["program"], entry_point, case["checks"], case.get("setup", "")).checks


@pytest.fixture(scope="module")
def verdicts():
    """Of each case, what Python says of its checks, and what the sandbox says; both have time enough."""
    cases = CASES + DIFFERENCES
    with ThreadPoolExecutor(2) as pool, Sandbox(Limits(wall_seconds=600, cpu_seconds=100), servers=2) as sandbox:
        python = pool.map(in_python, cases)
        ours = pool.map(lambda case: in_sandbox(sandbox, case), cases)
        return {case["program"]: both for case, both in zip(cases, zip(python, ours, strict=True), strict=True)}


def differing(case, verdicts):
    """Checks that pass in one of both."""
    python, ours = verdicts[case["program"]]
    return {
        check: f"{verdict.outcome} {verdict.error_type} {verdict.message}"
        for check, passes, verdict in zip(case["checks"], python, ours, strict=True)
        if passes is not (verdict.outcome == "pass")
    }


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_an_honest_check_gets_the_verdict_of_plain_python(verdicts, case):
    assert differing(case, verdicts) == {}


@pytest.mark.parametrize("case", DIFFERENCES, ids=[case["rule"] for case in DIFFERENCES])
def test_a_known_difference_is_one(verdicts, case):
    python, _ = verdicts[case["program"]]
    assert all(python)
    assert list(differing(case, verdicts)) == case["checks"]


def test_the_gallery_has_programs_enough():
    assert len(CASES) >= 60
    assert len({case["program"] for case in CASES + DIFFERENCES}) == len(CASES + DIFFERENCES)
