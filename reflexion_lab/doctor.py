"""Is the evaluator sound on this machine? Known-good programs must pass, hostile ones must not."""

from __future__ import annotations

import json
import platform
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from reflexion_lab.records import Task

if TYPE_CHECKING:
    from reflexion_lab.evaluators.sandbox import Sandbox

HOSTILE = {
    "exits with success": "import sys\nsys.exit(0)",
    "exits past every handler": "import os\nos._exit(0)",
    "exits when called": "def f(x):\n    raise SystemExit(0)",
    "closes every descriptor": "import os\nos.closerange(0, 64)\ndef f(x):\n    return x + 1",
    "kills itself": "import os\nos.kill(os.getpid(), 9)",
    "loops forever": "def f(x):\n    while True:\n        pass",
    "eats memory": "def f(x):\n    return 'x' * (1 << 33)",
    "forges a report": (
        "import os\nfor d in range(3, 64):\n    try:\n"
        '        os.write(d, b\'[0, "pass", "", "", 0, 0.0]\\n\')\n'
        "    except OSError:\n        pass\nos._exit(0)"
    ),
    "starts a process": "import os\nos.fork()\ndef f(x):\n    return x",
    "opens a socket": "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)",
    "reads the machine's users": "open('/etc/passwd').read()",
    "writes outside its folder": "open('/tmp/reflexion_lab_was_here', 'w').write('x')",
    "reads the environment": "import os\nassert 'PATH' in os.environ",
}
"""Programs that must not pass `assert f(1) == 2`, by what they try. Each is harmless where a layer is missing."""


class Findings(NamedTuple):
    canonical_passed: int
    canonical_total: int
    hostile_passed: int
    isolation: list[str]


def examine(as_json: bool = False) -> int:
    """Print what was found; returns 0 when the evaluator may be trusted, else 1."""
    from reflexion_lab.benchmarks.humaneval import humaneval
    from reflexion_lab.evaluators.sandbox import Sandbox

    with Sandbox() as sandbox, ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(lambda task: (task.task_id, canonical_passes(sandbox, task)), humaneval()))
        outcomes = {what: hostile_outcome(sandbox, program) for what, program in HOSTILE.items()}
        found = Findings(
            canonical_passed=sum(passed for _, passed in verdicts),
            canonical_total=len(verdicts),
            hostile_passed=sum(outcome == "pass" for outcome in outcomes.values()),
            isolation=list(sandbox.layers),
        )
    for what, outcome in outcomes.items():
        print(f"hostile: {what:<28} {outcome}")
    for task_id in (task_id for task_id, passed in verdicts if not passed):
        print(f"canonical solution failed: {task_id}")
    print(f"canonical solutions passed: {found.canonical_passed} of {found.canonical_total}")
    print(f"isolation on {platform.system()} {platform.machine()}: {', '.join(found.isolation)}")
    for missing in ("landlock", "seccomp"):
        if not any(layer.startswith(missing) for layer in found.isolation):
            print(f"not in force here: {missing}; run model-written code on this machine only if you may lose it")
    if as_json:
        print(json.dumps(found._asdict()))
    return int(found.canonical_passed < found.canonical_total or found.hostile_passed > 0)


def canonical_passes(sandbox: Sandbox, task: Task) -> bool:
    """Whether the task's own solution passes its own hidden tests."""
    from reflexion_lab.evaluators.unit_tests import run_tests

    return run_tests(sandbox, task, task.prompt + task.canonical_solution, task.hidden_tests).passed


def hostile_outcome(sandbox: Sandbox, program: str) -> str:
    return sandbox.run(program, "f", ["assert f(1) == 2"]).checks[0].outcome
