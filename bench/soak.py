"""Very many executions in a row: do processes, descriptors, memory or files leak? Last line: one JSON object.

    python bench/soak.py [--executions 100000] [--workers 2]

Programs of many kinds take turns: right, wrong, raising, leaving, printing, writing files, nesting folders, starting
threads, using up memory. What is counted at the end is compared with what was counted after the first hundredth.
"""

import argparse
import gc
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

PROGRAMS = {
    "def f(x):\n    return x + {n}\n": "pass",
    "def f(x):\n    return x + {n} + 1\n": "fail",
    "def f(x):\n    raise ValueError({n})\n": "error",
    "import os\ndef f(x):\n    os._exit({n} % 2)\n": "early_exit",
    "print('{n} ' * 5000)\ndef f(x):\n    return x + {n}\n": "pass",
    "import os\nos.makedirs('a/b/c')\nopen('a/b/{n}', 'w').write('x' * 9999)\ndef f(x):\n    return x + {n}\n": "pass",
    "from threading import *\nt = Thread(target=print)\nt.start()\nt.join()\ndef f(x):\n    return x + {n}\n": "pass",
    "def f(x):\n    return [0] * 10**10 + [{n}]\n": "memory",
    "import re, json, collections\ndef f(x):\n    return collections.Counter(x={n})['x'] + x\n": "pass",
}  # fmt: skip


def counted(sandbox):
    """What must not grow."""
    servers = [server.process.pid for server in sandbox._started]
    children = sum(len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) for pid in servers)
    return {
        "servers": len(servers),
        "processes": children,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "server_descriptors": max(len(os.listdir(f"/proc/{pid}/fd")) for pid in servers),
        "rss_mb": round(resident("self"), 1),
        "server_rss_mb": round(max(map(resident, servers)), 1),
        "files": sum(len(os.listdir(server.folder)) for server in sandbox._started),
    }


def resident(pid):
    """Resident memory in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    kinds = list(PROGRAMS.items())

    def execute(n):
        program, expected = kinds[n % len(kinds)]
        outcome = (
            sandbox.run(program.replace("{n}", str(n % 7 + 1)), "f", [f"assert f(1) == {n % 7 + 2}"]).checks[0].outcome
        )
        return outcome == expected

    wrong, start = 0, time.perf_counter()
    with Sandbox(Limits(), servers=options.workers) as sandbox, ThreadPoolExecutor(options.workers) as pool:
        wrong += sum(not right for right in pool.map(execute, range(options.executions // 100)))
        gc.collect()
        before = counted(sandbox)
        for first in range(options.executions // 100, options.executions, 5000):
            wrong += sum(not right for right in pool.map(execute, range(first, min(first + 5000, options.executions))))
            print(f"{first + 5000:>7} executions, {counted(sandbox)}", flush=True)
        gc.collect()
        after = counted(sandbox)
    seconds = time.perf_counter() - start
    grown = {key: round(after[key] - before[key], 1) for key in before}
    left = sum(Path(server.folder).exists() for server in sandbox._started)
    report = {
        "executions": options.executions,
        "wrong_verdicts": wrong,
        "per_second": round(options.executions / seconds, 1),
    }
    print(json.dumps({**report, "after": after, "grown": grown, "folders_left": left}))


if __name__ == "__main__":
    main()
