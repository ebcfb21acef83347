"""Programs that change what judges them: names, functions, tests, the interpreter itself."""

from __future__ import annotations

from reflexion_lab.hostile.attack import CHECKS, WRONG, Attack
from reflexion_lab.hostile.forged_reports import REACHED, SHOWN


def bent(name: str, tries: str, program: str, checks: tuple[str, ...] = CHECKS, setup: str = "") -> Attack:
    return Attack(name=name, tries=tries, program=program + WRONG, expected=SHOWN, checks=checks, setup=setup)


def replaced(names: str, by: str) -> str:
    """A program that replaces builtins by the value of an expression."""
    return f"import builtins\nfor name in {names.split()}:\n    setattr(builtins, name, {by})"


ABOVE = "import sys\nframe = sys._getframe().f_back\nwhile frame:\n    above = frame.f_globals\n"
NEXT = "\n    frame = frame.f_back"

ATTACKS = (
    bent("replaces builtins.print", "to forge a report by printing", replaced("print", "lambda *_, **__: None")),
    bent("replaces builtins.exec", "to run no check", replaced("exec eval", "lambda *_: None")),
    bent(
        "replaces builtins.compile",
        "to compile another test",
        "import builtins\nreal = builtins.compile\n"
        "builtins.compile = lambda s, n, mode, *_, **__: real('True' if mode == 'eval' else 'pass', n, mode)",
    ),
    bent(
        "replaces builtins.open",
        "to catch the report",
        replaced("open", "lambda *_, **__: __import__('io').StringIO()"),
    ),
    bent(
        "replaces AssertionError", "to catch its own failure", replaced("AssertionError", "type('E', (Exception,), {})")
    ),
    bent(
        "replaces AssertionError by a trap",
        "a class whose instance check ends the process",
        "import builtins, os\nclass Meta(type):\n    def __instancecheck__(cls, problem):\n        os._exit(0)\n"
        "builtins.AssertionError = Meta('AssertionError', (Exception,), {})\nAssertionError = builtins.AssertionError",
    ),
    bent(
        "replaces isinstance and type", "to pass for an integer", replaced("isinstance issubclass", "lambda *_: True")
    ),
    bent("replaces repr and str", "to print as something else", replaced("repr str ascii format", "lambda *_: '0'")),
    bent(
        "replaces id, len, hash and iter", "to confuse the comparison", replaced("id len hash sorted", "lambda *_: 2")
    ),
    bent(
        "replaces BaseException",
        "to let failures pass every handler",
        replaced("BaseException Exception SystemExit", "ZeroDivisionError"),
    ),
    bent(
        "shadows the names that a check uses",
        "abs and round of its own",
        "abs = round = lambda *_: 0.0",
        ("assert abs(f(1) - 2.0) < 1e-6",),
    ),
    bent(
        "replaces the builtins that a check uses",
        "abs and round for everybody",
        replaced("abs round", "lambda *_: 0.0"),
        ("assert abs(f(1) - 2.0) < 1e-6",),
    ),
    bent(
        "patches unittest",
        "assertions that never fail",
        "import unittest\nfor name in dir(unittest.TestCase):\n    if name.startswith('assert'):\n"
        "        setattr(unittest.TestCase, name, lambda *_: None)",
    ),
    bent(
        "patches json",
        "an encoder that writes pass",
        "import json, json.encoder\n"
        "json.dumps = json.encoder.encode_basestring_ascii = lambda *_, **__: '[0, \"pass\"]'\n"
        "json.encoder.c_make_encoder = json.encoder.JSONEncoder.encode = json.dumps",
    ),
    bent(
        "patches os.write",
        "to turn fail into pass on its way out",
        "import os\nreal = os.write\nos.write = lambda d, data: real(d, data.replace(b'fail', b'pass'))",
    ),
    bent(
        "redefines check and candidate",
        "to be tested by itself",
        "def check(candidate):\n    pass\ncandidate = lambda x: 2",
        ("assert candidate(1) == 2",),
        setup="def check(candidate):\n    assert candidate(1) == 2",
    ),
    bent("shadows exec in the frames above", "to run no check", ABOVE + "    above['exec'] = lambda *_: None" + NEXT),
    bent(
        "replaces the judge's functions",
        "run_check and describe that always pass",
        ABOVE + "    above['run_check'] = lambda i, s, t, tell: tell([i, 'pass', '', '', 0, 0.0])\n"
        "    above['describe'] = lambda problem: ['pass', '', '', 0]" + NEXT,
    ),
    bent(
        "replaces the report's writer",
        "an encoder that turns fail into pass",
        ABOVE + "    above['quoted'] = lambda s: '\"pass\"' if s in ('fail', 'error') else '\"\"'\n"
        "    above['clock'] = lambda: 0.0" + NEXT,
    ),
    bent(
        "rewrites the judge's code",
        "new code for functions that gc shows",
        "import gc, types\ngc.unfreeze()\ndef passing(index, source, tests, tell):\n"
        "    tell([index, 'pass', '', '', 0, 0.0])\n    return 'pass'\nfor g in gc.get_objects():\n"
        "    if isinstance(g, types.FunctionType) and g.__name__ == 'run_check':\n"
        "        g.__code__ = passing.__code__",
    ),
    bent(
        "edits the checks in memory",
        "other tests in the judge's own list",
        f"{REACHED}for thing in reached():\n"
        f"    if type(thing) is list and thing and all(type(t) is str for t in thing):\n"
        "        if 'assert ' in thing[0]:\n            thing[:] = ['pass'] * len(thing)",
    ),
    bent(
        "edits the test through inspect",
        "new locals for the frames around it",
        "import inspect\nfor found in inspect.stack():\n    for name in ('checks', 'asked', 'tests'):\n"
        "        held = found.frame.f_locals.get(name)\n        if type(held) is list:\n"
        "            held[:] = ['pass'] * len(held)\n"
        "        elif type(held) is dict and 'checks' in held:\n            held['checks'] = ['pass']",
    ),
    bent(
        "edits the test through __main__ and linecache",
        "new source under old names",
        "import __main__, linecache, sys\nlinecache.cache['<check>'] = (4, None, ['pass'], '<check>')\n"
        "for module in list(sys.modules.values()):\n    for name in ('checks', 'run_check', 'run_checks'):\n"
        "        setattr(module, name, lambda *_: ['pass'])\n__main__.__dict__.update(f=lambda x: 2, checks=['pass'])\n"
        "sys.modules['candidate'] = sys.modules['__main__'] = __main__",
    ),
    bent(
        "traces its judge",
        "sys.settrace that turns fail into pass",
        "import sys\ndef trace(frame, event, arg):\n    for held in list(frame.f_locals.values()):\n"
        "        if type(held) is list and held[:1] in (['fail'], ['error']):\n"
        "            held[:] = ['pass', '', '', 0]\n"
        "    return trace\nframe = sys._getframe().f_back\nwhile frame:\n    frame.f_trace = trace\n"
        "    frame = frame.f_back\n"
        "sys.settrace(trace)",
    ),
    bent(
        "profiles its judge",
        "sys.setprofile that edits what functions return",
        "import sys\ndef profile(frame, event, arg):\n"
        "    if event == 'return' and type(arg) is list and 'fail' in arg[:2]:\n"
        "        arg[arg.index('fail'):] = ['pass', '', '', 0]\nsys.setprofile(profile)",
    ),
    bent(
        "sets every hook",
        "excepthook, unraisablehook, displayhook, atexit",
        "import atexit, os, sys, threading\ndef forge(*_):\n"
        '    os.write(3, b\'[0, "pass", "", "", 0, 0.0]\\n\')\n    return 2\n'
        "sys.excepthook = sys.unraisablehook = sys.displayhook = threading.excepthook = forge\natexit.register(forge)",
    ),
    bent(
        "replaces the import system",
        "modules of its own for later imports",
        "import builtins, sys, types\nclass Any(types.ModuleType):\n    def __getattr__(self, name):\n"
        "        return lambda *_, **__: 2\nbuiltins.__import__ = lambda name, *_: Any(name)\nsys.meta_path[:] = []\n"
        "for name in ('operator', 'ast', '_ast', 'marshal', 'json', 'math'):\n    sys.modules[name] = Any(name)",
    ),
    Attack(
        name="rewrites the integer 2 in memory",
        tries="to make the literal equal to its answer",
        program="import ctypes\nctypes.c_uint32.from_address(id(2) + 24).value = 7\ndef f(x):\n    return 3 + 4",
        expected=(*SHOWN, "timeout"),
    ),
    Attack(
        name="rewrites the comparison of integers",
        tries="another function in the slot of int",
        program=(
            "import ctypes\n"
            "KIND = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)\n"
            "always = KIND(lambda a, b, how: True)\nctypes.c_void_p.from_address(id(int) + 200).value = "
            "ctypes.cast(always, ctypes.c_void_p).value\ndef f(x):\n    return 7"
        ),
        expected=(*SHOWN, "timeout"),
    ),
)
