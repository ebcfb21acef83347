"""The server that runs candidates: a lean process of its own, forked once per program. Standard library only.

Started as `python -s -S -P harness.py SOCKET FOLDER MEMORY FILE_SIZE OPEN_FILES` with an empty environment: a fresh
exec, never a fork of the lab, whose memory holds API keys and hidden tests. The server never reads a request either:
request, report and output are descriptors that travel from the lab to the child, so that one candidate's tests are in
no memory that a later candidate inherits.

Request (marshal, as lab and server are one interpreter): `nonce, program, entry_point, setup, checks, sources`; a check
is a tuple (imports, calls) of code whose values are asked for, or the code of a whole check, whose source comes along.
Report: one line per check, `nonce [index, [value, ...], seconds]` for values, else `nonce [index, outcome, error_type,
message, line, seconds]`; after all of them, explanations of failures, `nonce [index, expected, actual]`. Reply on the
socket: `STATUS`. Whether the layers were entered is told by a byte in a pipe, which nobody can take back.

Every module that is loaded here makes every fork and every exit dearer: candidates share what most of them import, and
load the rest themselves.
"""

import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

if __name__ == "__main__":  # lone files here; modules of the package where the lab reads their constants
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import child  # type: ignore[import-not-found]
    import lockdown  # type: ignore[import-not-found]

    del sys.path[0]
else:
    from reflexion_lab.tasks.sandbox import child, lockdown

ASK = struct.Struct("<dI")
"""Wall seconds, CPU seconds."""
STATUS = struct.Struct("<idd??")
"""Exit code (negative: signal), wall and CPU seconds, whether the layers were in force, whether the time was over."""
OUT_OF_MEMORY, BROKEN = 98, 99
"""Exit codes of a child whose reporting failed: out of memory, or other causes."""
ALIVE = child.REPORT + 1
"""The end of a pipe that a child keeps open while it runs."""
CONNECTION = ALIVE + 1
WARM = ["collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re", "string", "typing"]
USUAL = """
from typing import Any, Dict, List, Optional, Tuple
def f(numbers: List[float], threshold: float) -> bool:
    \"\"\"A program of our own, of a usual kind.\"\"\"
    found = {}
    for i, x in enumerate(sorted(numbers)):
        found[str(x)] = [y for y in numbers if abs(x - y) < threshold] + list(range(i))
    return tuple(found.items()), set(numbers), max(numbers) > threshold, ' '.join(found).split()
"""


def warm() -> None:
    """Take a usual program through a child's own steps: what has run here before copies fewer pages in every child."""
    modules = dict(sys.modules)
    calls = [(None, [compile(f"f([1.0, {n}], 0.5)", "<check>", "eval")]) for n in ("2.0", "3", "'a'")]
    for _ in range(20):
        child.run_checks(
            {"nonce": "", "program": USUAL, "entry_point": "f", "setup": "", "checks": calls, "sources": {}}
        )
    sys.modules.clear()
    sys.modules.update(modules)


def keep_listings() -> None:
    """Have imports go by the library's folders as they are now: a child, which may not list them, would find nothing
    there any more once one of them had changed.
    """
    finders: list[Any] = [finder for finder in sys.path_importer_cache.values() if hasattr(finder, "_fill_cache")]
    for finder in finders:
        finder._fill_cache()
        finder._fill_cache = lambda: None


def heed_signals() -> None:
    """Restore default signals: the parent may ignore some, as `nohup` does; candidates get the defaults."""
    as_usual: dict[int, Any] = dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_IGN)
    as_usual[signal.SIGINT] = signal.default_int_handler
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, as_usual.get(number, signal.SIG_DFL))


