"""Hostile programs: what one is, the files that hold them, the verdict on one, and what a run of them leaves behind."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from reflexion_lab.errors import DataError
from reflexion_lab.io.files import content
from reflexion_lab.records import OUTCOMES, Check, Record

QUICK = Path(__file__).with_suffix(".toml")
"""At least one of each family, and none that takes long; all are in `tests/attacks` of the repository."""
CHECKS = ("assert f(1) == 2",)
CAP = 20_000
"""Characters of a check's field above which a candidate floods the lab's records."""
PLANTED = "REFLEXION_LAB_PLANTED_API_KEY"
"""An environment variable that whoever runs attacks sets in the lab's own process."""
PREFIX = "hostile-"
"""How the names of all files begin that attacks try to make outside."""
HOME = os.environ.get("HOME", "/root")
PR_SET_CHILD_SUBREAPER = 36


class Attack(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hostile program.

    Harmless where a layer is missing: sizes and counts are bounded, signals go to its own processes alone, and what it
    writes outside it removes again.
    """

    name: str
    program: str
    tries: str
    """What it attempts, in a few words."""
    expected: tuple[str, ...]
    """The outcomes it may get."""
    raises: tuple[str, ...] = ()
    """Where `error` is expected: the exceptions that count, so that no slip of the program looks like a wall; any if
    empty."""
    checks: tuple[str, ...] = CHECKS
    """What it is judged by; not one of them may pass."""
    setup: str = ""
    mode: str = "apart"
    """How its checks are judged: `apart`, or `in_place` in the candidate's own process, where forging is possible."""
    needs: tuple[str, ...] = ()
    """Layers that stop it; where one is missing, it may get through."""
    probe: str = ""
    """Of state pollution: the program run next in the same server, which must see a clean world and pass."""
    family: str = ""


EXPECTED = "a file with tables [[attack]], or a folder of *.toml"


def read(place: Path) -> tuple[Attack, ...]:
    """The attacks of a file, or of every `*.toml` in a folder.

    A file holds tables `[[attack]]` with the fields of `Attack`. The file's name is the family of those that name none.
    A program that `begins` with texts of the table `[pieces]` has them before its own; `{HOME}` in it is the user's
    home, as a literal.

    Raises
    ------
    DataError
        There is none, or a file holds something else.
    """
    paths = sorted(place.glob("*.toml")) if place.is_dir() else [place]
    attacks = tuple(attack for path in paths for attack in _of(path))
    if not attacks:
        raise DataError(place, "no attack", EXPECTED)
    return attacks


def _of(path: Path) -> Iterator[Attack]:
    try:
        text = content(path, EXPECTED).decode()
        sheet = msgspec.convert(tomllib.loads(text), _Sheet)
        for fields in sheet.attack:
            begins = "".join(sheet.pieces[name] for name in msgspec.convert(fields.pop("begins", []), list[str]))
            attack = msgspec.convert({"family": path.stem.replace("_", " "), **fields}, Attack)
            yield msgspec.structs.replace(attack, program=begins + attack.program.replace("{HOME}", repr(HOME)))
    except KeyError as missing:
        raise DataError(f"{path}: {missing} is not in [pieces]") from missing
    except DataError:
        raise
    except ValueError as problem:  # also what is no TOML, no UTF-8, and no field of an attack
        raise DataError(f"{path}: {problem}") from problem


class _Sheet(Record, frozen=True):
    """A file."""

    attack: tuple[dict[str, object], ...] = ()
    pieces: dict[str, str] = msgspec.field(default_factory=dict)


class Verdict(Record, frozen=True, kw_only=True):
    """What an attack got."""

    attack: Attack
    outcome: str
    """One of `OUTCOMES`; `pass` if a single check passed; of state pollution, the probe's."""
    right: bool
    detail: str = ""
    mode: str = ""


class Checked(Protocol):
    """What came of one program."""

    @property
    def checks(self) -> tuple[Check, ...]: ...


class Runs(Protocol):
    """The sandbox, as far as an attack knows it."""

    def run(self, program: str, entry_point: str, checks: Sequence[str], setup: str = "") -> Checked: ...


def judge(sandbox: Runs, attack: Attack) -> Verdict:
    """Run the attack; a probe needs a sandbox of a single server. Nothing is raised: a broken lab is a verdict."""
    try:
        checks = sandbox.run(attack.program, "f", list(attack.checks), attack.setup).checks
        if attack.probe:
            checks = sandbox.run(attack.probe, "f", list(CHECKS)).checks
    except Exception as problem:  # whatever a candidate makes the lab raise is what we look for
        return Verdict(attack=attack, outcome="harness_error", right=False, detail=f"the lab raised {problem!r}"[:300])
    decisive = next((check for check in checks if check.outcome == "pass"), checks[0])
    right = decisive.outcome in attack.expected and all(map(sound, checks))
    if decisive.outcome == "error" and attack.raises:
        right = right and decisive.error_type in attack.raises
    detail = f"{decisive.error_type}: {decisive.message}" if decisive.error_type else decisive.message
    return Verdict(attack=attack, outcome=decisive.outcome, right=right, detail=detail[:300], mode=decisive.mode)


def sound(check: Check) -> bool:
    """Whether a check is what a record may hold, whatever its candidate wrote into it."""
    texts = (check.error_type, check.message, check.expected, check.actual)
    small = all(len(text) <= CAP for text in texts)
    return small and check.outcome in OUTCOMES and math.isfinite(check.seconds) and check.seconds >= 0


class Left(NamedTuple):
    """What was found after a run, and not before it."""

    orphans: tuple[int, ...]
    """Processes. Without Linux's /proc none can be seen."""
    files: tuple[Path, ...]


class Watch:
    """Looks at the machine when it is made; make it before the sandbox.

    On Linux the process that makes it becomes, for good, the one to which orphans among its descendants fall: whatever
    a sandbox started and lost stays among them, under whatever session, name or environment.
    """

    def __init__(self) -> None:
        if sys.platform.startswith("linux"):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._processes = descendants(os.getpid())
        self._files = set(outside())

    def left(self, folders: Iterable[str]) -> Left:
        """What is there now. `folders` are those of the sandbox's servers, which it has been closed to remove."""
        orphans = descendants(os.getpid()) - self._processes
        files = [path for path in outside() if path not in self._files]
        return Left(
            orphans=tuple(sorted(process for process, _ in orphans)),
            files=tuple(files + [path for path in map(Path, folders) if path.exists()]),
        )


def outside() -> list[Path]:
    """Files of attacks in the places where they try to make some."""
    places = {tempfile.gettempdir(), "/tmp", "/dev/shm", HOME, str(Path(os.__file__).parent)}
    return [path for place in sorted(places) for path in Path(place).glob(f"{PREFIX}*")]


def descendants(ancestor: int) -> set[tuple[int, str]]:
    """Living and dead processes below `ancestor`, each with the time at which it started."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, fields = (folder / "stat").read_text().rpartition(")")
        except OSError:  # gone while we looked
            continue
        processes[int(folder.name)] = (int(fields.split()[1]), fields.split()[19])
    return {(process, start) for process, (_, start) in processes.items() if ancestor in line(process, processes)}


def line(process: int, processes: dict[int, tuple[int, str]]) -> list[int]:
    """The ancestors of a process, nearest first."""
    ancestors: list[int] = []
    while (process := processes.get(process, (0, ""))[0]) and process not in ancestors:
        ancestors.append(process)
    return ancestors
