"""Programs that take more than their share. Every size is bounded: where a layer is missing, this is what it costs."""

from __future__ import annotations

from reflexion_lab.hostile.attack import RIGHT, WRONG, Attack

REFUSED = ("PermissionError", "BlockingIOError")
SECCOMP = ("seccomp",)


def spent(name: str, tries: str, program: str, expected: tuple[str, ...], raises: tuple[str, ...] = ()) -> Attack:
    return Attack(name=name, tries=tries, program=program, expected=expected, raises=raises)


ENDLESS = (
    spent("loops for ever", "while True", "def f(x):\n    while True:\n        pass", ("timeout",)),
    spent(
        "computes a power without end",
        "10**10**9",
        "def f(x):\n    n = 9\n    return 10 ** 10 ** n",
        ("timeout", "memory"),
    ),
    spent(
        "matches a catastrophic pattern",
        "nested repetition",
        "import re\ndef f(x):\n    return re.match('(a+)+$', 'a' * 40 + 'b') or 2",
        ("timeout",),
    ),
    spent(
        "catches everything and goes on",
        "a loop around except BaseException",
        "def f(x):\n    while True:\n        try:\n            while True:\n                raise KeyboardInterrupt\n"
        "        except BaseException:\n            continue",
        ("timeout",),
    ),
    spent(
        "ignores every signal",
        "SIGTERM, SIGXCPU and all others, then a loop",
        "import signal\nfor number in signal.valid_signals():\n    try:\n"
        "        signal.signal(number, signal.SIG_IGN)\n"
        "    except OSError:\n        continue\ndef f(x):\n    while True:\n        pass",
        ("timeout",),
    ),
    spent("sleeps", "a minute", "import time\ntime.sleep(60)" + RIGHT, ("timeout",)),
    spent(
        "stops itself",
        "SIGSTOP",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)" + RIGHT,
        ("error", "timeout"),
        REFUSED,
    ),
)
"""The only ones that end by a time-out (and the last only where seccomp is missing)."""

MEMORY = (
    spent("eats memory by a list", "1.6 GB at once", "def f(x):\n    return [0] * 200_000_000", ("memory",)),
    spent("eats memory by bytes", "1.5 GB at once", "def f(x):\n    return len(bytearray(3 << 29))", ("memory",)),
    spent(
        "eats memory by itertools",
        "1.5 GB of tuples",
        "import itertools\ndef f(x):\n"
        "    return list(itertools.islice(itertools.product((0, 1), repeat=40), 4_000_000))",
        ("memory", "timeout"),
    ),
    spent(
        "eats memory bit by bit",
        "100 pieces of 16 MB",
        "def f(x):\n    hoard = []\n    for _ in range(100):\n        hoard.append(bytes(1 << 24))\n    return 2",
        ("memory",),
    ),
    spent(
        "catches MemoryError and goes on",
        "to hold all that it can while it reports",
        "hoard = []\ndef f(x):\n    for size in (1 << 24, 1 << 20, 1 << 14, 1 << 10):\n        try:\n"
        "            while len(hoard) < 60_000:\n"
        "                hoard.append(bytearray(size))\n        except MemoryError:\n            continue\n"
        "    return 3",
        ("fail", "memory", "error", "early_exit", "timeout"),
        ("MemoryError",),
    ),
    spent(
        "maps memory past Python",
        "mmap of 1.5 GB",
        "import mmap\ndef f(x):\n    return 2 * bool(mmap.mmap(-1, 3 << 29))",
        ("error", "memory"),
        ("OSError",),
    ),
    spent("recurses for ever", "f calls f", "def f(x):\n    return f(x)", ("error",), ("RecursionError",)),
    spent(
        "recurses past the limit",
        "a raised recursion limit, and a key function in C",
        "import sys\nsys.setrecursionlimit(1_000_000)\ndef f(x):\n    return sorted([1], key=f)",
        ("error", "early_exit", "memory"),
        ("RecursionError",),
    ),
    spent(
        "recurses in the parser",
        "100,000 open brackets",
        "def f(x):\n    return eval('(' * 100_000)",
        ("error", "memory", "early_exit"),
        ("MemoryError", "SyntaxError", "RecursionError"),
    ),
)

