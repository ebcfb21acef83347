"""`python -m experiments._tools.uptake RUN`: share of retries that reuse a quoted solution, by retry prompt.

The run has one attempt per task and, by `reflector=quoted`, its canonical solution as the reflection. Each prompt gets
the same failed attempts, once each with greedy decoding; nothing else differs.
"""

from __future__ import annotations

import argparse
import csv
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from experiments._tools import output
from reflexion_lab.errors import ConfigError
from reflexion_lab.text.prompts.render import FILTERS, Prompts

if TYPE_CHECKING:
    from reflexion_lab.protocols import Actor, Model, Sandbox
    from reflexion_lab.records import Attempt, Task

STOP = ("\ndef ", "\nclass ", "\nif __name__", "\nprint", "\nassert", "\n#", "```")
TOKENS = 256
"""Maximum length of a reply; the canonical solutions of `basics` have fewer than 200 tokens."""
WORDS = """
{% for label, text in episode.statements %}
{{ label }}: {{ text | line(300) }}
{% endfor %}
{{ episode.quoted_code | indent(4, first=True) }}
"""
PROGRAM = "My attempt at the function below:\n{{ episode | program(900) }}\n"
CHECKS = "{{ episode.test_results | cut(500) }}"
CORRECTED = "\nA corrected version:\n"
REQUEST = "Complete this Python function. Reply with the whole function in one code block, and nothing else.\n\n"


class Candidate(Prompts):
    """A retry prompt outside the package: the rendered template `past`, combined with the task's prompt by `place`."""

    def __init__(self, past: str, place: Callable[[str, str], str]) -> None:
        super().__init__()
        self.past = past
        self.place = place

    def render(self, name: str, **variables: Any) -> str:
        from jinja2 import Environment

        environment = Environment(trim_blocks=True, lstrip_blocks=True)  # plain text for a model
        environment.filters |= FILTERS
        episodes = variables["memory"].episodes
        rendered = environment.from_string(self.past).render(episode=episodes[-1]) if episodes else ""
        past = "\n".join(line for line in rendered.splitlines() if line.strip())
        return self.place(variables["prompt"].rstrip(), past)


def above(prompt: str, past: str) -> str:
    return f"{comments(past)}\n\n{prompt}"


def in_body(prompt: str, past: str) -> str:
    return f"{prompt}\n{textwrap.indent(comments(past), margin(prompt))}"


def in_docstring(prompt: str, past: str) -> str:
    return f"{prompt[:-3].rstrip()}\n\n{textwrap.indent(past, margin(prompt))}\n{margin(prompt)}{prompt[-3:]}"


def retry_prompt(prompt: str, past: str) -> str:
    return f"{REQUEST}```python\n{prompt.strip()}\n```\n\n{past}\n\nWrite a different, corrected function."


def comments(text: str) -> str:
    return "\n".join(f"# {line}".rstrip() for line in text.splitlines())


def margin(prompt: str) -> str:
    last = prompt.splitlines()[-1]
    return last[: len(last) - len(last.lstrip())]


CONTINUATION: dict[str, Prompts] = {
    "default": Prompts(),
    "terse": Prompts("terse"),
    "paper_style": Prompts("paper_style"),
    "program, checks, words above": Candidate(PROGRAM + CHECKS + WORDS + CORRECTED, above),
    "checks, words above": Candidate(CHECKS + WORDS + CORRECTED, above),
    "words above": Candidate(WORDS + CORRECTED, above),
    "checks, words in the body": Candidate(CHECKS + WORDS, in_body),
    "words in the body": Candidate(WORDS, in_body),
    "program, checks, words in the docstring": Candidate(PROGRAM + CHECKS + WORDS, in_docstring),
    "words in the docstring": Candidate(WORDS, in_docstring),
}
FENCED = WORDS.replace("{{ episode.quoted_code | indent(4, first=True) }}", "{{ episode.quoted_code | fenced }}")
CHAT: dict[str, Prompts] = {
    "default": Prompts(),
    "terse": Prompts("terse"),
    "paper_style": Prompts("paper_style"),
    "checks, words": Candidate("Earlier attempts failed:\n" + CHECKS + FENCED, retry_prompt),
    "words": Candidate(FENCED, retry_prompt),
}
STYLES = {"continuation": CONTINUATION, "chat": CHAT}


