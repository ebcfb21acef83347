"""Isolation layers of a candidate: resource limits, Landlock and seccomp. Standard library only.

What each layer blocks (Linux, x86_64, kernel 5.13 or newer; `layers()` returns those in force here):

- `rlimits`: memory, CPU seconds, file size, open files, core dumps. Not the number of processes, nor of files, which
  the server bounds together with the size of the private folder.
- `landlock`: every read, write and execute outside the standard library and the private folder; TCP from ABI 4 on;
  signals and abstract sockets beyond the sandbox from ABI 6 on. Not chmod, chown or times of files; not UDP.
- `seccomp`: new processes, exec, all sockets but a pair of connected streams, signals, tracing, mounts, namespaces,
  raised limits and priorities, other users, chmod and related calls, watching folders, shared memory between processes,
  clocks, kernel modules, and all newer calls.

On Linux server and candidates have no capability, also where the lab runs as root.

A candidate can still use CPU, memory and disk up to the limits, read the standard library, read names and sizes of
files anywhere, and read everything in its own process: the arguments of its checks and the frames of the code that runs
it. Nothing more of a check is there (`apart.py`, `standin.py`) unless it is marked `in_process`: it can only send other
values than it computed, which is another answer. `threats.py` lists what is stopped.

Without seccomp (not x86_64, or not Linux) a candidate can start processes that outlive it until their CPU time is used
up, and without Landlock (Linux before 5.13, macOS) it can read and write whatever the user can, and use the network.
On macOS only its time limits its memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import struct
import sys

if "." in __name__:
    from reflexion_lab.tasks.sandbox import seccomp
else:  # a file without a package inside the sandbox
    import seccomp  # type: ignore[import-not-found,no-redef]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long

FOLDER_FILES = 16
"""The private folder may hold this many files of the maximum size."""
LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
NO_CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)
"""Arguments of `capset`: version 3, this process; no capability is effective, permitted or inheritable."""
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
LANDLOCK_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file-system rights by ABI; 16 from ABI 5 on."""
MOVES = 2
"""First ABI that allows moving files between folders."""
EXECUTE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 2, 1 << 3, 1 << 14
WRITE_FILE = 1 << 1


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 without Landlock."""
    if not LINUX:
        return 0
    return max(0, int(LIBC.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def layers() -> list[str]:
    """Names of the layers that this machine supports."""
    names = ["fork-server", "rlimits"]
    if abi := landlock_abi():
        names.append(f"landlock-abi{abi}")
    if seccomp.available():
        names.append("seccomp")
    return names


def readable_paths() -> list[str]:
    """Paths that a candidate may read: the standard library without site-packages, shared libraries, time zones."""
    library = os.path.dirname(os.__file__)
    inside = [e.path for e in os.scandir(library) if e.name not in ("site-packages", "dist-packages")]
    prefix = os.path.join(sys.base_prefix, "lib")
    shared = [e.path for e in os.scandir(prefix) if ".so" in e.name] if os.path.isdir(prefix) else []
    triplet = f"{os.uname().machine}-linux-gnu"
    system = [f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64", "/etc/ld.so.cache"]
    return inside + shared + system + ["/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom"]


def landlock_ruleset(folder: str, library: str) -> int:
    """Descriptor of the rules (read the standard library and what `library` links to, read and write `folder`); -1
    without Landlock.

    Created once in the server; entering it is one system call.
    """
    abi = landlock_abi()
    if not abi:
        return -1
    rights = (1 << LANDLOCK_RIGHTS.get(abi, 16)) - 1
    attributes = struct.pack("QQQ", rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = LIBC.syscall(LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset failed")
    links = [library, *(entry.path for entry in os.scandir(library))] if library else []
    for path in readable_paths() + links:
        _allow(ruleset, path, (READ_FILE | READ_DIR) & rights)
    _allow(ruleset, os.devnull, (READ_FILE | WRITE_FILE) & rights)
    _allow(ruleset, folder, rights & ~EXECUTE)
    high = fcntl.fcntl(ruleset, fcntl.F_DUPFD_CLOEXEC, 32)  # above the descriptors of a child
    os.close(ruleset)
    return high


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
    rule = struct.pack("=Qi", rights, descriptor)
    failed = LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, ctypes.c_uint32(0)) < 0
    os.close(descriptor)
    if failed:
        raise OSError(ctypes.get_errno(), f"landlock_add_rule failed for {path}")


class LimitError(ValueError):
    """The system refuses a limit; the message names its key."""


class Lockdown:
    """All layers, prepared in the server; irreversible once entered."""

    def __init__(self, folder: str, memory: int, file_size: int, open_files: int, library: str = "") -> None:
        self.ruleset = landlock_ruleset(folder, library)
        self.program = seccomp.program() if seccomp.available() else b""
        self.inherited = bool(self.program) and landlock_abi() >= MOVES
        self.folder_size = FOLDER_FILES * file_size
        self._buffer = ctypes.create_string_buffer(self.program, len(self.program))
        self._header = struct.pack("HxxxxxxP", len(self.program) // 8, ctypes.addressof(self._buffer))
        self.limits = {
            "file_mb": (resource.RLIMIT_FSIZE, file_size),
            "open_files": (resource.RLIMIT_NOFILE, open_files),
            "core": (resource.RLIMIT_CORE, 0),
        }
        if LINUX:  # macOS refuses any limit of the address space
            self.limits["memory_mb"] = (resource.RLIMIT_AS, memory)

    def enter_server(self) -> None:
        """Enter the layers that children can inherit, once, in their server.

        Landlock is not inherited without seccomp, because only a domain of its own keeps a child from signalling the
        server, nor with the first ABI, which would forbid the server to move files when it empties the folder.
        """
        for name, (limit, value) in self.limits.items():
            try:
                lowest = _at_most(limit, value)
                resource.setrlimit(limit, (lowest, lowest))
            except (OSError, ValueError, OverflowError) as problem:
                got = value >> 20 if name.endswith("_mb") else value
                raise LimitError(
                    f"sandbox.limits.{name}: got {got}, expected a limit that this system accepts"
                ) from problem
        if LINUX:
            self._call(LIBC.capset(*NO_CAPABILITIES), "capabilities")
            if not os.access(os.__file__, os.R_OK):
                raise PermissionError(f"{os.__file__} is not readable by root without capabilities: run as its owner")
        self._call(
            LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) if self.ruleset >= 0 or self.program else 0, "no_new_privs"
        )
        if self.inherited:
            self._enter_landlock()

    @staticmethod
    def hide() -> None:
        """Deny this user's other processes the memory and descriptors of this one."""
        if LINUX:
            LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)

    def enter(self, cpu_seconds: int, memory: int = 0) -> None:
        """Enter the remaining layers in this child, with at most `memory` more bytes unless that is 0.

        Raises OSError if a layer refuses.
        """
        if memory and LINUX:
            lowest = _at_most(resource.RLIMIT_AS, address_space() + memory)
            resource.setrlimit(resource.RLIMIT_AS, (lowest, lowest))
        if LINUX:
            LIBC.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
        # SIGKILL follows one second later, for a program that catches SIGXCPU.
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
        if not self.inherited:
            self._enter_landlock()
        if self.program:
            self.enter_seccomp()

    def enter_seccomp(self) -> None:
        self._call(LIBC.prctl(PR_SET_SECCOMP, 2, self._header, 0, 0), "seccomp")

    def _enter_landlock(self) -> None:
        if self.ruleset >= 0:
            self._call(LIBC.syscall(LANDLOCK_RESTRICT, self.ruleset, ctypes.c_uint32(0)), "landlock")

    @staticmethod
    def _call(result: int, layer: str) -> None:
        if result < 0:
            raise OSError(ctypes.get_errno(), f"the sandbox layer {layer} refused to enter")


def address_space() -> int:
    """Bytes of this process's address space; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _at_most(limit: int, value: int) -> int:
    """`value`, or the hard limit of this process if that is lower."""
    hard = resource.getrlimit(limit)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