CROWDS = (
    Attack(
        name="forks a crowd",
        tries="40 processes",
        program=(
            "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(0.5)\n        os._exit(0)"
            + RIGHT
        ),
        expected=("error",),
        raises=REFUSED,
        needs=SECCOMP,
    ),
    Attack(
        name="leaves a daemon",
        tries="a double fork that outlives its parent",
        program=(
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(3)\n"
            "    os._exit(0)\nos.wait()" + RIGHT
        ),
        expected=("error",),
        raises=REFUSED,
        needs=SECCOMP,
    ),
    Attack(
        name="starts a program",
        tries="subprocess",
        program="import subprocess\nsubprocess.run(['/bin/true'], check=True)" + RIGHT,
        expected=("error",),
        raises=REFUSED,
        needs=SECCOMP,
    ),
    Attack(
        name="starts a shell",
        tries="os.system",
        program="import os\nif os.system('exit 0'):\n    raise PermissionError" + RIGHT,
        expected=("error",),
        raises=REFUSED,
        needs=SECCOMP,
    ),
    Attack(
        name="becomes another program",
        tries="os.execv",
        program="import os\nos.execv('/bin/true', ['true'])" + RIGHT,
        expected=("error", "early_exit"),
        raises=REFUSED,
    ),
    spent(
        "starts 200 threads",
        "threads that sleep",
        "import threading, time\nthreading.stack_size(65536)\nfor _ in range(200):\n"
        "    threading.Thread(target=time.sleep, args=(2,), daemon=True).start()" + WRONG,
        ("fail", "error", "memory"),
        ("RuntimeError",),
    ),
)

FLOODS = (
    spent(
        "prints 64 MB",
        "a loop that goes on when it is refused",
        "import os\nfor _ in range(64):\n    try:\n        os.write(1, b'x' * (1 << 20))\n"
        "        os.write(2, b'x' * (1 << 20))\n"
        "    except OSError:\n        pass" + WRONG,
        ("fail", "early_exit"),
    ),
    spent(
        "fills a file",
        "64 MB",
        "with open('big', 'wb') as big:\n    big.write(b'x' * (64 << 20))" + RIGHT,
        ("error",),
        ("OSError",),
    ),
    spent(
        "makes a file seem large",
        "a hole of 64 MB",
        "import os\nos.truncate(os.open('big', 65), 64 << 20)" + RIGHT,
        ("error",),
        ("OSError",),
    ),
    spent(
        "makes 600 files",
        "files without end",
        "for n in range(600):\n    open(str(n), 'w').close()" + WRONG,
        ("fail",),
    ),
    spent(
        "nests 600 folders",
        "a depth that no path reaches",
        "import os\nfor _ in range(600):\n    os.mkdir('d')\n    os.chdir('d')" + WRONG,
        ("fail",),
    ),
    spent(
        "opens 1,000 files",
        "every descriptor",
        "held = [open('/dev/null') for _ in range(1000)]" + RIGHT,
        ("error",),
        ("OSError",),
    ),
    spent("waits for input", "to read from a terminal", "input()" + RIGHT, ("error",), ("EOFError",)),
    spent(
        "raises its own limits",
        "setrlimit",
        "import resource\nfor limit in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE):\n"
        "    hard = resource.getrlimit(limit)[1]\n    resource.setrlimit(limit, (hard + 4096, hard + 4096))" + RIGHT,
        ("error",),
        ("PermissionError", "ValueError"),
    ),
)
ATTACKS = (*ENDLESS, *MEMORY, *CROWDS, *FLOODS)
