"""Programs that end before they were shown to be right."""

from __future__ import annotations

from reflexion_lab.hostile.attack import RIGHT, WRONG, Attack

ATTACKS = (
    Attack(
        name="exits with success",
        tries="sys.exit(0) as it is defined",
        program="import sys\nsys.exit(0)",
        expected=("early_exit",),
    ),
    Attack(
        name="raises SystemExit when called",
        tries="SystemExit from the function",
        program="def f(x):\n    raise SystemExit(0)",
        expected=("early_exit",),
    ),
    Attack(
        name="exits past every handler",
        tries="os._exit(0) as it is defined",
        program="import os\nos._exit(0)",
        expected=("early_exit",),
    ),
    Attack(
        name="exits past every handler when called",
        tries="os._exit(0) from the function",
        program="import os\ndef f(x):\n    os._exit(0)",
        expected=("early_exit",),
    ),
    Attack(
        name="kills itself",
        tries="SIGKILL to its own process",
        program="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)" + RIGHT,
        expected=("error", "early_exit"),
        raises=("PermissionError",),
    ),
    Attack(
        name="exits in a thread",
        tries="os._exit(0) from a thread while the program waits",
        program="import os, threading, time\nthreading.Thread(target=os._exit, args=(0,)).start()\ntime.sleep(0.5)"
        + WRONG,
        expected=("early_exit",),
    ),
    Attack(
        name="raises SystemExit in a thread",
        tries="sys.exit(0) in a thread, which ends that thread alone",
        program="import sys, threading\nt = threading.Thread(target=sys.exit, args=(0,))\nt.start()\nt.join()" + WRONG,
        expected=("fail",),
    ),
    Attack(
        name="exits in an atexit handler",
        tries="os._exit(0) when the interpreter ends",
        program="import atexit, os\natexit.register(os._exit, 0)" + WRONG,
        expected=("fail",),
    ),
    Attack(
        name="sleeps in an atexit handler",
        tries="to hold the server with atexit",
        program="import atexit, time\natexit.register(time.sleep, 60)" + WRONG,
        expected=("fail",),
    ),
    Attack(
        name="leaves a thread behind",
        tries="to hold the server with a thread that sleeps for a minute",
        program="import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()" + WRONG,
        expected=("fail",),
    ),
    Attack(
        name="aborts",
        tries="os.abort()",
        program="import os\nos.abort()" + RIGHT,
        expected=("early_exit",),
    ),
    Attack(
        name="crashes the interpreter",
        tries="a read at address 0",
        program="import ctypes\nctypes.string_at(0)" + RIGHT,
        expected=("early_exit",),
    ),
    Attack(
        name="exits in a destructor",
        tries="os._exit(0) in __del__",
        program="import os\nclass Bomb:\n    def __del__(self):\n        os._exit(0)\ndef f(x):\n    Bomb()\n"
        "    return 2",
        expected=("early_exit",),
    ),
    Attack(
        name="exits when it is compared",
        tries="os._exit(0) in __eq__ of the value",
        program="import os\nclass Bomb:\n    def __eq__(self, other):\n        os._exit(0)\ndef f(x):\n"
        "    return Bomb()",
        expected=("fail", "error", "early_exit"),
    ),
    Attack(
        name="exits when it is printed",
        tries="os._exit(0) in __repr__ and __str__ of the value",
        program=(
            "import os\nclass Bomb:\n    def __repr__(self):\n        os._exit(0)\n"
            "    __str__ = __format__ = __repr__\ndef f(x):\n    return Bomb()"
        ),
        expected=("fail", "error", "early_exit"),
    ),
    Attack(
        name="exits while its exception is read",
        tries="os._exit(0) in __str__ of what it raises",
        program=(
            "import os\nclass Bomb(Exception):\n    def __str__(self):\n        os._exit(0)\ndef f(x):\n    raise Bomb"
        ),
        expected=("error", "early_exit"),
        raises=("Bomb",),
    ),
    Attack(
        name="raises what nobody catches",
        tries="a BaseException of its own",
        program="class Bomb(BaseException):\n    pass\ndef f(x):\n    raise Bomb",
        expected=("error",),
        raises=("Bomb",),
    ),
    Attack(
        name="poses as a failed check",
        tries="to raise AssertionError while it is defined",
        program="raise AssertionError",
        expected=("error",),
        raises=("AssertionError",),
    ),
    Attack(
        name="closes every descriptor",
        tries="to leave no way to report",
        program="import os\nos.closerange(0, 256)" + RIGHT,
        expected=("early_exit", "error"),
    ),
    Attack(
        name="interrupts the harness",
        tries="KeyboardInterrupt",
        program="def f(x):\n    raise KeyboardInterrupt",
        expected=("error",),
        raises=("KeyboardInterrupt",),
    ),
)
