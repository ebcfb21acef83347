"""The map of the package in README.md, made from the order of the wings and the first line of each one's docstring.

python docs/architecture_map.py --write
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- wings -->\n", "<!-- /wings -->\n"


def wings() -> list[str]:
    """Names of the wings and modules beside them, the top one first: each may import those below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [layer for layer in contracts[0]["layers"] if layer != "__main__"]


def line(wing: str) -> str:
    """The first line of a wing's docstring, and of its rooms their names."""
    folder = ROOT / "reflexion_lab" / wing
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
    rooms = sorted(room.parent.name for room in folder.glob("*/__init__.py"))
    return f"| `{wing}` | {first} | {' '.join(f'`{room}`' for room in rooms)} |"


def table() -> str:
    return "\n".join(["| package | what it does | subpackages |", "|---|---|---|", *map(line, wings()), ""])


def updated(readme: str) -> str:
    """`readme` with the present map between its two marks."""
    return re.sub(f"(?<={BEGIN}).*?(?={END})", lambda _: table(), readme, flags=re.DOTALL)


if __name__ == "__main__":
    path = ROOT / "README.md"
    if "--write" in sys.argv:
        path.write_text(updated(path.read_text()))
    else:
        print(table(), end="")
