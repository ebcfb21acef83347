"""The uptake of quoted solutions: prompts that hold them, and every published figure from `cases.csv` alone."""

from pathlib import Path

import pytest

from experiments._tools.output import write_csv
from experiments._tools.uptake import STYLES, Case, read, table
from reflexion_lab.records import Recollection
from tests import builders as make

FOLDER = Path(__file__).parents[3] / "experiments" / "uptake"
PROMPT = 'def turned(values):\n    """Return the values in reverse order."""\n'
PROMPTS = [(style, name) for style, prompts in STYLES.items() for name in prompts]


def case(task, passed, prompt="default", **fields):
    flags = {"quoted": passed, "repeated": False, "empty": False, "prompt_tokens": 10, "completion_tokens": 5}
    return Case(style="continuation", prompt=prompt, grammar=True, task=task, passed=passed, **flags | fields)


@pytest.mark.parametrize(("style", "name"), PROMPTS)
def test_each_prompt_holds_the_parts_in_its_name(style, name):
    words = make.reflection(root_cause="The order.", what_to_change="Turn:", quoted_code="a = values\nreturn a[::-1]")
    about = {"task_id": "t/1", "task_description": PROMPT, "test_results": "`turned([1, 2])` -> got [1, 2]"}
    episode = make.episode(**about, code=f"{PROMPT}    return wrong(values)\n", reflection=words)
    memory = Recollection(own=(episode,), attempt=2)
    template = "solve" if style == "chat" else "continue_solve"
    text = STYLES[style][name].render(template, prompt=PROMPT, task_id="t/1", memory=memory)
    assert text.count("def turned(values)") >= 1
    lines = [line.strip("# ") for line in text.splitlines()]
    assert lines[lines.index("a = values") + 1] == "return a[::-1]"
    is_bare = name.startswith(("words", "checks")) or (style, name) == ("continuation", "default")
    assert ("wrong(values)" in text) != is_bare
    assert ("got [1, 2]" in text) != name.startswith("words")


def test_a_table_goes_into_a_folder_that_is_not_there_yet(tmp_path):
    path = tmp_path / "results" / "table.csv"
    write_csv(path, table([case("1", passed=True)]))
    assert path.read_text().startswith("style,")


def test_every_prompt_has_published_cases():
    assert {(case.style, case.prompt) for case in read(FOLDER / "cases.csv")} == set(PROMPTS)
