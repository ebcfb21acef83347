"""What the third attempt of each preset reads, on HumanEval/1 with model=simulated, after a loop at HumanEval/0.

python docs/presets.py helix
python docs/presets.py --write   # tests/docs/preset_prompts.md
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import yaml

TESTS = Path(__file__).parents[1] / "tests"
PAGE = TESTS / "docs" / "preset_prompts.md"
PROMISES = yaml.safe_load((TESTS / "presets" / "prompts.yaml").read_text())
"""Preset -> promise -> text of its prompt."""
PRESETS = tuple(PROMISES)


def prompt(preset: str) -> str:
    """The actor's prompt at attempt 3 of a loop whose programs are all wrong, at the second task of a run."""
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.studies.run import carry_out

    with tempfile.TemporaryDirectory() as folder:
        carry_out(
            compose(
                f"preset={preset}", "model=simulated", "model.first=0", "model.repair=0", "benchmark=humaneval",
                "benchmark.limit=2", "loop.max_attempts=3", "memory.shared.round_size=1", "tracker=none", "quiet=true",
                f"run_root={folder}",
            )
        )  # fmt: skip
        (manifest,) = Path(folder).glob("*/manifest.json")
        _, _, third = RunFolder(manifest.parent).attempts["HumanEval/1"]
    return third.trajectory.messages[-1].content


def block(preset: str, text: str) -> str:
    rows = "".join(f"| {promise} | {words} |\n" for promise, words in PROMISES[preset].items())
    promises = f"| promised | in the prompt |\n|---|---|\n{rows}"
    return f"<!-- prompt {preset} -->\n{promises}\n~~~~text\n{text}\n~~~~\n<!-- /prompt -->\n"


MARKS = "<!-- prompt {} -->\n.*?(?:~~~~text\n(.*?)\n~~~~\n)?<!-- /prompt -->\n"


def printed(preset: str) -> str:
    """The prompt of `preset` that the page prints."""
    (text,) = re.findall(MARKS.format(preset), PAGE.read_text(), flags=re.DOTALL)
    return str(text)


if __name__ == "__main__":
    named = [word for word in sys.argv[1:] if word != "--write"] or PRESETS
    page = PAGE.read_text()
    for preset in named:
        text = prompt(preset)
        if "--write" not in sys.argv:
            print(text, end="\n\n")
        page = re.sub(MARKS.format(preset), lambda _: block(preset, text), page, flags=re.DOTALL)  # noqa: B023
    if "--write" in sys.argv:
        PAGE.write_text(page)
