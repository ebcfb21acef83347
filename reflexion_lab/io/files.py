"""Files: checked before they are read, replaced in one step, appended to by whole lines; temporary folders; weights."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import io
import os
import secrets
import shutil
import struct
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from reflexion_lab.errors import ConfigError, DataError, ModelError

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding bytes that something else wrote."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk or an exhausted quota."""
DRAFT = ".draft"
"""Suffix of a file that is being written."""
OTHER_FORMATS = ("onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.md", "original/*", "*.gguf")
"""Files in hub repositories that are not downloaded."""


def file_digest(path: Path) -> str:
    """SHA-256 of a file, shortened to 16 hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def folder_digest(folder: Path) -> str:
    """Hash of the names and contents of all files that can affect a result, shortened to 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.name.startswith(".") and file.suffix != ".md":
            with file.open("rb") as content:
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]


def named_folder(key: str, name: str, expected: str) -> Path | None:
    """The folder `name`; None for a hub name. Raises ConfigError: neither, in the option `key`."""
    if name and (folder := Path(name).expanduser()).is_dir():
        return folder
    if name.count("/") > 1 or name.startswith((".", "~", "/")) or not name:
        raise ConfigError(f"{key}: no folder at {name!r}", expected=expected)
    return None


def hub_folder(key: str, name: str, revision: str, other: str = "") -> Path:
    """The files of a hub name, downloaded unless the hub's cache has them. Raises ModelError, without a token."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, ignore_patterns=list(OTHER_FORMATS)))
    except Exception as problem:
        raise ModelError(
            f"{key}: {name!r} is not a folder, and neither the hub nor its cache has a model of that name "
            f"({type(problem).__name__}); run `hf download {name}` with network access, or name a folder{other}"
        ) from problem


def content(path: Path | str, expected: str) -> bytes:
    """The bytes of a file.

    Raises DataError: the path is a folder, pipe or device, or cannot be read; `expected` names the expected file.
    """
    check(path, expected)
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise DataError(path, f"a file that cannot be read ({problem.strerror})", expected) from None


@contextmanager
def writable(key: str, path: Path | str, expected: str) -> Iterator[None]:
    """Turn an OSError within the block into a ConfigError: the `path` of the option `key` cannot be written."""
    try:
        yield
    except OSError as problem:
        raise ConfigError(key, f"{str(path)!r} ({problem.strerror})", expected, "name another") from None


def check(path: Path | str, expected: str) -> None:
    """Raises DataError unless `path` is a regular file: a pipe or a device may never end."""
    file = Path(path)
    try:
        if file.is_file():
            return
        kind = "a folder" if file.is_dir() else "a pipe or a device" if file.exists() else "no file"
    except (OSError, ValueError) as problem:  # a name too long, or with a NUL; links in a circle
        kind = f"no file ({getattr(problem, 'strerror', None) or problem})"
    raise DataError(repr(str(path)[:200]), kind, expected)


def replace(path: Path, parts: Iterable[bytes], draft: Path | None = None) -> None:
    """Write `parts` to `path` in one step: readers, and the disk after a crash, have the old file or the new one.

    `draft`: the file to write first, in the same folder, for a caller that alone writes `path`; overwritten if it
    exists. None: a unique name that ends in `DRAFT`.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():  # /dev/stdout, a pipe: written to, for root could replace even /dev/null
        with path.open("wb") as device:
            return device.writelines(parts)
    draft = draft or path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    try:
        with draft.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def open_for_append(path: Path) -> int:
    """A descriptor for appending; a torn last line, left by a kill, is ended by a line break."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")
    return descriptor


def append(descriptor: int, line: bytes) -> None:
    """Append the whole `line` or nothing. Raises OSError."""
    written = os.write(descriptor, line)
    if written == len(line):
        return
    with suppress(OSError):
        os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def locked_byte(path: Path, place: int) -> Iterator[None]:
    """Exclusive lock on byte `place` of a file, created if missing, against threads and processes; it ends with the
    process. Locks nothing where the system or the file system has no such locks.
    """
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if descriptor is None:
        yield
        return
    try:
        _lock_byte(descriptor, fcntl.F_WRLCK, place)
        yield
    finally:
        _lock_byte(descriptor, fcntl.F_UNLCK, place)  # a process forked meanwhile has a copy of the descriptor
        os.close(descriptor)


def _lock_byte(descriptor: int, kind: int, place: int) -> None:
    """Waits for the lock. It belongs to the descriptor, not to the process; only Linux has it."""
    if command := getattr(fcntl, "F_OFD_SETLKW", None):
        with suppress(OSError):
            fcntl.fcntl(descriptor, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0))  # struct flock


SMALL = 64 << 20
"""Size in bytes to which any file may expand."""
RATIO = 200
"""Maximum ratio of expanded to packed bytes; JSON has about 10, repeated prompts 50."""
LARGEST = 4 << 30
GZIP = b"\x1f\x8b"


def unpacked(path: Path | str, data: bytes) -> bytes:
    """The text in the file's `data`, packed by gzip or not.

    Raises DataError: the data are damaged or truncated, or expand beyond the limits.
    """
    if not data.startswith(GZIP):
        return data
    packed, parts, size, expected = io.BytesIO(data), list[bytes](), 0, "a whole gzip file"
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            while part := file.read(1 << 20):
                parts.append(part)
                size += len(part)
                if size > min(LARGEST, max(SMALL, RATIO * packed.tell())):
                    sizes = f"{len(data):,} bytes that unpack to more than {size:,}, as no text does"
                    raise DataError(path, sizes, expected)
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(path, f"a damaged gzip file ({problem})", expected) from None
    return b"".join(parts)


PREFIX = "reflexion-lab-"
DRAWN = "[0-9a-f]" * 8
"""Pattern of the rest of the name; a user's `reflexion-lab-runs` does not match."""
remove_tree = partial(shutil.rmtree, ignore_errors=True)


