"""What the third attempt of each preset reads, on HumanEval/0 with model=simulated.

python docs/presets.py helix
python docs/presets.py --write   # tests/docs/preset_prompts.md
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "tests" / "docs" / "preset_prompts.md"
PRESETS = ("helix", "bot", "openagents", "jido", "ralph")
INNER_LOOP = ("actor@actor.generator=single_shot", "reviser=llm")


def prompt(preset: str) -> str:
    """The actor's prompt at attempt 3 of a loop whose programs are all wrong."""
    from reflexion_lab.runner.config.compose import compose
    from reflexion_lab.runner.folder.folder import RunFolder
    from reflexion_lab.studies.run import carry_out

    with tempfile.TemporaryDirectory() as folder:
        carry_out(
            compose(
                f"preset={preset}", *(INNER_LOOP if preset == "jido" else ("actor=single_shot",)), "model=simulated",
                "model.first=0", "model.repair=0", "benchmark=humaneval", "benchmark.limit=1", "loop.max_attempts=3",
                "tracker=none", "quiet=true", f"run_root={folder}",
            )
        )  # fmt: skip
        (manifest,) = Path(folder).glob("*/manifest.json")
        ((_, _, third),) = RunFolder(manifest.parent).attempts.values()
    return third.trajectory.messages[-1].content


def block(preset: str) -> str:
    return f"<!-- prompt {preset} -->\n~~~~text\n{prompt(preset)}\n~~~~\n<!-- /prompt -->\n"


def updated(page: str) -> str:
    """`page` with the present prompt of each preset between its marks."""
    for preset in PRESETS:
        marks = f"<!-- prompt {preset} -->\n.*?<!-- /prompt -->\n"
        page = re.sub(marks, lambda _, preset=preset: block(preset), page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(updated(PAGE.read_text()))
    else:
        print("\n\n".join(map(prompt, sys.argv[1:] or PRESETS)))
