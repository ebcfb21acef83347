"""Programs that reach for the machine: secrets, files, other processes. Each passes only if it is let through.

Reads say only whether they succeeded. Writes go to a fresh name, which is removed again after a success.
"""

from __future__ import annotations

import os

from reflexion_lab.hostile.attack import RIGHT, WRONG, Attack

PLANTED = "REFLEXION_LAB_PLANTED_API_KEY"
"""An environment variable that whoever runs the gallery sets in the lab's own process."""
PREFIX = "hostile-"
"""How the names of all files begin that the gallery tries to make outside."""
HOME = os.environ.get("HOME", "/root")
ABSENT = ("PermissionError", "FileNotFoundError")
"""Not every user has a home, and not every machine /dev/shm."""
LANDLOCK, SECCOMP = ("landlock",), ("seccomp",)
NEW = f"import os, secrets\nname = {PREFIX!r} + secrets.token_hex(16)\n"


def reach(
    name: str, tries: str, program: str, needs: tuple[str, ...], raises: tuple[str, ...] = ("PermissionError",)
) -> Attack:
    """Whatever the program raises other than a refusal shows that it is wrong itself."""
    return Attack(name=name, tries=tries, program=program + RIGHT, expected=("error",), raises=raises, needs=needs)


def written(name: str, folder: str) -> Attack:
    """A file in a folder that is an expression."""
    program = f"{NEW}path = os.path.join({folder}, name)\nopen(path, 'x').close()\nos.unlink(path)"
    return reach(name, "a new file there", program, LANDLOCK, ABSENT)


SECRETS = (
    Attack(
        name="reads the environment",
        tries="any variable, an API key above all",
        program=f"import os\ndef f(x):\n    return 2 if {PLANTED!r} in os.environ or 'PATH' in os.environ else 3",
        expected=("fail",),
    ),
    reach(
        "reads the environment that it was started with",
        "/proc/self/environ",
        "open('/proc/self/environ', 'rb').read()",
        LANDLOCK,
    ),
    reach(
        "looks for API keys in its ancestors",
        "/proc of the lab, parent by parent",
        "import os\nprocess = os.getppid()\nwhile process > 1:\n    place = f'/proc/{process}/'\n"
        "    open(place + 'environ', 'rb').read()\n"
        "    process = int(open(place + 'stat').read().rpartition(')')[2].split()[1])",
        LANDLOCK,
    ),
    reach("lists the processes", "/proc", "import os\nos.listdir('/proc')", LANDLOCK),
    reach("reads the machine's users", "/etc/passwd", "open('/etc/passwd').read()", LANDLOCK),
    reach(
        "reads the home folder",
        "the home of whoever runs the lab",
        f"import os\nos.listdir({HOME!r})",
        LANDLOCK,
        ABSENT,
    ),
    reach(
        "reads the harness",
        "the source of its own server",
        "import sys\nopen(next(a for a in sys.orig_argv if a.endswith('.py'))).read()",
        LANDLOCK,
    ),
    reach(
        "imports the lab",
        "its packages and the hidden tests in them",
        "import os, sys\nscript = next(a for a in sys.orig_argv if a.endswith('.py'))\n"
        "sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(script))))\n"
        "import reflexion_lab",
        LANDLOCK,
        ("ModuleNotFoundError", "PermissionError"),
    ),
    reach(
        "lists the installed packages",
        "site-packages, where benchmarks lie",
        "import os\nplace = os.path.dirname(os.__file__)\n"
        "places = place + '/site-packages', place + '/dist-packages', '/usr/lib/python3/dist-packages'\n"
        "os.listdir(next(filter(os.path.exists, places), '/usr'))",
        LANDLOCK,
    ),
    reach(
        "sees the folders of other candidates",
        "what stands beside its own",
        "import os\nos.listdir(os.path.dirname(os.getcwd()))",
        LANDLOCK,
    ),
    reach(
        "watches the folders of other candidates",
        "inotify on what stands beside its own",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "if libc.inotify_add_watch(libc.inotify_init1(0), os.path.dirname(os.getcwd()).encode(), 0x100) < 0:\n"
        "    raise PermissionError(ctypes.get_errno())",
        SECCOMP,
    ),
)

OUTSIDE = (
    written("writes beside its folder", "os.path.dirname(os.getcwd())"),
    written("writes to the temporary folder", "'/tmp'"),
    written("writes to the home folder", repr(HOME)),
    written("writes to shared memory", "'/dev/shm'"),
    written("plants a module in the standard library", "os.path.dirname(os.__file__)"),
    reach(
        "makes a folder outside",
        "mkdir beside its own",
        f"{NEW}path = os.path.join(os.path.dirname(os.getcwd()), name)\nos.mkdir(path)\nos.rmdir(path)",
        LANDLOCK,
    ),
    reach(
        "reads through a link of its own",
        "a symbolic link to the machine's users",
        "import os\nos.symlink('/etc/passwd', 'link')\nopen('link').read()",
        LANDLOCK,
    ),
    reach(
        "moves a file out of its folder",
        "rename to the folder beside",
        f"{NEW}open(name, 'x').close()\nos.rename(name, os.path.join('..', name))\nos.unlink(os.path.join('..', name))",
        LANDLOCK,
        ("PermissionError", "OSError"),
    ),
    reach(
        "removes its own folder",
        "rmdir, and mkdir to take it back",
        "import os\nplace = os.getcwd()\nos.rmdir(place)\nos.mkdir(place, 0o700)",
        LANDLOCK,
    ),
    reach(
        "changes modes outside",
        "chmod of a folder to the mode that it has",
        "import os, stat\nplace = os.path.dirname(os.getcwd())\nos.chmod(place, stat.S_IMODE(os.stat(place).st_mode))",
        SECCOMP,
    ),
    reach(
        "opens a terminal", "a new pseudo terminal", "import os\nos.openpty()", LANDLOCK, ("PermissionError", "OSError")
    ),
)

OTHERS = (
    reach("signals its parent", "signal 0, which only asks", "import os\nos.kill(os.getppid(), 0)", SECCOMP),
    reach(
        "signals the group of its parent",
        "signal 0, which only asks",
        "import os\nos.killpg(os.getpgid(os.getppid()), 0)",
        SECCOMP,
    ),
    reach(
        "aims a descriptor's signal at its parent",
        "F_SETOWN, without ever asking for a signal",
        "import fcntl, os\nreading, _ = os.pipe()\nfcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid())",
        SECCOMP,
    ),
    reach(
        "changes its parent's priority",
        "to the one that it has",
        "import os\nparent = os.getppid()\n"
        "os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent))",
        SECCOMP,
    ),
    reach(
        "pins its parent to processors",
        "to those that it has",
        "import os\nos.sched_setaffinity(os.getppid(), os.sched_getaffinity(os.getppid()))",
        SECCOMP,
    ),
    reach(
        "puts itself before everybody",
        "a real-time schedule",
        "import os\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\n"
        "os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))",
        SECCOMP,
    ),
    reach(
        "reads its parent's memory",
        "/proc/PARENT/mem",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb').close()",
        LANDLOCK,
    ),
    Attack(
        name="leaves its session",
        tries="a group and a session of its own, out of the reach of whoever ends it",
        program="import os\ntry:\n    os.setsid()\nexcept OSError:\n    pass\ntry:\n    os.setpgid(0, 0)\n"
        "except OSError:\n    pass" + WRONG,
        expected=("fail",),
    ),
)
ATTACKS = (*SECRETS, *OUTSIDE, *OTHERS)
