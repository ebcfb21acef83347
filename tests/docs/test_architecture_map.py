"""The README's map of the package is that of the code."""

import importlib.util
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
