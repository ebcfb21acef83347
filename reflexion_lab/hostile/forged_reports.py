"""Programs that try to write, or to bend, the report on themselves."""

from __future__ import annotations

from reflexion_lab.hostile.attack import CHECKS, WRONG, Attack

REACHED = """
import gc, sys
def reached(limit=40_000):
    frame, things, seen = sys._getframe(), [], set()
    while frame:
        things += [frame, *frame.f_locals.values(), frame.f_globals]
        frame = frame.f_back
    for thing in things:
        if len(seen) > limit:
            return things
        if id(thing) not in seen:
            seen.add(id(thing))
            things += gc.get_referents(thing)
    return things
"""
"""Everything in the process that the frames of the caller lead to, nearest first."""
NONCE = """
import re
def nonces():
    texts = [t.decode('latin-1') if isinstance(t, bytes) else t for t in reached() if isinstance(t, (str, bytes))]
    return list(dict.fromkeys(t for t in texts if re.fullmatch('[0-9a-f]{32}', t)))
"""
PASS = b'[0, "pass", "", "", 0, 0.0]\n'
SHOWN = ("fail", "error", "early_exit", "memory")
"""What a program may get that broke its own report, as long as it is no pass."""
UNREADABLE = ("Unreadable",)
"""The error of a value that the lab refuses to read."""
COLLIDING = (
    "b'[0, [[{0}, {0}]], 0.0]'.replace(b'{0}', b'{\"s\": [%s]}' % b','.join("
    'b\'{"i": "%x"}\' % (n * (2**61 - 1)) for n in range(10_000)))'
)
"""Multiples of the modulus of integer hashes: each of them hashes to 0."""
TWICE = ("assert f(1) == 2", "assert f(2) == 4")


def forged(
    name: str, tries: str, program: str, expected: tuple[str, ...] = SHOWN, checks: tuple[str, ...] = CHECKS
) -> Attack:
    return Attack(name=name, tries=tries, program=program, expected=expected, checks=checks)


def with_nonce(
    name: str, tries: str, line: str, raises: tuple[str, ...] = (), checks: tuple[str, ...] = CHECKS
) -> Attack:
    """Writes `nonce line` to the report, where `line` is an expression for bytes."""
    program = (
        f"{REACHED}{NONCE}import os\ndef f(x):\n    for nonce in nonces():\n"
        f"        os.write(3, b'%s %s\\n' % (nonce.encode(), {line}))\n        os._exit(0)\n    return 3\n"
    )
    expected = ("error",) if raises else SHOWN
    return Attack(name=name, tries=tries, program=program, expected=expected, raises=raises, checks=checks)


ATTACKS = (
    forged(
        "writes to every descriptor",
        "a line that says pass",
        f"import os\nfor d in range(1, 64):\n    try:\n        os.write(d, {PASS!r})\n    except OSError:\n"
        f"        pass\nos._exit(0)",
        ("early_exit",),
    ),
    with_nonce("finds the nonce in its frames", "to write a pass with it", repr(PASS[:-1])),
    forged(
        "finds the nonce through gc",
        "to write a pass with what closures hold",
        "import gc, os, re, types\ngc.unfreeze()\nfor g in gc.get_objects():\n"
        "    cells = isinstance(g, types.FunctionType) and g.__closure__ or ()\n"
        "    for text in [c.cell_contents for c in cells if isinstance(c.cell_contents, str)]:\n"
        "        if re.fullmatch('[0-9a-f]{32}', text):\n"
        f"            os.write(3, text.encode() + b' ' + {PASS!r})\n            os._exit(0)" + WRONG,
    ),
    forged(
        "reads the nonce out of the report",
        "to overwrite what was said before",
        "import os\ndef f(x):\n    try:\n        nonce = os.pread(3, 1000, 0).split(b' ')[0]\n    except OSError:\n"
        "        return 0\n    if len(nonce) == 32:\n"
        f"        os.write(3, nonce + b' ' + {PASS!r})\n        os._exit(0)\n    return 0",
        checks=TWICE,
    ),
    forged(
        "writes after the report",
        "a thread that adds a pass to every failure",
        f"{REACHED}{NONCE}import os, threading, time\ndef late():\n    for _ in range(200):\n"
        f"        for nonce in found:\n"
        f"            os.write(3, nonce.encode() + b' ' + {PASS!r})\n        time.sleep(0.001)\n"
        "found = nonces()\nthreading.Thread(target=late).start()\ndef f(x):\n    time.sleep(0.05)\n    return 0",
        checks=TWICE,
    ),
    forged(
        "forges from a signal handler",
        "a timer whose handler is given the frame",
        f"{REACHED}{NONCE}import os, signal, time\ndef forge(number, frame):\n    for nonce in nonces():\n"
        f"        os.write(3, nonce.encode() + b' ' + {PASS!r})\n        os._exit(0)\n"
        "signal.signal(signal.SIGALRM, forge)\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\n"
        "def f(x):\n    time.sleep(0.1)\n    return 3",
    ),
    forged(
        "floods the report",
        "4 MB of rubbish",
        "import os\nfor _ in range(64):\n    os.write(3, b'\\x00[{\"\\n' * 16384)" + WRONG,
    ),
    forged(
        "empties the report",
        "to take back a failure",
        "import os\ndef f(x):\n    os.ftruncate(3, 0)\n    os.lseek(3, 0, 0)\n    return 0",
        checks=TWICE,
    ),
    forged(
        "swaps report and output",
        "to report where it can print",
        "import os\nd = os.dup(3)\nos.dup2(1, 3)\nos.dup2(d, 1)" + WRONG,
    ),
    forged(
        "fills every pipe",
        "to block whoever waits for it",
        "import os\nfor d in range(1, 8):\n    try:\n        os.set_blocking(d, False)\n"
        "        os.write(d, b'.' * 200_000)\n"
        "    except OSError:\n        pass" + WRONG,
    ),
    with_nonce("nests its report too deep", "to break the lab's reader", "b'[' * 100_000"),
    with_nonce(
        "sends a value nested too deep",
        "to break the lab's comparison",
        "b'[0, [%s%s], 0.0]' % (b'[' * 900, b']' * 900)",
    ),
    with_nonce(
        "sends an endless number",
        "a fraction that takes long to read",
        'b\'[0, [{"q": ["1e1000000"]}], 0.0]\'',
        UNREADABLE,
    ),
    with_nonce(
        "sends sets whose hashes collide",
        "20,000 elements that take long to compare",
        COLLIDING,
        UNREADABLE,
    ),
    with_nonce("sends what is no value", "tags that there are not", 'b\'[0, [{"exec": ["2"]}], 0.0]\'', UNREADABLE),
    with_nonce("reports an outcome of its own", "an outcome that there is not", 'b\'[0, "passed", "", "", 0, 0.0]\''),
    with_nonce("poses as a broken harness", "to end the run", 'b\'[0, "harness_error", "", "", 0, 0.0]\''),
    with_nonce("reports endless seconds", "numbers that no record may hold", 'b\'[0, "error", "", "", 0, 1e999]\''),
    with_nonce("reports endless seconds of a value", "numbers that no record may hold", "b'[0, [3], -1e999]'"),
    with_nonce(
        "reports a message of 2 MB",
        "to flood records and prompts",
        'b\'[0, "error", "%s", "", 0, 0.0]\' % (b\'x\' * 2_000_000)',
    ),
    with_nonce(
        "reports checks that there are not",
        "indexes out of range",
        'b\'[-1, "pass", "", "", 0, 0.0]\'',
    ),
)
