"""Programs that reach for the network and for rare doors of the kernel. Each passes only if it is let through.

The network means the loopback, and addresses that are reserved for documentation. Raw calls are for x86_64 alone, where
seccomp is in force; their arguments are such that nothing happens where they are let through.
"""

from __future__ import annotations

from reflexion_lab.hostile.attack import RIGHT, Attack

SECCOMP = ("seccomp",)
CALL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *arguments):
    if os.uname().machine != 'x86_64':
        raise PermissionError('no such number here')
    answer = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if answer < 0 and ctypes.get_errno() in (1, 11, 13, 38):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
"""
"""`call(number, ...)` raises refusals alone: any other answer shows that the kernel has looked at the arguments."""


def door(
    name: str,
    tries: str,
    program: str,
    expected: tuple[str, ...] = ("error",),
    raises: tuple[str, ...] = ("PermissionError", "OSError"),
    needs: tuple[str, ...] = SECCOMP,
) -> Attack:
    return Attack(name=name, tries=tries, program=program + RIGHT, expected=expected, raises=raises, needs=needs)


REFUSED = "\nexcept ConnectionRefusedError:\n    pass"
"""Nobody listens, but the network is there."""

NETWORK = (
    door(
        "connects to the loopback",
        "TCP",
        f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9), 1){REFUSED}",
    ),
    door(
        "connects over IPv6",
        "TCP to ::1",
        f"import socket\ntry:\n    socket.socket(socket.AF_INET6).connect(('::1', 9)){REFUSED}",
    ),
    door(
        "sends a datagram",
        "UDP to an address for documentation",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    ),
    door(
        "asks a name server",
        "a query for name.invalid, to the loopback",
        "import socket\nquery = b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4name\\7invalid\\0\\0\\1\\0\\1'\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(query, ('127.0.0.1', 53))",
    ),
    door(
        "asks for a page",
        "HTTP",
        "import urllib.error, urllib.request\ntry:\n    urllib.request.urlopen('http://127.0.0.1:9/', timeout=1)\n"
        "except urllib.error.URLError as problem:\n    if not isinstance(problem.reason, ConnectionRefusedError):\n"
        "        raise problem.reason from None",
    ),
    door(
        "talks over a unix socket",
        "one by path",
        "import socket\nserver, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)\n"
        "server.bind('door')\nserver.listen()\nclient.connect('door')",
    ),
    door(
        "talks over an abstract socket",
        "one without a path",
        f"import secrets, socket\ntry:\n"
        f"    socket.socket(socket.AF_UNIX).connect('\\0hostile-' + secrets.token_hex(8)){REFUSED}",
    ),
    door(
        "asks the kernel for its network",
        "netlink",
        "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW).bind((0, 0))",
    ),
    door("listens", "a server on the loopback", "import socket\nsocket.create_server(('127.0.0.1', 0))"),
)

DOORS = (
    door("asks to be traced", "PTRACE_TRACEME", f"{CALL}call(101, 0, 0, 0, 0)"),
    door(
        "reads its parent's memory by a call",
        "process_vm_readv of one byte",
        f"{CALL}byte = ctypes.create_string_buffer(1)\n"
        "mine = (ctypes.c_uint64 * 2)(ctypes.addressof(byte), 1)\ntheirs = (ctypes.c_uint64 * 2)(id(None), 1)\n"
        "call(310, os.getppid(), mine, 1, theirs, 1, 0)",
    ),
    door(
        "takes its parent's descriptors",
        "pidfd_open, pidfd_getfd",
        f"{CALL}call(438, call(434, os.getppid(), 0), 0, 0)",
    ),
    door(
        "makes a process by number",
        "clone",
        f"{CALL}if call(56, 17, 0, 0, 0, 0) == 0:\n    os._exit(0)\nos.wait()",
        raises=("BlockingIOError",),
    ),
    door("makes a process by the newest number", "clone3", f"{CALL}call(435, 0, 0)"),
    door("enters a namespace", "unshare", f"{CALL}call(272, 0x10000000)"),
    door(
        "uses the numbers of another architecture",
        "getpid by the x32 door",
        f"{CALL}call(0x40000000 | 39)",
        ("error", "early_exit"),
    ),
    door(
        "uses the 32-bit entry",
        "machine code of its own: int 0x80",
        "import ctypes, mmap, os\nif os.uname().machine != 'x86_64':\n    raise PermissionError('another machine')\n"
        "code = mmap.mmap(-1, 4096, prot=7)\ncode.write(b'\\x53\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\x5b\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()",
        ("error", "early_exit"),
    ),
    door(
        "makes its leavings immutable",
        "a flag that keeps files from being removed, and takes it back",
        "import fcntl, struct\nkept = open('kept', 'w')\nfcntl.ioctl(kept, 0x40086602, struct.pack('l', 0x10))\n"
        "fcntl.ioctl(kept, 0x40086602, struct.pack('l', 0))",
    ),
    door(
        "sets attributes by a new number",
        "setxattrat on a file of its own",
        f"{CALL}open('own', 'w').close()\nvalue = ctypes.create_string_buffer(b'x')\n"
        "call(463, -100, b'own', 0, b'user.hostile', (ctypes.c_uint64 * 2)(ctypes.addressof(value), 1), 16)",
    ),
    door(
        "outlives whoever started it",
        "PR_SET_PDEATHSIG taken back",
        f"{CALL}call(157, 1, 0, 0, 0, 0)",
    ),
    door("shares memory with others", "a segment of System V", f"{CALL}call(31, call(29, 0, 4096, 0o1600), 0, 0)"),
    door("mounts", "a file system, with no arguments", f"{CALL}call(165, 0, 0, 0, 0, 0)"),
    door("changes its root", "chroot to its own folder", "import os\nos.chroot('.')"),
    door("loads code into the kernel", "bpf, with no arguments", f"{CALL}call(321, 0, 0, 0)"),
    door("watches its own faults", "userfaultfd", f"{CALL}os.close(call(323, 0))"),
    door(
        "works around the filter",
        "io_uring, with no arguments",
        f"{CALL}call(425, 1, 0)",
    ),
    door("asks for the kernel's keys", "keyctl", f"{CALL}call(250, 0, -3, 0)"),
)
ATTACKS = (*NETWORK, *DOORS)
