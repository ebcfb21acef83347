"""The seccomp layer: a BPF filter of system calls for x86_64. Standard library only."""

import os
import struct
import sys

DENIED = {
    "sockets": (41, 42, 43, 46, 47, *range(49, 53), 54, 55, 288, 299, 307),
    "signals": (62, 129, 200, 234, 297, 424, 434, 438),
    "tracing": (101, 103, 298, 310, 311, 312, 321, 323),
    "keys": (248, 249, 250),
    "processes": (57, 58, 59, 322),
    "limits": (160, 302),
    "metadata": (76, 90, 91, 92, 93, 94, 132, 188, 189, 190, 197, 198, 199, 235, 260, 261, 268, 280, 452),
    "devices": (133, 172, 173, 259),
    "namespaces": (135, 153, 155, 161, 165, 166, 272, 303, 304, 308, *range(428, 434), 442),
    "machine": (159, 163, 164, 167, 168, 169, 170, 171, 175, 176, 179, 227, 246, 305, 313, 320),
    "shared_memory": (29, 30, 31, 64, 65, 66, 68, 69, 70, 71, *range(240, 246), 319),
    "io_uring": (425, 426, 427),
    "scheduling": (141, 142, 144, 203, 251, 256, 279, 314),
    "watching": (253, 254, 294, 300, 301),
    "own_death": (157,),
    "users": (105, 106, 113, 114, 116, 117, 119, 122, 123, 126),
}
"""x86_64 numbers of system calls that fail with EPERM, by purpose."""
SOCKETPAIR, AF_UNIX, STREAM = 53, 1, (1, 0x801, 0x80001, 0x80801)
SEND = 44
"""Allowed for `asyncio`: a pair of connected streams, and to send to the other end, which has no address."""
CLONE, CLONE3, CLONE_THREAD = 56, 435, 0x10000
IOCTL, IOCTLS = 16, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Allowed requests, for files of the standard library: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
FCNTL, FCNTLS = 72, (8, 10, 15, 1024, 1026)
"""Denied commands: signal owners, leases, and folder notifications."""
UNKNOWN = 453
"""First unknown number: newer calls, and those of other calling conventions."""
ARCH_X86_64 = 0xC000003E
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38


Instructions = list[tuple[int, int, int, int]]


def available() -> bool:
    return sys.platform.startswith("linux") and os.uname().machine == "x86_64"


def program() -> bytes:
    """The BPF filter: denied calls fail with EPERM, `clone` only creates threads, other architectures are killed.

    A search tree, because the kernel evaluates the filter for every number at installation: a linear list of
    comparisons would take about 0.5 ms in each child.
    """
    load, equal, answer = 0x20, 0x15, 0x06
    code = [(load, 0, 0, 4), (equal, 1, 0, ARCH_X86_64), (answer, 0, 0, KILL), (load, 0, 0, 0), *_search(_actions())]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _actions() -> list[tuple[int, int]]:
    """Ranges of system call numbers as (first number, action), in order."""
    answers = {number: ERRNO | EPERM for group in DENIED.values() for number in group}
    answers |= {number: number for number in (SOCKETPAIR, SEND, CLONE, IOCTL, FCNTL)}
    answers |= {CLONE3: ERRNO | ENOSYS, UNKNOWN: ERRNO | ENOSYS}
    ranges = [(0, answers.get(0, ALLOW))]
    for number in sorted(answers | {n + 1: 0 for n in answers if n != UNKNOWN}):
        if (action := answers.get(number, ALLOW)) != ranges[-1][1]:
            ranges.append((number, action))
    return ranges


def _search(ranges: list[tuple[int, int]]) -> Instructions:
    """Instructions of a binary search for a number's range."""
    load, at_least, bits, answer = 0x20, 0x35, 0x45, 0x06
    if len(ranges) == 1:
        action = ranges[0][1]
        refuse = ERRNO | EPERM
        by_argument = {
            IOCTL: _by_argument(1, IOCTLS, ALLOW, refuse),
            FCNTL: _by_argument(1, FCNTLS, refuse, ALLOW),
            SOCKETPAIR: _by_argument(0, (AF_UNIX,), _by_argument(1, STREAM, ALLOW, refuse), refuse),
            SEND: _by_argument(4, (0,), _by_argument(4.5, (0,), ALLOW, refuse), refuse),
            CLONE: [(load, 0, 0, 16), (bits, 1, 0, CLONE_THREAD), (answer, 0, 0, refuse), (answer, 0, 0, ALLOW)],
        }
        return by_argument.get(action, [(answer, 0, 0, action)])
    middle = len(ranges) // 2
    low, high = _search(ranges[:middle]), _search(ranges[middle:])
    return [(at_least, len(low), 0, ranges[middle][0]), *low, *high]


def _by_argument(place: float, values: tuple[int, ...], then: int | Instructions, otherwise: int) -> Instructions:
    """Instructions for `then` if the call's argument at `place` is in `values`, else `otherwise`.

    Only the lower half of the argument is compared; `place` + 0.5 is its upper half.
    """
    load, equal, answer = 0x20, 0x15, 0x06
    tests = [(equal, len(values) - i, 0, value) for i, value in enumerate(values)]
    last = [(answer, 0, 0, then)] if isinstance(then, int) else then
    return [(load, 0, 0, 16 + int(8 * place)), *tests, (answer, 0, 0, otherwise), *last]
