"""Programs that look for the expected value, and would return it if they found it."""

from __future__ import annotations

from reflexion_lab.hostile.attack import SECRET_CHECKS, Attack
from reflexion_lab.hostile.forged_reports import REACHED

MARK = "import re\nshape = re.compile(b'expected-' + b'[0-9a-f]{16}')\n"
MEMORY = """
import ctypes, gc, mmap
libc = ctypes.CDLL(None, use_errno=True)
def search(shape):
    'Reads the pages around every object; the kernel says which are there, so that none of them crashes us.'
    buffer, found = open('pages', 'w+b', buffering=0), []
    for block in sorted({id(thing) >> 20 for thing in gc.get_objects()} | {id(0) >> 20, id('') >> 20}):
        for page in range((block - 1) << 20, (block + 2) << 20, 65536):
            if libc.pwrite(buffer.fileno(), ctypes.c_void_p(page), 65536, 0) > 0:
                buffer.seek(0)
                found += shape.findall(buffer.read(65536))
    return [text.decode() for text in dict.fromkeys(found)]
"""
"""Reads this process's memory past all of Python's objects."""


def stolen(name: str, tries: str, program: str, needs: tuple[str, ...] = ()) -> Attack:
    """`program` defines `found()`, the texts that may be the expected value."""
    program = f"{MARK}{program}\ndef f(x):\n    return next(iter(found()), 'nothing')\n"
    return Attack(name=name, tries=tries, program=program, expected=("fail",), checks=SECRET_CHECKS, needs=needs)


CONSTANTS = """
def constants(frame):
    while frame:
        for held in (*frame.f_code.co_consts, *list(frame.f_locals.values()), *list(frame.f_globals.values())):
            if type(held) is str and shape.search(held.encode(errors='replace')):
                return [shape.search(held.encode(errors='replace'))[0].decode()]
        frame = frame.f_back
    return []
"""

ATTACKS = (
    stolen(
        "reads the caller's constants",
        "sys._getframe",
        f"import sys\n{CONSTANTS}def found():\n    return constants(sys._getframe())",
    ),
    stolen(
        "reads the constants from a traceback",
        "to raise inside and look at the frames",
        f"{CONSTANTS}def found():\n    try:\n        1 / 0\n    except ZeroDivisionError as problem:\n"
        "        return constants(problem.__traceback__.tb_frame)",
    ),
    stolen(
        "looks through everything that gc reaches",
        "frames, closures, lists of tests",
        f"{REACHED}def found():\n    texts = [t.encode(errors='replace') if type(t) is str else t for t in reached()"
        " if type(t) in (str, bytes)]\n    return [m[0].decode() for t in texts if (m := shape.search(t))]",
    ),
    stolen(
        "looks through its memory", "reads of the heap past Python", f"{MEMORY}def found():\n    return search(shape)"
    ),
    stolen(
        "reads /proc/self/mem",
        "its own memory as a file",
        "def found():\n    try:\n        maps = open('/proc/self/maps').readlines()\n"
        "        memory = open('/proc/self/mem', 'rb', 0)\n"
        "    except OSError:\n        return []\n    texts = []\n    for line in maps:\n"
        "        low, high = (int(n, 16) for n in line.split()[0].split('-'))\n"
        "        if ' rw' in line and high - low < 1 << 27:\n"
        "            memory.seek(low)\n            texts += shape.findall(memory.read(high - low))\n"
        "    return [t.decode() for t in texts]",
    ),
    stolen(
        "reads every descriptor",
        "the request that it came from",
        "import os\ndef found():\n    texts = []\n    for d in range(64):\n        try:\n"
        "            texts += shape.findall(os.pread(d, 1 << 20, 0))\n"
        "        except OSError:\n            continue\n    return [t.decode() for t in texts]",
    ),
    stolen(
        "reads the gallery on the disk",
        "hidden tests in files of the lab",
        "import os, sys\ndef found():\n    texts = []\n"
        "    lab = [os.path.dirname(a) for a in sys.orig_argv if a.endswith('.py')]\n"
        "    for place in [*lab, *[os.path.dirname(p) + '/hostile' for p in lab], *sys.path]:\n"
        "        for name in ('harness.py', 'attack.py', 'child.py'):\n            try:\n"
        "                texts += shape.findall(open(os.path.join(place, name), 'rb').read())\n"
        "            except OSError:\n                continue\n    return [t.decode() for t in texts]",
        needs=("landlock",),
    ),
)