def serve(connection: socket.socket, folder: str, layers: lockdown.Lockdown) -> None:
    """Answer requests in turn until the lab closes the connection.

    A child's descriptors are arranged before it is forked: whatever a child does first costs it copies of pages.
    """
    while True:
        ask, descriptors, _, _ = socket.recv_fds(connection, ASK.size, 3)
        if len(ask) < ASK.size:
            return
        wall, cpu = ASK.unpack(ask)
        start = time.monotonic()
        os.chdir(folder)  # where no Landlock holds it, a candidate may have put another folder in its place
        request, report, output = descriptors
        ended, alive = os.pipe()
        for source, target in ((output, 1), (output, 2), (report, child.REPORT), (alive, ALIVE)):
            os.dup2(source, target)
        process = fork_here()
        if process == 0:
            run_child(request, layers, cpu)
        for descriptor in (*descriptors, alive):
            os.close(descriptor)
        for target in (1, 2, child.REPORT, ALIVE):
            os.dup2(0, target)
        over = not wait(ended, connection, wall)
        status, used = end(process)
        # The kernel ends a child that has used up its CPU time, by a clock that is coarser than ours.
        over = over or status == -signal.SIGXCPU or (status == -signal.SIGKILL and used >= 0.9 * cpu)
        locked = os.read(ended, 1) == b"."
        os.close(ended)
        sweep(folder)
        connection.sendall(STATUS.pack(status, time.monotonic() - start, used, locked, over))


def fork_here() -> int:
    """Fork onto the processor that this runs on, whose caches know the pages; both may move from there on."""
    if not hasattr(os, "sched_setaffinity"):
        return os.fork()
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {lockdown.LIBC.sched_getcpu()})
    process = os.fork()
    os.sched_setaffinity(0, allowed)
    return process


def wait(ended: int, connection: socket.socket, wall: float) -> bool:
    """Wait until the child has ended or the lab closes the connection; False on timeout."""
    poll = select.poll()
    poll.register(ended, 0)  # no event but the hang-up, which the child's end brings
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(wall * 1000))


def end(process: int) -> tuple[int, float]:
    """Kill the child and its group, and reap it; its exit code and the CPU seconds that it used."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    _, status, used = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def sweep(folder: str) -> None:
    """Empty the private folder; files of one candidate never reach the next one.

    Level by level, what a folder holds moves up and the folder goes: no depth of nesting can exhaust the stack.
    """
    moved = 0
    while leavings := os.listdir(folder):
        for path in (os.path.join(folder, name) for name in leavings):
            if removed(path):
                continue
            for inner in (os.path.join(path, name) for name in os.listdir(path)):
                if not removed(inner):
                    moved += 1
                    os.rename(inner, os.path.join(folder, f"{time.monotonic_ns()}-{moved}"))
            os.rmdir(path)


def removed(path: str) -> bool:
    """Remove a file, a link or an empty folder; a folder that holds something is only made ours to open and to move."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return True
    os.chmod(path, 0o700)
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def run_child(request: int, layers: lockdown.Lockdown, cpu: int) -> None:
    """Become the candidate's process; never returns."""
    try:
        os.setsid()
        request_fields: dict[str, Any] = marshal.loads(os.read(request, os.fstat(request).st_size))
        layers.enter(cpu)
        os.closerange(CONNECTION, 256)
        os.write(ALIVE, b".")
        child.run_checks(request_fields)
        sys.stdout.flush()
    except BaseException as problem:
        os.write(2, f"sandbox: {problem!r}\n".encode())
        os._exit(OUT_OF_MEMORY if isinstance(problem, MemoryError) else BROKEN)
    os._exit(0)


def main() -> None:
    descriptor, folder, *limits = sys.argv[1:]
    for name in WARM:
        __import__(name)
    # Low numbers, whatever the lab has open: children close what stands above, and nothing else.
    low = os.dup(int(descriptor))
    os.close(int(descriptor))
    while low < CONNECTION:
        low = os.dup(low)
    for target in range(1, CONNECTION):
        os.dup2(0, target)
    connection = socket.socket(fileno=low)
    heed_signals()
    warm()
    keep_listings()
    layers = lockdown.Lockdown(folder, *map(int, limits))
    layers.enter_server()
    os.environ.clear()
    gc.collect()
    gc.freeze()
    serve(connection, folder, layers)


if __name__ == "__main__":
    main()
