"""Bundles: one file with a run and all its inputs, so anybody can replay it offline.

A bundle is a zip of plain JSON. BUNDLE.json names every other member with its SHA-256; no other member is read, no
member becomes a program or a link, and nothing is written outside of the target folder.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Table, select

from reflexion_lab.errors import DataError
from reflexion_lab.io import files
from reflexion_lab.io.files import RATIO, SMALL, UNREADABLE, check
from reflexion_lab.records import Record
from reflexion_lab.storage.sql import CALLS as CALL_TABLE
from reflexion_lab.storage.sql import EMBEDDINGS, Database

FORMAT = 1
ABOUT = "BUNDLE.json"
NAME = re.compile(
    r"(manifest|memory)\.json|study\.yaml|(attempts|results|grades|written_tests|suite_verdicts|resumptions|operations|calls|embeddings)\.jsonl"
    r"|memory/(episodes|wisdom)\.jsonl|data/(?!\.)[^/\\\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]{1,200}|pool/[0-9]{1,4}/(manifest\.json|attempts\.jsonl)"
)
"""Names of members: records of the run, and its inputs of models, memory, data and earlier runs."""
LARGEST = 2 << 30
"""Bytes of all unpacked members."""
MOST = 1000
"""Members."""


class BundleError(DataError):
    """A file is no bundle, or is not whole."""


class About(Record, frozen=True, kw_only=True):
    """The contents of BUNDLE.json."""

    format: int = FORMAT
    run_id: str
    python: str
    """Version of Python."""
    packages: dict[str, str]
    """Versions, as in the run's manifest."""
    contexts: dict[str, int]
    """Context size in tokens by role, to which prompts were cut."""
    embedder: str = ""
    """Fingerprint of the embedder of the packed vectors; "" if there are none."""
    figures: dict[str, Any]
    """The run's headline figures, without ids, times and cache marks."""
    members: dict[str, str]
    """SHA-256, in hex, of every other member."""


def write(path: Path, about: About, members: Mapping[str, bytes]) -> None:
    """Write a bundle in one step; equal contents make equal bytes. `about.members` is filled in.

    Raises BundleError: a member has another name, or there are too many or too large ones.
    """
    if strange := [name for name in members if not NAME.fullmatch(name)]:
        raise BundleError(f"{strange[0]}: a bundle has no such member")
    if len(members) >= MOST:  # BUNDLE.json is one, too
        raise BundleError(path, f"{len(members) + 1:,} members to pack", f"at most {MOST:,}")
    if (size := sum(map(len, members.values()))) > LARGEST:
        raise BundleError(path, f"{size:,} bytes to pack", f"at most {LARGEST:,}")
    about = msgspec.structs.replace(about, members={name: sha256(members[name]) for name in sorted(members)})
    text = as_json(about)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {ABOUT: text, **dict(sorted(members.items()))}.items():
            info = zipfile.ZipInfo(name)  # dated 1980, whenever it is packed
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    files.replace(path, [packed.getvalue()])


def read(path: Path) -> tuple[About, dict[str, bytes]]:
    """The contents of a bundle, every member checked against its digest.

    Raises BundleError: the file is no bundle, is damaged, of another version, too large, or has an unknown member.
    """
    try:
        check(path, "a bundle")
    except ValueError as problem:
        raise BundleError(str(problem)) from None
    try:
        with zipfile.ZipFile(path) as archive:
            infos = _checked(path, archive.infolist())
            contents = {name: archive.read(info) for name, info in infos.items()}
    except OSError as problem:
        raise BundleError(path, f"a file that cannot be read ({problem.strerror})", "a bundle") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as problem:
        raise BundleError(path, f"a damaged file or no zip file ({problem})", "a bundle", "copy it again") from None
    try:
        about = msgspec.json.decode(contents.pop(ABOUT), type=About)
    except UNREADABLE as problem:
        raise BundleError(f"{path}: {ABOUT}: {problem}; was it written by another version?") from None
    if about.format != FORMAT:
        raise BundleError(path, f"format {about.format}", FORMAT, "use the version that wrote it")
    for name in sorted(contents.keys() | about.members.keys()):
        if name not in contents or sha256(contents[name]) != about.members.get(name):
            raise BundleError(f"{path}: {name} is not what {ABOUT} says; the bundle is damaged or was changed")
    return about, contents