class Scratch:
    """A temporary folder, removed by `close` or at the end of the process.

    The process holds a lock (`flock`) on its folder. A folder without a lock belongs to a killed process; the first
    `Scratch` of a process in the same place removes it. `place`: parent folder; by default the system's folder for
    temporary files. `prefix`: beginning of its name; only folders with this prefix are cleaned up. `mode`: permissions.
    `remove`: removes a folder with its contents; never raises.
    """

    def __init__(
        self,
        place: Path | None = None,
        prefix: str = PREFIX,
        mode: int = 0o700,
        remove: Callable[[str], object] = remove_tree,
    ) -> None:
        place = (place or Path(tempfile.gettempdir())).absolute()
        _clear(place, prefix, remove)
        self.path, hold = _created(place, prefix, mode)
        self._end = weakref.finalize(self, _closed, str(self.path), hold, remove)

    def close(self) -> None:
        """Remove the folder, unless it was renamed. Safe to call twice."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _created(place: Path, prefix: str, mode: int) -> tuple[Path, int]:
    """A new folder, and the descriptor of its lock."""
    while True:
        path = place / f"{prefix}{secrets.token_hex(4)}"
        path.mkdir(mode)
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process that cleans up was faster
                os.close(hold)
                continue
            except OSError:  # a file system without locks: no process cleans up there
                return path, hold
            if os.path.samestat(os.fstat(hold), path.stat()):
                return path, hold
            os.close(hold)
        except FileNotFoundError:
            continue


def _closed(path: str, hold: int, remove: Callable[[str], object]) -> None:
    remove(path)
    os.close(hold)


@cache
def _clear(place: Path, prefix: str, remove: Callable[[str], object]) -> None:
    """Remove stale folders; links, other users' folders and other names stay."""
    for path in place.glob(prefix + DRAWN):
        try:
            hold = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(hold).st_uid == os.geteuid():
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(str(path))
        except OSError:  # in use
            continue
        finally:
            os.close(hold)