@dataclass(frozen=True)
class Case:
    """One retry."""

    style: str
    prompt: str
    grammar: bool
    task: str
    passed: bool
    quoted: bool
    """The reply contains the quoted body, ignoring white space."""
    repeated: bool
    """The program equals that of the failed attempt, ignoring white space."""
    empty: bool
    prompt_tokens: int
    completion_tokens: int


def main(argv: Sequence[str] | None = None) -> int:
    return output.run(parser(), uptake, argv)


def parser() -> argparse.ArgumentParser:
    top = output.script_parser("uptake", "share of retries that reuse a quoted solution, by retry prompt")
    top.add_argument("run", metavar="RUN", type=Path, help="folder of a run with experiment=quoted")
    top.add_argument("--style", choices=STYLES, nargs="+", default=list(STYLES), help="(default: both)")
    top.add_argument("--prompt", metavar="NAME", nargs="+", help="only these (default: all)")
    top.add_argument("--out", metavar="DIR", type=Path, help="write cases.csv and table.csv there")
    return top


def uptake(options: argparse.Namespace) -> int:
    from rich.console import Console

    from reflexion_lab.agent.models.llama_cpp import LlamaCppModel
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.runner.solutions import benchmark_of
    from reflexion_lab.tasks.sandbox import sandbox as sandboxes

    log = Log.read(RunFolder.existing(options.run))
    tasks = {task.task_id: task for task in benchmark_of(options.run, log.manifest)}
    failed = [attempts[0] for attempts in log.attempts.values() if attempts[0].reflection]
    if not log.manifest.shows_solutions or not failed:
        raise ConfigError(options.run, f"{log.arm} with {len(failed)} failures", "experiment=quoted, with one or more")
    model, cases = LlamaCppModel(), []
    with closing(sandboxes.Sandbox()) as sandbox:
        for style, name, grammar in variants(options.style):
            if options.prompt and name not in options.prompt:
                continue
            work = partial(retry, tasks, actor_of(style, model, STYLES[style][name], grammar), sandbox)
            with ThreadPoolExecutor(model.slots) as pool:
                cases += [Case(style, name, grammar, **fields) for fields in pool.map(work, failed)]
            passed = sum(case.passed for case in cases[-len(failed) :])
            print(f"{style}, {name}: {passed} of {len(failed)} passed", file=sys.stderr)
            if options.out:  # after each prompt, to keep finished results
                output.write_csv(options.out / "cases.csv", [asdict(case) for case in cases])
    rows = table(cases)
    output.show_sheet(sheet(rows), Console())
    if options.out:
        output.write_csv(options.out / "table.csv", rows)
    return 0


