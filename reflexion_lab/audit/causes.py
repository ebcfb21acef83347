"""Why a log and a clean namespace disagree, found by executing variants of the program.

Programs are read with patterns, never parsed: a name that a pattern missed costs an explanation, no verdict.
"""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reflexion_lab.audit.samples import IMPORTS, Sample

if TYPE_CHECKING:
    from reflexion_lab.audit.audit import Verdict

BINDING = re.compile(r"^(?:(?:async )?def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
IMPORTING = re.compile(r"^(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+(.+)", re.MULTILINE)
MISSING_NAME = re.compile(r"name '(\w+)' is not defined")

REPLAY = """for _source in {sources!r}:
    try:
        exec(_source, globals())
    except BaseException:
        pass
"""
"""Earlier programs, executed where the next one will be, as a harness with one namespace does."""


class Causes:
    """Explains verdicts that differ from the log. `run` executes a sample."""

    def __init__(self, samples: Sequence[Sample], run: Callable[[Sample], Verdict]) -> None:
        self.samples = samples
        self.run = run
        self._place = {sample.id: place for place, sample in enumerate(samples)}

    def tell(self, verdict: Verdict) -> Verdict:
        """The same verdict with its cause."""
        return self._passes_alone(verdict) if verdict.passed else self._fails_alone(verdict)

    def _passes_alone(self, verdict: Verdict) -> Verdict:
        """Logged as failed, and passes: does it fail once earlier programs have replaced builtins that it uses?"""
        sample = verdict.sample
        if not sample.program.strip():
            return verdict
        culprits = self._binders(sample, _words(sample.program) & set(dir(builtins)))
        if culprits and not (shared := self.run(_after(culprits.values(), sample))).passed:
            whose, source = _said(culprits), next(iter(culprits.values())).id
            cause = f"fails once {whose} shares the namespace ({shared.detail})"
            return replace(verdict, cause=f"passes alone; {cause}", leaked_from=source)
        return replace(verdict, cause="passes alone; nothing in this log says why it was logged as failed")

    def _fails_alone(self, verdict: Verdict) -> Verdict:
        """Logged as passed, and fails: does it pass with imports, its prompt, or what earlier programs left behind?"""
        sample = verdict.sample
        if not sample.program.strip():
            return replace(verdict, cause="logged as solved, and no program is stored")
        if verdict.outcome == "no_tests":
            return replace(verdict, cause="there is no test to hold it against")
        if not (missing := MISSING_NAME.search(verdict.detail)):
            return verdict
        helps = []
        if self.run(replace(sample, program=IMPORTS + sample.program)).passed:
            helps.append("passes with the usual imports")
        if sample.prompt not in sample.program and self._with_prompt(sample).passed:
            helps.append("passes behind its prompt")
        culprits = self._binders(sample, _words(sample.program) | {sample.entry_point})
        source = culprits.get(missing[1])
        if source and self.run(_after(culprits.values(), sample)).passed:
            helps.append(f"passes once {_said({missing[1]: source})} shares the namespace")
            return replace(verdict, cause="; ".join(helps), leaked_from=source.id)
        return replace(verdict, cause="; ".join(helps))

    def _with_prompt(self, sample: Sample) -> Verdict:
        return self.run(replace(sample, program=f"{sample.prompt}\n{sample.program}"))

    def _binders(self, sample: Sample, names: Iterable[str]) -> dict[str, Sample]:
        """By name, the last earlier sample of the same run that binds it, where the sample itself does not."""
        wanted = set(names) - _bound(sample.program)
        binders: dict[str, Sample] = {}
        for other in self.samples[: self._place[sample.id]]:
            if other.run == sample.run:
                binders |= dict.fromkeys(_bound(other.program) & wanted, other)
        return dict(sorted(binders.items(), key=lambda pair: self._place[pair[1].id]))


def _after(earlier: Iterable[Sample], sample: Sample) -> Sample:
    sources = list(dict.fromkeys(other.program for other in earlier))
    return replace(sample, program=REPLAY.format(sources=[*sources, sample.program]))


def _said(culprits: dict[str, Sample]) -> str:
    return " and ".join(f"`{name}` of {sample.id}" for name, sample in sorted(culprits.items()))


def _words(program: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", program))


@functools.lru_cache(maxsize=4096)
def _bound(program: str) -> frozenset[str]:
    """Names that a program binds at its top level."""
    names = {name for pair in BINDING.findall(program) for name in pair if name}
    for listed in IMPORTING.findall(program):
        for part in re.sub(r"[()\\]|#.*", " ", listed).split(","):
            if words := part.split():
                names.add(words[-1].split(".")[0])
    return frozenset(names)
