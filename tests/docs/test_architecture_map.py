"""The architecture page shows the packages, their imports and the files of one attempt as they are."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("architecture_map", ROOT / "docs" / "architecture_map.py")
assert SPEC and SPEC.loader
architecture_map = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(architecture_map)


PAGE = architecture_map.PAGE.read_text()


def test_readme_and_page_have_the_map_the_table_and_the_drawing_of_the_code():
    assert architecture_map.outline() in architecture_map.README.read_text(), (
        "run python docs/architecture_map.py --write"
    )
    assert architecture_map.table() in PAGE, "run python docs/architecture_map.py --write"
    drawn = architecture_map.DRAWING.read_text()
    assert architecture_map.drawing() == drawn, "run python docs/architecture_map.py --write"


def test_the_drawing_implies_every_import_and_no_other():
    arrows = {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d"), ("c", "d")}
    assert architecture_map.reduced(arrows) == {("a", "b"), ("b", "c"), ("c", "d")}
    assert architecture_map.rows("abcd", {("a", "b"), ("b", "c"), ("a", "d"), ("c", "d")}) == [
        ["a"], ["b", "a>d"], ["c", "a>d"], ["d"],
    ]  # fmt: skip


def test_every_package_says_what_goes_in_and_out():
    folders = [name for name in architecture_map.packages() if (ROOT / "reflexion_lab" / name).is_dir()]
    assert len(folders) == 14
    for name in folders:
        text = (ROOT / "reflexion_lab" / name / "__init__.py").read_text()
        assert "In" in text and "ut:" in text, name


RUN = """
import sys, threading

executed = set()
def note(frame, event, _):
    executed.add(frame.f_code.co_filename)
threading.setprofile(note), sys.setprofile(note)
from reflexion_lab.cli.main import main
status = main(["run", "model=simulated", "actor=single_shot", "benchmark.limit=2", "tracker=none", "quiet=true"])
sys.setprofile(None)
print("executed", *sorted(executed), sep="\\n")
sys.exit(status)
"""


def test_one_attempt_passes_the_files_that_the_page_names(tmp_path):
    section = PAGE.partition("One attempt, from the command")[2].partition("\n## ")[0]
    files = re.findall(r"\[`([\w/]+\.py)`\]", section)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # this checkout, whatever is installed
    command = [sys.executable, "-c", RUN]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    executed = ran.stdout.partition("executed\n")[2].splitlines()
    assert len(files) == 20
    assert [file for file in files if not any(path.endswith(f"reflexion_lab/{file}") for path in executed)] == []
    assert "`text/prompts/memory.md.jinja`" in section
    assert (ROOT / "reflexion_lab/text/prompts/memory.md.jinja").is_file()
