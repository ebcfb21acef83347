"""How many recorded prompts read differently today: loops of a bundle run again on their recorded replies.

    python -m experiments._tools.prompts [BUNDLE.zip ...]    # by default all beside the experiments

A prompt that is recorded word for word gets its recorded reply. Any other gets the reply to the recorded prompt that
shares most lines with it, so that every loop takes its recorded course.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec

from experiments._tools.output import run, script_parser, show_sheet
from reflexion_lab.agent.models.cache import call_key
from reflexion_lab.analysis.report.sheets import Sheet
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.io.files import Scratch
from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay import bundle
from reflexion_lab.studies.replay.replay import config_of, supplies

FOLDER = Path(__file__).parents[1]
TARGET = "experiments._tools.prompts.Nearest"


class Nearest:
    """The reply to the nearest recorded prompt; an unlike prompt uses each recorded call once."""

    differing: ClassVar[list[bool]] = []
    """Of every prompt, whether it reads differently."""

    def __init__(self, path: str, fingerprint: str, slots: int, context: int) -> None:
        self.fingerprint, self.slots, self.context = fingerprint, slots, context
        calls = (msgspec.json.decode(line, type=bundle.Call) for line in Path(path).read_bytes().splitlines())
        self._calls = {call.key: Recorded.of(call) for call in calls if call.fingerprint == fingerprint}
        self._unused = set(self._calls)

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        key, lines = call_key(self.fingerprint, messages, sampling, sample), _lines(messages)
        is_recorded = key in self._calls
        self.differing.append(not is_recorded)
        if not is_recorded:
            candidates = sorted(name for name in self._unused if self._calls[name].sampling == sampling)
            key = max(candidates, key=lambda name: _shared(self._calls[name].lines, lines))
        self._unused.discard(key)
        return self._calls[key].reply


class Recorded(NamedTuple):
    lines: frozenset[str]
    sampling: Sampling
    reply: Completion

    @classmethod
    def of(cls, call: bundle.Call) -> Recorded:
        request = msgspec.json.decode(call.request)
        messages = msgspec.convert(request["messages"], list[Message])
        sampling = msgspec.convert(request["sampling"], Sampling)
        return cls(_lines(messages), sampling, msgspec.json.decode(call.completion, type=Completion))


def _lines(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(line for message in messages for line in message.content.splitlines())


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / (len(first | second) or 1)


def differing(path: Path) -> list[bool]:
    """Of every prompt of the bundle's run, whether it reads differently today.

    Raises ValueError: the loops did not take their recorded course.
    """
    about, members = bundle.read(path)
    Nearest.differing.clear()
    with Scratch() as scratch:
        unpacked = scratch.path / "bundle"
        bundle.unpack(members, unpacked)
        recorded = Log.read(RunFolder.existing(unpacked))
        config = config_of(recorded.manifest, supplies(about, unpacked), scratch.path, scratch.path)
        for node in (config["model"], *config["roles"].values()):
            node |= {"_target_": TARGET, "path": str(unpacked / "calls.jsonl")}
        with closing(assemble(config | {"study": None, "workers": 1})) as lab:
            lab.runner.run()
            again = Log.read(lab.folder)
    before, after = ({case: grade.passed for case, grade in log.grades.items()} for log in (recorded, again))
    if before != after:
        raise ValueError(f"{path.name}: loops took another course than recorded")
    return list(Nearest.differing)


def sheet(paths: Sequence[Path]) -> Sheet:
    """Prompts of each bundle and how many of them read differently."""
    prompts = {path: differing(path) for path in paths}
    columns: dict[str, Callable[[Path], str]] = {
        "experiment": lambda path: path.parent.name,
        "arm": lambda path: path.name.removesuffix(".bundle.zip"),
        "prompts": lambda path: str(len(prompts[path])),
        "read differently": lambda path: str(sum(prompts[path])),
    }
    return Sheet.of("Recorded prompts that read differently today", paths, columns, names=2)


def main(argv: Sequence[str] | None = None) -> int:
    from rich.console import Console

    parser = script_parser("prompts", "recorded prompts that read differently today")
    parser.add_argument("bundles", metavar="BUNDLE", nargs="*", help="by default all beside the experiments")

    def study(options: argparse.Namespace) -> int:
        paths = [Path(name) for name in options.bundles] or sorted(FOLDER.glob("*/*.bundle.zip"))
        show_sheet(sheet(paths), Console())
        return 0

    return run(parser, study, argv)


if __name__ == "__main__":
    from experiments._tools import prompts  # the module that configs name

    sys.exit(prompts.main())
