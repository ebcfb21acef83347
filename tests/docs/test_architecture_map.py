"""The README's map of the package is that of the code."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("architecture_map", ROOT / "docs" / "architecture_map.py")
assert SPEC and SPEC.loader
architecture_map = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(architecture_map)


def test_the_readme_has_the_map_of_the_code():
    readme = (ROOT / "README.md").read_text()
    assert architecture_map.table() in readme, "run python docs/architecture_map.py --write"


def test_every_wing_says_what_goes_in_and_out():
    folders = [wing for wing in architecture_map.wings() if (ROOT / "reflexion_lab" / wing).is_dir()]
    assert len(folders) == 14
    for wing in folders:
        text = (ROOT / "reflexion_lab" / wing / "__init__.py").read_text()
        assert "In" in text and "ut:" in text, wing


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


def test_one_attempt_passes_the_files_that_the_readme_names(tmp_path):
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("One attempt, from the command")[2].partition("<!-- wings -->")[0]
    files = re.findall(r"\((reflexion_lab/[\w/]+\.py)\)", section)
    ran = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True, cwd=tmp_path)
    executed = ran.stdout.partition("executed\n")[2].splitlines()
    assert len(files) == 13
    assert [file for file in files if not any(path.endswith(file) for path in executed)] == []
    assert (ROOT / "reflexion_lab/text/prompts/memory.md.jinja").is_file()
