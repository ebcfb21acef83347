"""Records: what they derive from what they hold."""

import subprocess
import sys

import msgspec

from reflexion_lab.records import Task, Usage


def canonical(solution, prompt="import math\n\ndef f(x):\n"):
    return Task(task_id="t", prompt=prompt, entry_point="f", canonical_solution=solution).canonical_program


def test_a_body_completes_the_prompt_and_a_program_that_defines_the_entry_point_stands_alone():
    assert canonical("    return x\n") == "import math\n\ndef f(x):\n    return x\n"
    assert canonical("    def f(y):\n        return y\n    return f(x)\n").startswith("import math")
    assert canonical("    return g(x)\n\ndef f_2(x):\n    return x\n").startswith("import math")  # a longer name
    for program in ("def f(x):\n    return x", "import re\nasync def f(x): ...", "f = abs", "class f: 1"):
        assert canonical(program) == program
    assert canonical("") == ""


def test_usage_without_cached_tokens_is_written_as_before():
    line = b'{"calls":1,"prompt_tokens":0,"completion_tokens":0,"seconds":0.0,"cost":0.0,"retries":0,"refused":0}'
    assert msgspec.json.encode(Usage(calls=1)) == line
    assert msgspec.json.decode(line, type=Usage) == Usage(calls=1, cached_tokens=0, reasoning_tokens=0)
    both = Usage(cached_tokens=2, reasoning_tokens=3) + Usage(cached_tokens=1)
    assert msgspec.json.decode(msgspec.json.encode(both), type=Usage) == Usage(cached_tokens=3, reasoning_tokens=3)


def test_types_that_threads_decode_are_prepared_on_import():
    """msgspec prepares a type by Python code at its first decoder; a second thread that came meanwhile would crash."""
    code = """
import sys, msgspec
from reflexion_lab import records
from reflexion_lab.memory.reflection_layout import ReflectionFile
from reflexion_lab.memory import reflection_files
from reflexion_lab.agent.models import cache, requests
from reflexion_lab.studies.sweeps import finished
own = [kind for kind in records.Record.__subclasses__() if kind.__module__.startswith(records.__name__)]
kinds = [*own, ReflectionFile, cache._Request, requests._Completion, finished.CellState]
called = []
sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_filename) if event == "call" else None)
for kind in kinds:
    try:
        msgspec.json.decode(b"{}", type=kind)
    except msgspec.ValidationError:
        pass
sys.setprofile(None)
print(len(kinds), sorted({name.rsplit("/", 1)[-1] for name in called if "msgspec" in name}))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    count, prepared_late = run.strip().split(" ", 1)
    assert int(count) > 30
    assert prepared_late == "[]"
