"""Hostile programs: their records and files, the verdict on each, and the search for leftovers of a run."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import content
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import OUTCOMES, Check, Record

QUICK = Path(__file__).with_suffix(".toml")
"""Quick attacks, at least one of each family; `tests/attacks` in the repository has all attacks."""
CHECKS = ("assert f(1) == 2",)
CAP = 20_000
"""Maximum characters of a check's field, so that a candidate cannot flood the lab's records."""
PLANTED = "REFLEXION_LAB_PLANTED_API_KEY"
"""Environment variable in the lab's process that attacks try to read; set by the caller."""
PREFIX = "hostile-"
"""Prefix of the files that attacks try to create outside the sandbox."""
HOME = os.environ.get("HOME", "/root")
PR_SET_CHILD_SUBREAPER = 36


class Attack(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hostile program.

    Harmless even without a layer: sizes and counts are bounded, signals only go to its own processes, and it removes
    what it writes outside the sandbox.
    """

    name: str
    program: str
    tries: str
    """Description of the attack, in a few words."""
    expected: tuple[str, ...]
    """Accepted outcomes."""
    raises: tuple[str, ...] = ()
    """Accepted exceptions for the outcome `error`: a mistake in the program does not count as blocked; () for any."""
    checks: tuple[str, ...] = CHECKS
    """Checks of the attack; none of them may pass, unless `in_process`."""
    setup: str = ""
    in_process: bool = False
    """Whether it forges a check that runs beside it, and only such: known, and listed in docs/safety.md."""
    needs: tuple[str, ...] = ()
    """Layers that block it; without one of them it may succeed."""
    probe: str = ""
    """For state pollution: the next program in the same server, which must pass."""
    family: str = ""


EXPECTED = "a file with tables [[attack]], or a folder of *.toml"


def read(place: Path) -> tuple[Attack, ...]:
    """The attacks of a file, or of every `*.toml` in a folder.

    A file has tables `[[attack]]` with the fields of `Attack`; the default family is the file's name. `begins` lists
    texts of the table `[pieces]` that precede the program; `{HOME}` in a program becomes the user's home, as a literal.
    Raises DataError: there are no attacks, or a file is invalid.
    """
    paths = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    attacks = tuple(attack for path in paths for attack in _of(path))
    if not attacks:
        raise DataError(place, "no attack", EXPECTED)
    return attacks


def _of(path: Path) -> Iterator[Attack]:
    try:
        text = content(path, EXPECTED).decode()
        file = msgspec.convert(tomllib.loads(text), _File)
        for fields in file.attack:
            begins = "".join(file.pieces[name] for name in msgspec.convert(fields.pop("begins", []), list[str]))
            attack = msgspec.convert({"family": path.stem.replace("_", " "), **fields}, Attack)
            yield msgspec.structs.replace(attack, program=begins + attack.program.replace("{HOME}", repr(HOME)))
    except KeyError as missing:
        raise DataError(f"{path}: {missing} is not in [pieces]") from missing
    except DataError:
        raise
    except ValueError as problem:  # invalid TOML, UTF-8 or field
        raise DataError(f"{path}: {problem}") from problem


class _File(Record, frozen=True):
    attack: tuple[dict[str, object], ...] = ()
    pieces: dict[str, str] = msgspec.field(default_factory=dict)


class Verdict(Record, frozen=True, kw_only=True):
    attack: Attack
    outcome: str
    """One of `OUTCOMES`: `pass` if any check passed; for state pollution, that of the probe."""
    right: bool
    detail: str = ""


def judge(sandbox: Sandbox, attack: Attack) -> Verdict:
    """Run an attack; one with a probe needs a sandbox with a single server. Raises nothing: an error is a verdict."""
    try:
        checks = sandbox.run(attack.program, "f", list(attack.checks), attack.setup).checks
        if attack.probe:
            checks = sandbox.run(attack.probe, "f", list(CHECKS)).checks
    except Exception as problem:  # no candidate may make the lab raise
        return Verdict(attack=attack, outcome="harness_error", right=False, detail=f"the lab raised {problem!r}"[:300])
    passed = [check for check in checks if check.outcome == "pass"]
    decisive = next(iter(passed), checks[0])
    right = decisive.outcome in attack.expected and all(map(sound, checks))
    if attack.in_process:
        right = bool(passed) and all(c.in_process if c in passed else c.outcome in attack.expected for c in checks)
    if decisive.outcome == "error" and attack.raises:
        right = right and decisive.error_type in attack.raises
    detail = f"{decisive.error_type}: {decisive.message}" if decisive.error_type else decisive.message
    return Verdict(attack=attack, outcome=decisive.outcome, right=right, detail=detail[:300])


def sound(check: Check) -> bool:
    """Whether a check is valid for a record, whatever the candidate wrote into it."""
    texts = (check.error_type, check.message, check.expected, check.actual)
    small = all(len(text) <= CAP for text in texts)
    return small and check.outcome in OUTCOMES and math.isfinite(check.seconds) and check.seconds >= 0


class Left(NamedTuple):
    orphans: tuple[int, ...]
    """Process ids; always empty without Linux's /proc."""
    files: tuple[Path, ...]


class Watch:
    """Snapshot of processes and files; create it before the sandbox.

    On Linux it makes this process the permanent subreaper of its descendants, so that lost processes of a sandbox
    remain descendants, whatever their session, name or environment.
    """

    def __init__(self) -> None:
        if sys.platform.startswith("linux"):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._processes = descendants(os.getpid())
        self._files = set(outside())

    def left(self, folders: Iterable[str]) -> Left:
        """Leftovers since the snapshot. `folders` are those of the servers of the sandbox, which must be closed."""
        orphans = descendants(os.getpid()) - self._processes
        files = [path for path in outside() if path not in self._files]
        return Left(
            orphans=tuple(sorted(process for process, _ in orphans)),
            files=tuple(files + [path for path in map(Path, folders) if path.exists()]),
        )


def outside() -> list[Path]:
    """Files of attacks in the folders where they try to create some."""
    places = {tempfile.gettempdir(), "/tmp", "/dev/shm", HOME, str(Path(os.__file__).parent)}
    return [path for place in sorted(places) for path in Path(place).glob(f"{PREFIX}*")]


def descendants(ancestor: int) -> set[tuple[int, str]]:
    """Processes below `ancestor`, including zombies, each with its start time."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, fields = (folder / "stat").read_text().rpartition(")")
        except OSError:  # the process has ended
            continue
        processes[int(folder.name)] = (int(fields.split()[1]), fields.split()[19])
    return {(process, start) for process, (_, start) in processes.items() if ancestor in ancestors(process, processes)}


def ancestors(process: int, processes: dict[int, tuple[int, str]]) -> list[int]:
    """Ancestors of a process, nearest first."""
    line: list[int] = []
    while (process := processes.get(process, (0, ""))[0]) and process not in line:
        line.append(process)
    return line