def as_json(record: Record) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record, order="deterministic"), indent=2) + b"\n"


def unpack(members: Mapping[str, bytes], folder: Path) -> None:
    """Write members below `folder`."""
    for name, content in members.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checked(path: Path, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name. No more of a member is read than the size that it states."""
    by_name = {info.filename: info for info in infos}
    if len(infos) > MOST or len(by_name) != len(infos):
        raise BundleError(path, f"{len(infos)} members", f"at most {MOST}, each once")
    for name, info in by_name.items():
        if name != ABOUT and not NAME.fullmatch(name):
            raise BundleError(path, f"a member {name!r}", "the files of a run alone")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise BundleError(f"{path}, {name}", "a link or encrypted member", "a plain file")
    if bomb := next((info for info in infos if info.file_size > max(SMALL, RATIO * info.compress_size)), None):
        sizes = f"{bomb.compress_size:,} bytes that unpack to {bomb.file_size:,}"
        raise BundleError(f"{path}, {bomb.filename}", f"{sizes}, as no text does", "a run's records")
    if (size := sum(info.file_size for info in infos)) > LARGEST:
        raise BundleError(path, f"{size:,} bytes unpacked", f"at most {LARGEST:,}")
    if ABOUT not in by_name:
        raise BundleError(path, f"no {ABOUT}", "what `reflexion-lab bundle` writes")
    return by_name


class Call(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded call: the reply to a request, as in the call cache."""

    key: str
    fingerprint: str
    request: str
    completion: str

    @property
    def row(self) -> dict[str, object]:
        """Raises BundleError: the key is not that of the request."""
        if hashlib.sha256(self.request.encode()).hexdigest() != self.key:
            raise BundleError(f"call {self.key}: its request has another digest; the bundle was changed")
        return msgspec.structs.asdict(self) | {"created_at": ""}


class Vector(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    fingerprint: str
    digest: bytes
    vector: bytes

    @property
    def row(self) -> dict[str, object]:
        return msgspec.structs.asdict(self) | {"checksum": zlib.crc32(self.vector)}


class Kind(NamedTuple):
    """Table and record of one kind of file."""

    table: Table
    record: type[Call] | type[Vector]

    def database(self, path: Path, readonly: bool) -> Database:
        return Database(path, [self.table], error=BundleError, readonly=readonly)


CALLS = Kind(CALL_TABLE, Call)
VECTORS = Kind(EMBEDDINGS, Vector)


def copied(url: str, fingerprints: Sequence[str], path: Path) -> Path:
    """Copy the calls of these models from the call cache at `url` into a file. Raises StoreError."""
    statement = select(CALL_TABLE).where(CALL_TABLE.c.fingerprint.in_(fingerprints))
    with (
        closing(Database(url, [CALL_TABLE], "--calls", readonly=True)) as calls,
        closing(CALLS.database(path, readonly=False)) as copy,
    ):
        copy.open()
        for rows in calls.stream(statement):
            copy.rows(copy.inserted(CALL_TABLE), [row._asdict() for row in rows])
    return path


def as_lines(path: Path, kind: Kind) -> bytes:
    """Every row of the file at `path`, sorted, as JSON lines; b"" if there is no file.

    Raises BundleError: it is another file, or damaged.
    """
    if not path.is_file():
        return b""
    columns = [kind.table.c[name] for name in kind.record.__struct_fields__]
    statement = select(*columns).order_by(*kind.table.primary_key.columns)
    with closing(kind.database(path, readonly=True)) as database:
        records = (kind.record(**row._asdict()) for rows in database.stream(statement) for row in rows)
        return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def as_file(lines: bytes, kind: Kind, path: Path) -> Path:
    """Write these rows into a file at `path`. Raises BundleError: a line is no such record."""
    try:
        rows = [msgspec.json.decode(line, type=kind.record).row for line in lines.splitlines()]
        with closing(kind.database(path, readonly=False)) as database:
            database.open()
            if rows:
                database.rows(database.inserted(kind.table), rows)
    except (*UNREADABLE, BundleError) as problem:
        raise BundleError(f"{path.stem}.jsonl: {problem}; the bundle was changed") from None
    return path
