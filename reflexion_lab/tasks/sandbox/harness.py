"""The server that runs candidates: a small process that forks once per program. Standard library only.

Started as `python -s -S -P harness.py SOCKET FOLDER MEMORY FILE_SIZE OPEN_FILES` with an empty environment, by exec and
not as a fork of the lab, whose memory has API keys and hidden tests. The server does not read requests: request, report
and output are descriptors that the lab passes to the child, so that no candidate inherits the tests of an earlier one.

Request (marshal, because lab and server are the same interpreter): `nonce, program, entry_point, setup, checks,
sources`; a check is a tuple (imports, calls) of code to evaluate, or the code of a whole check, with its source in
`sources`. Report: one line per check, `nonce [index, [value, ...], seconds]` for values, else `nonce [index, outcome,
error_type, message, line, seconds]`; then explanations of failures, `nonce [index, expected, actual]`. Reply on the
socket: `STATUS`. A byte in a pipe, which a candidate cannot take back, confirms that the layers were entered.

Every loaded module makes every fork and exit slower: only modules that most candidates import are loaded here.
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

if __name__ == "__main__":  # inside the sandbox these are files without a package
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import child  # type: ignore[import-not-found]
    import lockdown  # type: ignore[import-not-found]

    del sys.path[0]
else:
    from reflexion_lab.tasks.sandbox import child, lockdown

ASK = struct.Struct("<dI")
"""Wall seconds, CPU seconds."""
STATUS = struct.Struct("<idd??")
"""Exit code (negative: signal), wall and CPU seconds, whether the layers were in force, whether the child timed out."""
OUT_OF_MEMORY, BROKEN = 98, 99
"""Exit codes of a child that failed to report: out of memory, or another cause."""
ALIVE = child.REPORT + 1
"""End of a pipe that a child keeps open while it runs."""
CONNECTION = ALIVE + 1
WARM = ["collections", "copy", "functools", "heapq", "itertools", "math", "operator", "re", "string", "typing"]
USUAL = """
from typing import Any, Dict, List, Optional, Tuple
def f(numbers: List[float], threshold: float) -> bool:
    \"\"\"A typical program.\"\"\"
    near = {}
    for i, x in enumerate(sorted(numbers)):
        near[str(x)] = [y for y in numbers if abs(x - y) < threshold] + list(range(i))
    return tuple(near.items()), set(numbers), max(numbers) > threshold, ' '.join(near).split()
"""


def warm() -> None:
    """Run a typical program through the steps of a child, so that later children copy fewer memory pages."""
    modules = dict(sys.modules)
    calls = [(None, [compile(f"f([1.0, {n}], 0.5)", "<check>", "eval")]) for n in ("2.0", "3", "'a'")]
    for _ in range(20):
        child.run_checks(
            {"nonce": "", "program": USUAL, "entry_point": "f", "setup": "", "checks": calls, "sources": {}}
        )
    sys.modules.clear()
    sys.modules.update(modules)


def keep_listings() -> None:
    """Freeze the cached listings of the library's folders: a child may not list a folder again after a change."""
    finders: list[Any] = [finder for finder in sys.path_importer_cache.values() if hasattr(finder, "_fill_cache")]
    for finder in finders:
        finder._fill_cache()
        finder._fill_cache = lambda: None


def restore_signals() -> None:
    """Restore Python's default handlers of signals that the parent process ignores, as under `nohup`."""
    defaults: dict[int, Any] = dict.fromkeys((signal.SIGPIPE, signal.SIGXFSZ), signal.SIG_IGN)
    defaults[signal.SIGINT] = signal.default_int_handler
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, defaults.get(number, signal.SIG_DFL))


def serve(connection: socket.socket, folder: str, layers: lockdown.Lockdown) -> None:
    """Answer requests in order until the lab closes the connection.

    Descriptors are arranged before the fork, because everything a child does copies memory pages.
    """
    while True:
        ask, descriptors, _, _ = socket.recv_fds(connection, ASK.size, 3)
        if len(ask) < ASK.size:
            return
        wall, cpu = ASK.unpack(ask)
        start = time.monotonic()
        os.chdir(folder)  # again: without Landlock a candidate may have replaced the folder
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
        timed_out = not wait(ended, connection, wall)
        status, used = end(process)
        # The kernel kills a child that exceeds its CPU limit, by a coarser clock than that of `used`.
        timed_out = timed_out or status == -signal.SIGXCPU or (status == -signal.SIGKILL and used >= 0.9 * cpu)
        locked = os.read(ended, 1) == b"."
        os.close(ended)
        sweep(folder)
        connection.sendall(STATUS.pack(status, time.monotonic() - start, used, locked, timed_out))


def fork_here() -> int:
    """Fork on the current processor, whose caches have the memory pages; afterwards both may move."""
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
    poll.register(ended, 0)  # only the hang-up at the child's end
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(wall * 1000))


def end(process: int) -> tuple[int, float]:
    """Kill and reap the child and its group; return its exit code and CPU seconds."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    _, status, used = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


def sweep(folder: str) -> None:
    """Empty the private folder, so that no file of a candidate reaches the next one.

    Without recursion, so that deep nesting cannot exhaust the stack: the content of a folder moves up one level, then
    the folder is removed.
    """
    moved = 0
    while names := os.listdir(folder):
        for path in (os.path.join(folder, name) for name in names):
            if removed(path):
                continue
            for inner in (os.path.join(path, name) for name in os.listdir(path)):
                if not removed(inner):
                    moved += 1
                    os.rename(inner, os.path.join(folder, f"{time.monotonic_ns()}-{moved}"))
            os.rmdir(path)


def removed(path: str) -> bool:
    """Remove a file, a link or an empty folder; only make any other folder accessible and return False."""
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
    """Become the candidate's process; does not return."""
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
    # Low numbers, however many descriptors the lab has: children close only those above.
    low = os.dup(int(descriptor))
    os.close(int(descriptor))
    while low < CONNECTION:
        low = os.dup(low)
    for target in range(1, CONNECTION):
        os.dup2(0, target)
    connection = socket.socket(fileno=low)
    restore_signals()
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
