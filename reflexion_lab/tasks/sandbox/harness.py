"""The server that runs candidates: a small process that forks once per program. Standard library only.

Started as `python -s -S -P harness.py SOCKET FOLDER MEMORY FILE_SIZE OPEN_FILES HAS_STANDIN LIBRARY [MODULE ...]` with
a nearly empty environment: LIBRARY is a folder of links to packages (`packages.py`), or "",
by exec and not as a fork of the lab, whose memory has API keys and hidden tests. The server does not read requests:
request, report and output are descriptors that the lab passes to the child, so that no candidate inherits the tests of
an earlier one. With a fourth descriptor, the request of a trusted child, it forks that child, too: both are fresh forks
with a connection between them, and only the trusted one has the report (`standin.py`). A script (`script.py`) has the
fourth descriptor as standard input, and writes its output into the report: it has nothing else to report.

Request (marshal, because lab and server are the same interpreter): `nonce, program, entry_point, setup`, and `checks`:
tuples (imports, calls) of code to evaluate, or code of a whole check. Report: one line per check, `nonce [index,
[value, ...], seconds]` for values, else `nonce [index, outcome, error_type, message, line, seconds]`, then `nonce
[index, expected, actual]` of a whole check that fails. Reply on the socket: `STATUS`, then a byte once
the folder is empty. A byte in a pipe, which a candidate cannot take back, confirms that the layers were entered.

Every loaded module makes every fork and exit slower: only modules that most candidates import are loaded here.
"""

import _thread
import errno
import fcntl
import gc
import io
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
    import script  # type: ignore[import-not-found]
    import semaphores  # type: ignore[import-not-found]

    if sys.argv[6] == "1":  # each module makes forks slower
        import standin  # type: ignore[import-not-found]

    del sys.path[0]
else:
    from reflexion_lab.tasks.sandbox import child, lockdown, script, semaphores, standin

ASK = struct.Struct("<dI?")
"""Wall seconds, CPU seconds, and whether it is a script."""
STATUS = struct.Struct("<idd???")
"""Exit code (negative: signal), wall and CPU seconds, and whether the layers were in force, the child timed out, and it
was ended because its private folder was full."""
OUT_OF_MEMORY, BROKEN = 98, 99
"""Exit codes of a child that failed to report: out of memory, or another cause."""
ALIVE = child.REPORT + 1
"""End of a pipe that a child keeps open while it runs."""
CONNECTION = child.CALLS + 1
THREADS = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMEXPR")}
"""Environment of a server with packages: a fork has no thread of a pool, and 64 stacks would fill its memory."""
THREADS["JOBLIB_MULTIPROCESSING"] = "0"  # else it counts processors in files that a child may not read
FILES = 5_000
"""Maximum number of files and folders in the private folder."""
PATH = 3800
"""Maximum characters of a path to a folder; deeper ones are reached in steps."""
STACK = 1 << 20
"""Bytes of a thread's stack: 60 threads must not use up the memory limit."""
FIRST_LOOK, LOOK = 0.01, 0.02
"""Seconds until the private folder is measured, and between further measurements."""
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
    requests = [(None, [compile(f"f([1.0, {n}], 0.5)", "<check>", "eval")]) for n in ("2.0", "3", "'a'")]
    for _ in range(20):
        child.run_checks({"nonce": "", "program": USUAL, "entry_point": "f", "setup": "", "checks": requests})
    sys.modules.clear()
    sys.modules.update(modules)


def import_from(library: str, modules: list[str]) -> int:
    """Import the modules of the packages in `library`; returns the bytes of address space that they take."""
    sys.path.append(library)
    os.environ.update(THREADS)
    before: int = lockdown.address_space()
    for name in modules:
        try:
            __import__(name)
        except BaseException as problem:
            raise lockdown.LimitError(f"requires: {name} cannot be imported ({problem})") from problem
    if pools := dict[str, Any](sys.modules).get("threadpoolctl"):
        pools._HAS_PROCFS = False  # a child may not read /proc/self/maps
        pools.ThreadpoolController()  # asks the C library instead, which a child cannot look up
    after: int = lockdown.address_space()
    return max(0, after - before)


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
        ask, descriptors, _, _ = socket.recv_fds(connection, ASK.size, 4)
        if len(ask) < ASK.size:
            return
        wall, cpu, is_script = ASK.unpack(ask)
        start = time.monotonic()
        os.chdir(folder)  # again: without Landlock a candidate may have replaced the folder
        request, report, output, *trusted = descriptors
        ended, alive = os.pipe()
        # Role, request, and what becomes the descriptors from 1 to CALLS; 0 is the null device.
        children: list[tuple[str, int, tuple[int, ...]]] = [("candidate", request, (output, output, report, alive, 0))]
        if is_script:
            children = [("script", request, (report, output, 0, alive, *trusted))]
        elif trusted:
            ours, theirs = (end.detach() for end in socket.socketpair())
            children = [
                ("trusted", trusted[0], (0, output, report, alive, ours)),
                ("called", request, (output, output, 0, alive, theirs)),
            ]
            descriptors += [ours, theirs]
        processes = []
        for role, request, sources in children:
            for target, source in enumerate(sources, 1):
                os.dup2(source, target)
            if (process := fork_here()) == 0:
                run_child(role, request, layers, cpu)
            processes.append(process)
        for descriptor in (*descriptors, alive):
            os.close(descriptor)
        for target in range(1, CONNECTION):
            os.dup2(0, target)
        timed_out, is_full = wait(ended, connection, wall, folder, layers.folder_size)
        ends = [end(process) for process in processes]
        # The kernel kills a child that exceeds its CPU limit, by a coarser clock than that of `used`.
        over_cpu = any(
            status == -signal.SIGXCPU or (status == -signal.SIGKILL and used >= 0.9 * cpu) for status, used in ends
        )
        timed_out = timed_out or (over_cpu and not is_full)
        status = next((status for status, _ in ends if status), 0)
        confirmed = os.read(ended, len(ends))
        locked = len(confirmed) == len(ends) and confirmed[:1] == b"."  # a candidate may write more after its own
        os.close(ended)
        connection.sendall(
            STATUS.pack(status, time.monotonic() - start, max(used for _, used in ends), locked, timed_out, is_full)
        )
        sweep(folder)  # some disks remove a few hundred folders a second
        connection.sendall(b".")