def variants(styles: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Style, prompt, and whether a grammar forces replies to begin inside the function; the default also without."""
    for style in styles:
        for name in STYLES[style]:
            yield style, name, style == "continuation"
            if (style, name) == ("continuation", "default"):
                yield style, name, False


def actor_of(style: str, model: Model, prompts: Prompts, grammar: bool) -> Actor:
    from reflexion_lab.agent.actors.continuation import BODY, Continuation
    from reflexion_lab.agent.actors.single_shot import SingleShot
    from reflexion_lab.records import Sampling

    if style == "chat":
        return SingleShot(model, Sampling.of(temperature=0.0, max_tokens=TOKENS, seed=0), prompts)
    sampling = Sampling.of(temperature=0.0, max_tokens=TOKENS, seed=0, stop=STOP, grammar=BODY if grammar else "")
    return Continuation(model, sampling, prompts)


def retry(tasks: Mapping[str, Task], actor: Actor, sandbox: Sandbox, attempt: Attempt) -> dict[str, Any]:
    """A second attempt with the first one in memory, judged by the hidden tests."""
    from reflexion_lab.memory.episodic import episode_of
    from reflexion_lab.records import Recollection
    from reflexion_lab.tasks.evaluators.unit_tests import run_tests

    task = tasks[attempt.task_id]
    memory = Recollection(own=(episode_of(task.public, attempt, "uptake", "uptake"),), attempt=2)
    trajectory = actor.act(task.public, memory)
    program, quoted = trajectory.solution, attempt.reflection.quoted_code if attempt.reflection else ""
    return {
        "task": task.task_id,
        "passed": bool(program.strip()) and run_tests(sandbox, task, program, task.hidden_tests).passed,
        "quoted": squeezed(quoted) in squeezed(program),
        "repeated": squeezed(program) == squeezed(attempt.trajectory.solution),
        "empty": not program.strip(),
        "prompt_tokens": trajectory.usage.prompt_tokens,
        "completion_tokens": trajectory.usage.completion_tokens,
    }


def squeezed(text: str) -> str:
    return "".join(text.split())


def table(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """One row per prompt: uptake with its Wilson interval, and the paired difference to the style's default."""
    from reflexion_lab.analysis.stats.intervals import Rate, mcnemar

    groups: dict[tuple[str, str, bool], dict[str, Case]] = {}
    for case in cases:
        groups.setdefault((case.style, case.prompt, case.grammar), {})[case.task] = case
    rows = []
    for (style, prompt, grammar), by_task in groups.items():
        base = groups.get((style, "default", style != "chat"), by_task)
        passed = Rate.of(sum(case.passed for case in by_task.values()), len(by_task))
        won = sum(case.passed and not base[task].passed for task, case in by_task.items())
        lost = sum(base[task].passed and not case.passed for task, case in by_task.items())
        rows.append(
            {
                "style": style,
                "prompt": prompt,
                "grammar": grammar,
                "n": passed.n,
                "passed": passed.k,
                "uptake": round(passed.share, 4),
                "low": round(passed.low, 4),
                "high": round(passed.high, 4),
                "quoted": sum(case.quoted for case in by_task.values()),
                "repeated": sum(case.repeated for case in by_task.values()),
                "empty": sum(case.empty for case in by_task.values()),
                "won": won,
                "lost": lost,
                "p_mcnemar": float(f"{mcnemar(won, lost):.3g}"),
                "prompt_tokens": round(sum(case.prompt_tokens for case in by_task.values()) / len(by_task), 1),
            }
        )
    return rows


def sheet(rows: Sequence[dict[str, Any]]) -> Any:
    from reflexion_lab.analysis.report.cells import p_value
    from reflexion_lab.analysis.report.sheets import Sheet

    columns = ("style", "prompt", "grammar", "uptake,\n% [95 %]", "quoted", "repeated", "empty", "won :\nlost", "p")
    lines = tuple(
        (
            row["style"],
            row["prompt"],
            "yes" if row["grammar"] else "no",
            f"{100 * row['uptake']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]",
            *(str(row[key]) for key in ("quoted", "repeated", "empty")),
            f"{row['won']} : {row['lost']}",
            p_value(row["p_mcnemar"]),
        )
        for row in rows
    )
    caption = (
        f"n = {rows[0]['n']} retries per prompt. Won : lost against the style's default; exact McNemar, not corrected."
    )
    return Sheet(title="Uptake of quoted solutions", columns=columns, rows=lines, caption=caption, names=3)


def read(path: Path) -> list[Case]:
    """The cases in `cases.csv`, from which `table` computes all numbers."""
    with path.open(newline="") as file:
        return [msgspec.convert(row, Case, strict=False) for row in csv.DictReader(file)]


if __name__ == "__main__":
    raise SystemExit(main())
