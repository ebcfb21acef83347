"""The manifest of a recorded run: what is known of it, under the names that our own runs have."""

from __future__ import annotations

import time
from typing import NamedTuple

import msgspec

from reflexion_lab.audit.import_attempts import Prompts
from reflexion_lab.audit.importing import Recording
from reflexion_lab.audit.stored_programs import LIMITS
from reflexion_lab.protocols import Sandbox
from reflexion_lab.records import Manifest
from reflexion_lab.runner.folder.manifest import config_digest, git_state, named, provenance, versions
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark
from reflexion_lab.tasks.sandbox.cached import VERSION


class Terms(NamedTuple):
    """How recordings are executed."""

    benchmark: Benchmark
    load: dict[str, object]
    """The config that loads the benchmark."""
    hidden: str
    """Whose hidden tests: `own`, those of the rows, or `humaneval`."""
    lenient: bool
    """The judge runs programs behind the usual imports and their prompts, and loops as theirs did."""
    prompts: Prompts
    cut: int | None = None
    """Attempts kept of each loop, from the first; None for all."""

    def verdict(self, recording: Recording) -> str:
        """The field of an attempt that holds the recorded verdict of the same hidden tests."""
        is_own = self.hidden == "own" or not recording.has_tests
        return f"{'own' if is_own else 'he'}_{'lenient' if self.lenient else 'pass'}"


def describe(recording: Recording, terms: Terms, longest: int, executor: Sandbox) -> Manifest:
    """What is known of the run; the commit and the versions are those that executed it."""
    config = _config(recording, terms, longest)
    commit, dirty = git_state()
    taken = sum(loop.task_id in {task.task_id for task in terms.benchmark} for loop in recording.loops)
    return Manifest(
        run_id=_name(recording, terms),
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        seed=recording.seed,
        config=config,
        config_digest=config_digest(config),
        git_commit=commit,
        dirty=dirty,
        package_versions=versions(),
        benchmark=terms.benchmark.name,
        benchmark_digest=terms.benchmark.digest,
        n_expected=taken,
        prompt_digests={},
        model_fingerprint=_fingerprint(recording),
        slots=0,
        feedback_source=recording.known.feedback_source,
        isolation=tuple(executor.layers),
        provenance=provenance(config, sandbox_version=VERSION),
    )


def _fingerprint(recording: Recording) -> str:
    """`recorded:<source>/<model>`; what the source says in brackets of its parts is no other model."""
    return f"recorded:{recording.source.partition(' (')[0]}/{'+'.join(recording.models)}"


def _not_recorded(recording: Recording, terms: Terms) -> list[str]:
    steps = [step for loop in recording.loops for step in loop.steps]
    has = {name for step in steps for name, value in step.fields.items() if value is not None}
    missing = {
        "sampling seed": True,
        "slots": True,
        "what memory recalled": recording.known.feedback_source != "none",
        "prompts": "prompt_key" not in has or not terms.prompts,
        "replies": "raw" not in has,
        "temperature": "temperature" not in has,
        "tokens of the actor": "prompt_tokens" not in has,
        "seconds of the actor": "latency_s" not in has,
        "tokens of reflections": "reflection" in has,
        "calls and tokens of written tests": recording.known.feedback_source == "self_tests",
        "calls": not recording.known.calls,
    }
    return [name for name, is_missing in missing.items() if is_missing]


def _config(recording: Recording, terms: Terms, longest: int) -> dict[str, object]:
    known = recording.known
    return {
        "arm": known.arm,
        "seed": recording.seed,
        "feedback_source": known.feedback_source,
        "loop": {"max_attempts": longest},
        "benchmark": {"name": terms.benchmark.name, "load": terms.load, "ids": None, "sample": None, "limit": None},
        "sandbox": {"limits": msgspec.to_builtins(LIMITS)},
        "recorded": {
            "source": recording.source,
            "file": recording.file,
            "file_digest": recording.file_digest,
            "variant": recording.variant,
            "strategy": recording.strategy,
            "models": list(recording.models),
            "hidden_tests": terms.hidden,
            "lenient": terms.lenient,
            "cut": terms.cut,
            "not_recorded": _not_recorded(recording, terms),
        },
    }


def _name(recording: Recording, terms: Terms) -> str:
    how = ("" if terms.lenient else "-strict") + (f"-a{terms.cut}" if terms.cut else "")
    return f"recorded-{recording.known.arm}-{recording.label}-{named(terms.benchmark.name)}{how}-s{recording.seed}"
