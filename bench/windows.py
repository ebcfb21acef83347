"""How much of a window of Ω = 3 the fourth attempt reads, by the model's context.

    python bench/windows.py [--tasks 164] [--contexts 2048 8192 128000] [--actor single_shot]

Every loop runs to attempt 4 with a model of known skill that is never right (`model=simulated`): its wrong drafts are
the canonical programs with six lines more. Its prompts are counted, and refused, by SmolLM2's tokenizer.
One row a context: of all episodes in the windows, those that stand in the prompt as long as its template ever shows
them, those that are shortened, and those that are left out.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.records import Attempt, Completion, Episode, Message, Sampling, Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from reflexion_lab.text.prompts.render import program

OMEGA, NUMBER = 3, 4


class CountedModel(SimulatedModel):
    """`model=simulated` with SmolLM2's tokenizer."""

    def complete(self, messages: Sequence[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        completion = super().complete(messages, sampling=sampling, sample=sample)
        tokens = count(tuple(messages))
        if tokens + sampling.max_tokens > self.context:
            usage = Usage(calls=1, refused=1)
            return replace(completion, text="", finish_reason="context_overflow", refused_tokens=tokens, usage=usage)
        return replace(completion, usage=replace(completion.usage, prompt_tokens=tokens))


@functools.cache
def tokenizer() -> LlamaCppModel:
    return LlamaCppModel(slots=1, threads=1, context=256)


@functools.cache
def count(messages: tuple[Message, ...]) -> int:
    completion = tokenizer().complete(messages, sampling=Sampling(max_tokens=1))
    return max(completion.usage.prompt_tokens, completion.refused_tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=164)
    parser.add_argument("--contexts", type=int, nargs="+", default=[2048, 8192, 128000])
    parser.add_argument("overrides", nargs="*", help="of the run, such as recall.max_tokens=600 prompts=terse")
    options = parser.parse_args()
    print("| context | retries | blind | episodes | whole | shortened | left out |")
    print("|---|---|---|---|---|---|---|")
    for context in options.contexts:
        with tempfile.TemporaryDirectory() as folder:
            print(row(context, run(folder, options.tasks, context, options.overrides)))


def run(folder: str, tasks: int, context: int, overrides: list[str]) -> dict[str, list[Attempt]]:
    """The attempts of every loop, by task."""
    carry_out(
        compose(
            "experiment=reflexion", "benchmark=humaneval", f"benchmark.sample={tasks}", "model=simulated",
            "actor=single_shot", f"model.context={context}", "model.first=0", "model.repair=0", "model.damage=1",
            "model._target_=windows.CountedModel",
            f"loop.max_attempts={NUMBER}", "loop.stuck_after=null", f"recall.omega={OMEGA}", "tracker=none",
            "quiet=true", f"run_root={folder}", *overrides,
        )
    )  # fmt: skip
    (manifest,) = Path(folder).glob("*/manifest.json")
    return RunFolder(manifest.parent).attempts


def row(context: int, loops: dict[str, list[Attempt]]) -> str:
    retries = [attempt for attempts in loops.values() for attempt in attempts[1:]]
    blind = sum(attempt.memory.is_blind for attempt in retries)
    counts = Counter(state for attempts in loops.values() if len(attempts) == NUMBER for state in states(attempts))
    n = counts.total()
    cells = (f"{counts[name]} ({100 * counts[name] / n:.1f} %)" for name in ("whole", "shortened", "left out"))
    return f"| {context:,} | {len(retries)} | {blind} | {n} | {' | '.join(cells)} |"


def states(attempts: list[Attempt]) -> list[str]:
    """What became of each episode of the last attempt's window."""
    last, earlier = attempts[-1], attempts[-1 - OMEGA : -1]
    prompt = last.trajectory.messages[-1].content
    numbers = {int(name.rpartition("-")[2]) for name in last.recalled}
    return [
        "left out" if attempt.number not in numbers else "whole" if is_whole(attempt, prompt) else "shortened"
        for attempt in earlier
    ]


def is_whole(attempt: Attempt, prompt: str) -> bool:
    """Whether the prompt has its program, as long as a template shows one, its feedback and its reflection."""
    fields = {"agent_id": "", "task_id": attempt.task_id, "attempt_number": attempt.number, "passed": False}
    texts = {"code": attempt.trajectory.solution, "test_results": attempt.evaluation.feedback}
    episode = Episode(**fields, **texts, reflection=attempt.reflection, task_description=prompt)
    words = [attempt.evaluation.feedback[:300], *(text[:100] for _, text in episode.statements)]
    return all(text.strip() in prompt for text in (program(episode, 1500), *words))


if __name__ == "__main__":
    main()
