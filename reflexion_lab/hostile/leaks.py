"""Pairs: a program that pollutes, and one that must see a clean world, right after it in the same server.

The polluter's own verdict does not matter; the probe's does. A probe passes if what it sees is clean.
"""

from __future__ import annotations

from reflexion_lab.hostile.attack import SECRET, WRONG, Attack
from reflexion_lab.hostile.stolen_answers import MARK, MEMORY


def leak(name: str, polluter: str, clean: str, imports: str = "sys") -> Attack:
    """`clean` is an expression that is true in a clean world."""
    probe = f"import {imports}\ndef f(x):\n    return 2 if {clean} else 3\n"
    return Attack(
        name=name, tries="to reach the next program", program=polluter + WRONG, expected=("pass",), probe=probe
    )


ATTACKS = (
    leak("shadows a builtin", "import builtins\nbuiltins.sum = builtins.len = None", "sum([1, 1]) == len('ab') == 2"),
    leak(
        "keeps a cache in a module",
        "import collections, functools, re\nfor m in (collections, functools, re):\n"
        "    m.cache_of_mine = {1: 2}\nre.compile = None",
        "not any(hasattr(m, 'cache_of_mine') for m in (collections, functools, re)) and re.compile('a')",
        "collections, functools, re",
    ),
    leak(
        "plants a module",
        "import sys, types\nsys.modules['planted'] = types.ModuleType('planted')",
        "'planted' not in sys.modules",
    ),
    leak(
        "leaves its globals",
        "import __main__\nhelper = __main__.helper = 5",
        "'helper' not in globals() and not hasattr(__main__, 'helper')",
        "__main__",
    ),
    leak("changes the recursion limit", "import sys\nsys.setrecursionlimit(50)", "sys.getrecursionlimit() == 1000"),
    leak(
        "changes the locale",
        "import locale\nfor name in ('C.UTF-8', 'en_US.UTF-8', 'POSIX'):\n    try:\n"
        "        locale.setlocale(locale.LC_ALL, name)\n    except locale.Error:\n        continue\n"
        "locale._override_localeconv = {'decimal_point': ','}",
        "locale.setlocale(locale.LC_NUMERIC) == 'C' and locale.localeconv()['decimal_point'] == '.'",
        "locale",
    ),
    leak(
        "changes the random state",
        "import random\nrandom.seed(7)\nrandom.random()",
        "[random.random() for _ in range(3)] == [r() for r in [random.Random(0).random] for _ in range(3)]",
        "random",
    ),
    leak(
        "leaves files",
        "import os\nopen('left', 'w').write('x')\nos.mkdir('shut', 0)\nos.symlink('/', 'link')",
        "os.listdir('.') == []",
        "os",
    ),
    leak(
        "changes the environment",
        "import os, time\nos.environ.update(LEFT='1', TZ='Asia/Tokyo')\ntime.tzset()",
        "'LEFT' not in os.environ and 'TZ' not in os.environ and time.tzname != ('JST', 'JST')",
        "os, time",
    ),
    leak("changes the mask of new files", "import os\nos.umask(0o777)", "os.umask(0) != 0o777", "os"),
    leak("changes its folder", "import os\nos.chdir('/')", "os.getcwd() != '/'", "os"),
    leak(
        "leaves a signal handler and a timer",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.setitimer(signal.ITIMER_REAL, 5)",
        "signal.getsignal(signal.SIGINT) != signal.SIG_IGN and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)",
        "signal",
    ),
    leak(
        "changes the interpreter",
        "import gc, sys, warnings\ngc.disable()\nsys.set_int_max_str_digits(640)\nsys.setswitchinterval(1)\n"
        "sys.path[:] = ['/']",
        "sys.get_int_max_str_digits() == 4300 and sys.getswitchinterval() < 0.1 and sys.path != ['/']",
        "gc, sys",
    ),
    leak("replaces its output", "import sys\nsys.stdout = sys.stderr = None", "sys.stdout is not None"),
    Attack(
        name="reads the tests of the program before it",
        tries="an earlier program's arguments, in memory that both were forked from",
        program="def f(x):\n    return 3\n",
        checks=(f"assert f({SECRET!r}) == 2",),
        expected=("pass",),
        probe=f"{MARK}{MEMORY}\ndef f(x):\n    return 3 if search(shape) else 2\n",
    ),
)