def fork_here() -> int:
    """Fork on the current processor, whose caches have the memory pages; afterwards both may move."""
    if not hasattr(os, "sched_setaffinity"):
        return os.fork()
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {lockdown.LIBC.sched_getcpu()})
    process = os.fork()
    os.sched_setaffinity(0, allowed)
    return process


def wait(ended: int, connection: socket.socket, wall: float, folder: str, most: int) -> tuple[bool, bool]:
    """Wait until all children have ended or the lab closes the connection.

    Returns whether the time was over, and whether the folder held more than `most` bytes.
    """
    poll = select.poll()
    poll.register(ended, 0)  # only the hang-up at the child's end
    poll.register(connection, select.POLLIN)
    deadline, pause = time.monotonic() + wall, FIRST_LOOK
    while not poll.poll(max(0.0, min(pause, deadline - time.monotonic())) * 1000):
        if time.monotonic() >= deadline:
            return True, False
        if size(folder) > most:
            return False, True
        pause = LOOK
    return False, False


def size(folder: str) -> float:
    """Bytes on disk of the files in `folder`; infinite if there are more than `FILES`, or some may be hidden."""
    bytes_, count, folders = 0, 0, [folder]
    while folders:
        path = rest = folders.pop()
        try:
            while len(rest) > PATH:
                place = rest.rindex("/", 0, PATH)
                os.chdir(rest[:place])
                rest = rest[place + 1 :]
            with os.scandir(rest) as entries:
                for entry in entries:
                    count += 1
                    if count > FILES:
                        return float("inf")
                    status = entry.stat(follow_symlinks=False)
                    bytes_ += status.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        if status.st_mode & 0o700 == 0o300:  # it can be filled unseen
                            return float("inf")
                        folders.append(f"{path}/{entry.name}")
        except OSError:  # removed meanwhile, or shut
            continue
    return bytes_


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

    Without recursion, for deep nesting: the content of a folder moves up one level, then the folder is removed.
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


def run_child(role: str, request: int, layers: lockdown.Lockdown, cpu: int) -> None:
    """Become the candidate's or the trusted process; does not return."""
    try:
        os.setsid()
        if role == "trusted":
            layers.hide()
        request_fields: dict[str, Any] = marshal.loads(os.read(request, os.fstat(request).st_size))
        if role == "script":
            os.dup2(child.CALLS, 0)
            os.close(child.REPORT)
        layers.enter(cpu, request_fields.get("memory", 0))
        os.closerange(CONNECTION if role in ("trusted", "called") else child.CALLS, 256)
        os.write(ALIVE, b".")
        if role == "script":
            os._exit(script.run(request_fields["program"]))
        if role == "candidate":
            child.run_checks(request_fields)
        elif role == "called":
            standin.serve(request_fields)
        else:
            os.dup2(0, 2)  # the candidate may read the output
            standin.check(request_fields)
        sys.stdout.flush()
    except BaseException as problem:
        os.write(2, f"sandbox: {problem!r}\n".encode())
        os._exit(OUT_OF_MEMORY if isinstance(problem, MemoryError) else BROKEN)
    os._exit(0)


class Printed(io.FileIO):
    """A standard stream that drops what is printed beyond the maximum size of a file."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as problem:
            if problem.errno != errno.EFBIG:
                raise
            return len(data)


def print_within_limits() -> None:
    """Replace the standard streams by such that end in silence at the maximum size of a file."""
    for name, descriptor, errors in (("stdout", 1, "surrogateescape"), ("stderr", 2, "backslashreplace")):
        raw = io.BufferedWriter(Printed(descriptor, "w", closefd=False))
        stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=name == "stderr")
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main() -> None:
    """Serve; the reason of a failure goes to the error stream that the lab has opened."""
    errors = fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, CONNECTION + 1)
    try:
        run_server()
    except Exception as problem:
        kind = "" if isinstance(problem, lockdown.LimitError) else f"{type(problem).__name__}: "
        os.write(errors, f"{kind}{problem}".encode())
        os._exit(1)


def run_server() -> None:
    descriptor, folder, memory, file_size, open_files, _, library, *modules = sys.argv[1:]
    os.environ.clear()
    for name in WARM:
        __import__(name)
    own = import_from(library, modules) if library else 0
    # Low numbers, however many descriptors the lab has: children close only those above.
    low = os.dup(int(descriptor))
    os.close(int(descriptor))
    while low < CONNECTION:
        low = os.dup(low)
    for target in range(1, CONNECTION):
        os.dup2(0, target)
    connection = socket.socket(fileno=low)
    restore_signals()
    print_within_limits()
    sys.modules["_multiprocessing"] = semaphores
    _thread.stack_size(STACK)
    warm()
    keep_listings()
    layers = lockdown.Lockdown(folder, int(memory) + own, int(file_size), int(open_files), library)
    layers.enter_server()
    gc.collect()
    gc.freeze()
    serve(connection, folder, layers)


if __name__ == "__main__":
    main()
